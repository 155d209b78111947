"""From a policy and a class of environments to entropies, and to where agents went."""
