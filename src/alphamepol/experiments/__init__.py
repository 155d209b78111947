"""Whole studies made of runs."""
