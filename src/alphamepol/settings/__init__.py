"""Settings that several commands share, each declared once. Nothing here imports JAX, so that `--help` is quick."""
