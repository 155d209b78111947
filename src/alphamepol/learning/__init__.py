"""Learning from trajectories."""
