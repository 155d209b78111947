"""Fronts: what a run gives up for what it gains."""
