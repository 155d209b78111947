"""Observation spaces that are images."""

import gymnasium
import numpy as np

SMALLEST = 7
"""The least height and width that leave anything after them."""


Shape = tuple[int, int, int]


def image_space_shape(space: gymnasium.Space) -> Shape | None:
    """The shape of observations that are images, channels last or first: uint8, at least 7 × 7; None of others."""
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return None
    first, second, third = space.shape
    return (first, second, third) if image_space_is_large_enough((first, second, third)) else None


def image_space_is_large_enough(shape: Shape) -> bool:
    """Whether an image of this shape can be seen."""
    return min(shape[1:] if image_space_has_channels_first(shape) else shape[:2]) >= SMALLEST


def image_space_has_channels_first(shape: Shape) -> bool:
    """Channels are the axis of fewest numbers, the last in doubt."""
    return shape[0] < shape[2]
