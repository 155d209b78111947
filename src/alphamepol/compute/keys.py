"""Random keys: one per seed, one per purpose, and every salt that keeps random numbers independent.

A salt is a number that is folded into a key, so that two uses of one key draw different numbers. The numbers of epochs,
iterations, steps, tasks and members are folded into keys as well. They are small, and salts are far above them. Two
salts may be equal if they are never folded into the same key. The values must never change, because the same seed must
give the same bits.
"""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

DYNAMICS = 1 << 27
"""The salt for the comparison of dynamics, which keeps it independent of the trajectories."""
SUBSETS = 1 << 28
"""The salt for MEPOL's random subsets of mini-batches, which keeps them independent of the trajectories."""
RESETS = 1 << 29
"""The salt for resets of host environments, which keeps them independent of the actions. The step number is added."""
FIRST_LOOK = 1 << 29
"""The salt for the first trajectories of untrained policies. The unsalted keys build the policies."""
FEATURE_NOISE = 1 << 29
"""The salt for noise on particles, which keeps it independent of the trajectories."""
ENCODER_NOISE = 1 << 30
"""The salt for noise on encoded images. This noise is independent of the trajectories and of the noise on particles."""
MEMORY = 1 << 30
"""The salt for a policy's memory.

The keys of the policy's layers come from `split`, which makes the same keys as `fold_in` of small numbers. The salt is
far above these numbers, so that the memory never gets the key of a layer.
"""
POLICY_TRUNK = (1 << 30) + 1
"""The salt for a policy's convolutions, which keeps them independent of its layers and its memory."""
NETWORK_TRUNK = 1 << 30
"""The salt for the convolutions of critics and discriminators, which keeps them independent of the layers."""
FINETUNING = 1 << 30
"""The salt for fine-tuning, which keeps it independent of pre-training with the same seed. The task number is added."""
TEST_MEMBERS, TRAINING_MEMBERS = 1 << 28, 1 << 29
"""The salts of the two streams of a generated class, which keep its members for evaluation apart from training."""
GOALS = FINETUNING - 1
"""The salt for drawing goals."""


def seed_keys(seeds: Sequence[int]) -> Key[Array, " seeds"]:
    """Return one random key per seed."""
    return _keys_of_seeds(np.array(seeds, np.uint32))


_keys_of_seeds = jax.jit(jax.vmap(jax.random.key))


def goal_key(seed: int) -> PRNGKeyArray:
    """Return the key for drawing goals, which is the same for every initial policy."""
    return jax.random.fold_in(jax.random.key(seed), GOALS)


def finetuning_keys(seed: int, seeds: int, tasks: int) -> Key[Array, " rows"]:
    """Return a key for each task and seed. The keys of one task are adjacent."""
    return _finetuning_keys_of_seeds(seed_keys(list(range(seed, seed + seeds))), tasks)


@partial(jax.jit, static_argnums=1)
def _finetuning_keys_of_seeds(keys: Key[Array, " seeds"], tasks: int) -> Key[Array, " rows"]:
    of_tasks = jax.vmap(lambda task: jax.vmap(lambda key: jax.random.fold_in(key, FINETUNING + task))(keys))
    return of_tasks(jnp.arange(tasks)).reshape(-1)


class Purposes(eqx.Module):
    """The independent keys of each seed, by their purpose."""

    policy: Key[Array, " seeds"]
    epochs: Key[Array, " seeds"]
    evaluation: Key[Array, " seeds"]


@jax.jit
def split_keys_by_purpose(keys: Key[Array, " seeds"]) -> Purposes:
    """Split the key of each seed into keys for building the policy, for the epochs and for evaluation."""
    parts = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
    return Purposes(parts[:, 0], parts[:, 1], parts[:, 2])
