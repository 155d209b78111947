"""Seeds as one program: how a function of one seed is mapped over the leading axis of its arguments."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray


def map_over_seeds(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map over the seed axis: all seeds at once on an accelerator, one after the other on a CPU.

    A CPU is full with one seed, whose work then stays in its cache; and no seed waits in another's loop.
    """
    if jax.default_backend() == "cpu":
        return lambda *arguments: jax.lax.map(lambda one: function(*one), arguments)
    return jax.vmap(function)


def seed_keys(seeds: list[int]) -> PRNGKeyArray:
    """One random key per seed."""
    return jax.vmap(jax.random.key)(jnp.array(seeds, jnp.uint32))


class Purposes(eqx.Module):
    """Independent keys of each seed, by what they are for."""

    policy: PRNGKeyArray
    epochs: PRNGKeyArray
    evaluation: PRNGKeyArray


def split_purposes(keys: PRNGKeyArray) -> Purposes:
    """Keys for building the policy, for the epochs and for evaluation."""
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    return Purposes(parts[:, 0], parts[:, 1], parts[:, 2])
