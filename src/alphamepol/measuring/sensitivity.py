"""The effect of settings: of those of the estimator on entropies, and of the learning rate on learning."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Sensitivity:
    """The entropy of each member with different values of a setting."""

    settings: tuple[int, ...]
    """The values of the setting that were tried."""
    entropies: Float[np.ndarray, "settings members"]


@dataclass(frozen=True)
class Learned:
    """The effect of one epoch with one learning rate on the policy, estimated from the samples of the epoch."""

    rate: float
    """The learning rate that was tried."""
    effective: float
    """The effective share of importance-weighted samples after the epoch, in the median mini-batch."""
    worst: float
    """The effective share in the worst mini-batch."""
    kl: float
    """The KL divergence (E6) after the epoch."""
    iterations: int
    """The number of gradient steps that were accepted."""
    backtracks: int
    """The number of gradient steps that left the trust region and were undone."""
    gain: float
    """The increase of the objective, estimated with importance weights."""
