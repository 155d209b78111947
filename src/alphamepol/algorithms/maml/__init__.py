"""MAML: train a policy that one gradient step adapts to a task."""
