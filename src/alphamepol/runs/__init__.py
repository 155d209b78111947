"""Runs: their configuration, their folder, and the loops that fill it."""
