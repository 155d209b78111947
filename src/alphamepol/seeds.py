"""Random keys of the seeds."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray


def seed_keys(seeds: list[int]) -> Key[Array, " seeds"]:
    """One random key per seed."""
    return jax.vmap(jax.random.key)(jnp.array(seeds, jnp.uint32))


FINETUNING = 1 << 30
"""Sets the random numbers of fine-tuning apart from those of pre-training with the same seed."""


def goal_key(seed: int) -> PRNGKeyArray:
    """The key that goals are drawn with, the same for every initial policy."""
    return jax.random.fold_in(jax.random.key(seed), FINETUNING - 1)


def finetuning_keys(seed: int, seeds: int, tasks: int) -> Key[Array, " rows"]:
    """A key for each task and seed, seeds of a task side by side."""
    of_seeds = seed_keys(list(range(seed, seed + seeds)))
    of_tasks = jax.vmap(lambda task: jax.vmap(lambda key: jax.random.fold_in(key, FINETUNING + task))(of_seeds))
    return of_tasks(jnp.arange(tasks)).reshape(-1)


class Purposes(eqx.Module):
    """Independent keys of each seed, by what they are for."""

    policy: Key[Array, " seeds"]
    epochs: Key[Array, " seeds"]
    evaluation: Key[Array, " seeds"]


@jax.jit
def split_purposes(keys: Key[Array, " seeds"]) -> Purposes:
    """Keys for building the policy, for the epochs and for evaluation."""
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    return Purposes(parts[:, 0], parts[:, 1], parts[:, 2])
