"""What acts."""
