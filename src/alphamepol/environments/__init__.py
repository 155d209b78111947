"""The environments that an agent can act in."""
