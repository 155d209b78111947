"""A run on disk and on screen, whatever it trains."""
