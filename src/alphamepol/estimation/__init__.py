"""The estimators: nearest neighbours, entropy, KL divergence, risk, confidence intervals, and bounds."""
