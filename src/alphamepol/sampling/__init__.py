"""Collecting trajectories."""
