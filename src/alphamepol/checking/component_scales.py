"""The scales of the numbers that an environment gives."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

WILD = 10.0
"""The factor from which on numbers are not of order one. The inputs of a network should be of order one."""


UNEQUAL = 30.0
"""The factor between the deviations of two components from which on they do not count alike in the entropy."""


@dataclass(frozen=True)
class ComponentScales:
    """The scale of each component of observations or particles, over all samples."""

    mean: Float[np.ndarray, " components"]
    deviation: Float[np.ndarray, " components"]
    """The standard deviation."""
    low: Float[np.ndarray, " components"]
    """The lowest value."""
    high: Float[np.ndarray, " components"]
    """The highest value."""

    @property
    def moving(self) -> Bool[np.ndarray, " components"]:
        """True for each component that is not constant."""
        return self.deviation > 1e-6 * np.maximum(np.abs(self.mean), 1e-30)

    @property
    def size(self) -> Float[np.ndarray, " components"]:
        """The root mean square of each component."""
        return np.hypot(self.mean, self.deviation)

    @property
    def inequality(self) -> float:
        """The largest deviation divided by the smallest, over the components that are not constant."""
        moving = self.deviation[self.moving]
        return float(moving.max() / moving.min()) if moving.size else 1.0


def component_scales_of(values: Shaped[np.ndarray, "samples components"]) -> ComponentScales:
    values = np.asarray(values, float)
    return ComponentScales(values.mean(axis=0), values.std(axis=0), values.min(axis=0), values.max(axis=0))


def wild_component_scale(scale: ComponentScales) -> int | None:
    """Return the number of a component whose scale is a problem, or None.

    This is the largest component, if it is too large. If all components that are not constant are too small, it is the
    largest of them. Small components beside others of order one do little harm. A constant component can be too
    large, but a constant of order one does not help if all others are too small.
    """
    largest = int(np.argmax(scale.size))
    if scale.size[largest] > WILD:
        return largest
    seen = np.where(scale.moving, scale.size, 0.0)
    return int(np.argmax(seen)) if scale.moving.any() and seen.max() < 1 / WILD else None


def component_scale_in_words(scale: ComponentScales, component: int) -> str:
    return f"{scale.mean[component]:.3g} ± {scale.deviation[component]:.3g}"


def least_and_most_component_scales(scale: ComponentScales) -> tuple[Any, Any]:
    moving = np.flatnonzero(scale.moving)
    order = moving[np.argsort(scale.deviation[moving])]
    return order[0], order[-1]
