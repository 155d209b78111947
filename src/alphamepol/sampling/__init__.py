"""The collection of trajectories."""
