"""Every drawing and table."""
