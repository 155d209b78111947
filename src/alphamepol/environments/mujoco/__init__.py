"""MuJoCo environments."""
