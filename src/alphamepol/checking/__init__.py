"""The `check` command."""
