"""Continuous gridworlds."""
