"""The default values that a sweep goes through."""

from alphamepol.settings.policy import MemoryKind

ALPHAS: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)
MEMORIES: tuple[MemoryKind, ...] = ("none",)
