"""The measurement of particles that coincide."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped


@dataclass(frozen=True)
class Aliasing:
    """The extent to which particles coincide exactly."""

    coinciding: float
    """The share of particles that coincide with another particle of their mini-batch."""
    largest: int
    """The most particles in one place. It is also the smallest k with which no distance to the k-th neighbour is 0."""


def measure_aliasing(
    particles: Shaped[np.ndarray, "minibatches particles features"], valid: Bool[np.ndarray, "minibatches particles"]
) -> Aliasing:
    """Measure how many particles coincide within each mini-batch."""
    twins, largest = 0, 1
    for points, of in zip(particles, valid, strict=True):
        counts = np.unique(points[of], axis=0, return_counts=True)[1]
        twins += int(counts[counts > 1].sum())
        largest = max(largest, int(counts.max(initial=1)))
    return Aliasing(twins / max(1, int(valid.sum())), largest)
