"""Classes whose members are drawn by a generator, with their presets."""
