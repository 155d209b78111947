"""How large the numbers are that an environment gives."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

WILD = 10.0
"""Numbers that a network sees should be of order one; from this factor on they are not."""


UNEQUAL = 30.0
"""Components whose deviations differ by such a factor do not count alike."""


@dataclass(frozen=True)
class ComponentScales:
    """How large the components of something are, over all samples."""

    mean: Float[np.ndarray, " components"]
    deviation: Float[np.ndarray, " components"]
    low: Float[np.ndarray, " components"]
    high: Float[np.ndarray, " components"]

    @property
    def moving(self) -> Bool[np.ndarray, " components"]:
        """Those that are not constant."""
        return self.deviation > 1e-6 * np.maximum(np.abs(self.mean), 1e-30)

    @property
    def size(self) -> Float[np.ndarray, " components"]:
        """The root mean square of each."""
        return np.hypot(self.mean, self.deviation)

    @property
    def inequality(self) -> float:
        """The largest deviation over the smallest, of those that move."""
        moving = self.deviation[self.moving]
        return float(moving.max() / moving.min()) if moving.size else 1.0


def component_scales_of(values: Shaped[np.ndarray, "samples components"]) -> ComponentScales:
    values = np.asarray(values, float)
    return ComponentScales(values.mean(axis=0), values.std(axis=0), values.min(axis=0), values.max(axis=0))


def wild_component_scale(scale: ComponentScales) -> int | None:
    """The largest component, if it is too large, or if even it is so small that nothing is seen; small ones beside
    others do little harm. A constant can be too large, but does not make up for what is small."""
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
