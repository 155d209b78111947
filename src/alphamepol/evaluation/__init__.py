"""What is done with trained policies."""
