"""Value at risk and its conditional mean, of entropies: the lower tail is the bad one (E7)."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from alphamepol.errors import InputError


def risk_tail_count(alpha: float, count: int) -> int:
    """⌈αM⌉, the size of the tail of M values.

    The slack absorbs the rounding of α·M: 0.07 · 100 is 7.000000000000001, whose ceiling would be 8.
    """
    if not 0 < alpha <= 1:
        raise InputError(f"alpha: {alpha} was given; it must be above 0 and at most 1")
    if count < 1:
        raise InputError("alpha: the tail of an empty list was asked for; at least one value is needed")
    return max(1, math.ceil(float(alpha) * count - 1e-6))


def value_at_risk(h: Float[Array | np.ndarray, " count"], alpha: float) -> Float[Array, ""]:
    """VaR_α: the ⌈αM⌉-th lowest of M values (E7)."""
    h = jnp.asarray(h)
    return jnp.sort(h)[risk_tail_count(alpha, len(h)) - 1]


def cvar(h: Float[Array | np.ndarray, " count"], alpha: float) -> Float[Array, ""]:
    """CVaR_α: the mean of the ⌈αM⌉ lowest of M values (E7)."""
    h = jnp.asarray(h)
    return jnp.mean(jnp.sort(h)[: risk_tail_count(alpha, len(h))])


def weighted_cvar(h: Float[np.ndarray, " count"], weights: Float[np.ndarray, " count"], alpha: float) -> float:
    """CVaR_α of values that carry probabilities: the mean of the lowest ones that make up α, the last taken in part."""
    order = np.argsort(h)
    shares = np.asarray(weights, np.float64)[order] / np.sum(weights)
    before = np.cumsum(shares) - shares
    taken = np.clip(alpha - before, 0.0, shares)
    return float(np.sum(taken * np.asarray(h, np.float64)[order]) / np.sum(taken))
