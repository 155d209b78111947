"""MAML."""
