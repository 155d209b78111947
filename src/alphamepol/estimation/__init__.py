"""Estimators: neighbours, entropy, divergence, risk, intervals, bounds."""
