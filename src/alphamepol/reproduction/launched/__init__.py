"""Planned runs as tasks, which are done in processes of their own."""
