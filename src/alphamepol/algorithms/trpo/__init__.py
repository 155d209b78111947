"""TRPO, trust-region policy optimisation: an algorithm for fine-tuning."""
