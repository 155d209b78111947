"""Observation spaces that are images."""

import gymnasium
import numpy as np

SMALLEST = 7
"""The smallest height and width of an image. The convolutions of `policies.image_networks.Trunk` would leave nothing
of a smaller image."""


Shape = tuple[int, int, int]


def image_space_shape(space: gymnasium.Space) -> Shape | None:
    """Return the shape of the observations if they are images, else None.

    Images are of type uint8 and have at least 7 × 7 pixels. Their channels are the last or the first axis.
    """
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return None
    first, second, third = space.shape
    return (first, second, third) if image_space_is_large_enough((first, second, third)) else None


def image_space_is_large_enough(shape: Shape) -> bool:
    """Tell whether an image of this shape is large enough for the convolutions."""
    return min(shape[1:] if image_space_has_channels_first(shape) else shape[:2]) >= SMALLEST


def image_space_has_channels_first(shape: Shape) -> bool:
    """Tell whether the channels are the first axis of an image.

    They are the shorter one of the first and the last axis. If both are equally long, the channels are the last axis.
    """
    return shape[0] < shape[2]
