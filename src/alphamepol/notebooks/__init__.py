"""Notebooks: what shows objects and progress there."""
