"""All figures, and all tables of the terminal."""
