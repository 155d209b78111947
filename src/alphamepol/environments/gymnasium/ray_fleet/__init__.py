"""Workers of a Gymnasium class as actors of a Ray cluster."""
