"""TRPO, a fine-tuner."""
