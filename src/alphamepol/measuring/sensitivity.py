"""How numbers depend on settings: entropies on those of the estimator, learning on its rate."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Sensitivity:
    """The entropy of members with different values of a setting."""

    settings: tuple[int, ...]
    entropies: Float[np.ndarray, "settings members"]


@dataclass(frozen=True)
class Learned:
    """The effect of one epoch with some learning rate on the policy, by its own samples."""

    rate: float
    effective: float
    """The effective share of importance-weighted samples afterwards, in the median mini-batch."""
    worst: float
    """The same in the worst."""
    kl: float
    iterations: int
    backtracks: int
    gain: float
    """Of the objective, by importance weights."""
