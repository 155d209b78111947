"""The commands for trained policies: `evaluate` and `export`."""
