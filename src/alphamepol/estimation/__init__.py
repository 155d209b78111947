"""From particles to numbers: neighbours, entropy, risk."""
