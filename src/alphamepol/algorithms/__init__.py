"""The algorithms, one folder each."""
