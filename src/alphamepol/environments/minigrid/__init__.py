"""MiniGrid in JAX."""
