"""Policies: their kinds, networks, memory, scaling, and files."""
