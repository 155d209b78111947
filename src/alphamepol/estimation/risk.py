"""The value at risk (VaR) and the conditional value at risk (CVaR) of entropies; the lower tail is the bad one (E7)."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from alphamepol.errors import InputError


def risk_tail_count(alpha: float, count: int) -> int:
    """Return ⌈αM⌉, the number of values in the tail of M values.

    A slack of 10⁻⁶ absorbs the rounding of α·M: 0.07 · 100 is 7.000000000000001, whose ceiling would be 8.
    """
    if not 0 < alpha <= 1:
        raise InputError(f"alpha: {alpha} was given; it must be above 0 and at most 1")
    if count < 1:
        raise InputError("alpha: the tail of an empty list was asked for; at least one value is needed")
    return max(1, math.ceil(float(alpha) * count - 1e-6))


def value_at_risk(h: Float[Array | np.ndarray, " count"], alpha: float) -> Float[Array, ""]:
    """Return the value at risk VaR_α: the ⌈αM⌉-th lowest of M values (E7).

    **Arguments**

    - `h`: the M values, for example entropies, of shape (M,).
    - `alpha`: the percentile α, above 0 and at most 1.

    **Returns**

    The value at risk, a scalar.

    **Raises**

    - `InputError`: if `alpha` is out of its range, or if `h` is empty.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    print(am.value_at_risk(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), alpha=0.4))  # 2.0
    ```
    """
    h = jnp.asarray(h)
    return jnp.sort(h)[risk_tail_count(alpha, len(h)) - 1]


def cvar(h: Float[Array | np.ndarray, " count"], alpha: float) -> Float[Array, ""]:
    """Return the conditional value at risk CVaR_α: the mean of the ⌈αM⌉ lowest of M values (E7).

    **Arguments**

    - `h`: the M values, for example entropies, of shape (M,).
    - `alpha`: the percentile α, above 0 and at most 1. With 1, the result is the mean of all values.

    **Returns**

    The conditional value at risk, a scalar.

    **Raises**

    - `InputError`: if `alpha` is out of its range, or if `h` is empty.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    print(am.cvar(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), alpha=0.4))  # 1.5, the mean of 1 and 2
    ```
    """
    h = jnp.asarray(h)
    return jnp.mean(jnp.sort(h)[: risk_tail_count(alpha, len(h))])


def weighted_cvar(
    h: Float[np.ndarray, " count"], weights: Float[np.ndarray, "*rows count"], alpha: float
) -> Float[np.ndarray, "*rows"]:
    """Return CVaR_α of values that have probabilities, for each row of probabilities.

    This is the mean of the lowest values whose probabilities add up to α. The last of these values may count in part.
    """
    order = np.argsort(h)
    shares = np.asarray(weights, np.float64)[..., order] / np.sum(weights, axis=-1, keepdims=True)
    before = np.cumsum(shares, axis=-1) - shares
    taken = np.clip(alpha - before, 0.0, shares)
    return np.asarray(np.sum(taken * np.asarray(h, np.float64)[order], axis=-1) / np.sum(taken, axis=-1))
