"""What an agent can act in."""
