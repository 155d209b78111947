"""The parts that all runs share: folder, loop, checkpoints, metrics, progress, and sources of policies."""
