"""Random keys: one per seed, one per purpose, and every salt that sets random numbers apart.

A salt is folded into a key, so that two uses of one key draw different numbers. Small numbers are the counts of epochs,
iterations, steps, tasks or members, which are folded in as well; salts are far above them. Two salts may be equal if
no key meets both. The values are part of what "same seed, same bits" means: they never change.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

DYNAMICS = 1 << 27
"""The comparison of dynamics, apart from trajectories."""
SUBSETS = 1 << 28
"""MEPOL's random subsets of mini-batches, apart from trajectories."""
RESETS = 1 << 29
"""Resets of host environments, apart from actions; the number of the step is added."""
FIRST_LOOK = 1 << 29
"""The first trajectories of untrained policies, apart from the keys that policies are built with."""
FEATURE_NOISE = 1 << 29
"""Noise on particles, apart from trajectories."""
ENCODER_NOISE = 1 << 30
"""Noise on encoded images, apart from trajectories and from noise on particles."""
MEMORY = 1 << 30
"""A policy's memory, far from the keys of its layers, which `split` makes as `fold_in` of small numbers does."""
POLICY_TRUNK = (1 << 30) + 1
"""A policy's convolutions, apart from its layers and its memory."""
NETWORK_TRUNK = 1 << 30
"""The convolutions of critics and discriminators, apart from their layers."""
FINETUNING = 1 << 30
"""Fine-tuning, apart from pre-training with the same seed; the number of the task is added."""
GOALS = FINETUNING - 1
"""The draw of goals."""


def seed_keys(seeds: list[int]) -> Key[Array, " seeds"]:
    """One random key per seed."""
    return _keys_of_seeds(np.array(seeds, np.uint32))


_keys_of_seeds = jax.jit(jax.vmap(jax.random.key))


def goal_key(seed: int) -> PRNGKeyArray:
    """The key that goals are drawn with, the same for every initial policy."""
    return jax.random.fold_in(jax.random.key(seed), GOALS)


def finetuning_keys(seed: int, seeds: int, tasks: int) -> Key[Array, " rows"]:
    """A key for each task and seed, seeds of a task side by side."""
    return _finetuning_keys_of_seeds(seed_keys(list(range(seed, seed + seeds))), tasks)


@partial(jax.jit, static_argnums=1)
def _finetuning_keys_of_seeds(keys: Key[Array, " seeds"], tasks: int) -> Key[Array, " rows"]:
    of_tasks = jax.vmap(lambda task: jax.vmap(lambda key: jax.random.fold_in(key, FINETUNING + task))(keys))
    return of_tasks(jnp.arange(tasks)).reshape(-1)


class Purposes(eqx.Module):
    """Independent keys of each seed, by what they are for."""

    policy: Key[Array, " seeds"]
    epochs: Key[Array, " seeds"]
    evaluation: Key[Array, " seeds"]


@jax.jit
def split_keys_by_purpose(keys: Key[Array, " seeds"]) -> Purposes:
    """Keys for building the policy, for the epochs and for evaluation."""
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    return Purposes(parts[:, 0], parts[:, 1], parts[:, 2])
