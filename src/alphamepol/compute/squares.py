"""Squares of numbers that are too large or too small to be squared in float32."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def exponent_for_squares(largest: Float[Array, "..."]) -> Int[Array, "..."]:
    """Return e, for which numbers as large as `largest`, divided by 2ᵉ, can be squared and summed.

    Squares of numbers below 1e-19 or above 1e19 are no numbers in float32. Dividing by a power of two is exact. A
    deviation that is computed so, and multiplied by this power, has the same bits as one that is computed directly.
    """
    return jnp.clip(jnp.frexp(largest)[1], -100, 100)
