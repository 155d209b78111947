"""Random keys of the seeds."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key


def seed_keys(seeds: list[int]) -> Key[Array, " seeds"]:
    """One random key per seed."""
    return jax.vmap(jax.random.key)(jnp.array(seeds, jnp.uint32))


class Purposes(eqx.Module):
    """Independent keys of each seed, by what they are for."""

    policy: Key[Array, " seeds"]
    epochs: Key[Array, " seeds"]
    evaluation: Key[Array, " seeds"]


def split_purposes(keys: Key[Array, " seeds"]) -> Purposes:
    """Keys for building the policy, for the epochs and for evaluation."""
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    return Purposes(parts[:, 0], parts[:, 1], parts[:, 2])
