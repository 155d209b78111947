"""The settings that several commands share. Nothing here imports JAX, so that `--help` is quick."""
