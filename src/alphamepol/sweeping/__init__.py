"""Sweeps: many runs on one class of environments, and a page about what α and memory buy."""
