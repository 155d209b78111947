"""Untrained policies for a class of environments."""

from functools import partial

import equinox as eqx
import jax
from jaxtyping import Array, Int, Key

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.mapping import map_leading_axis
from alphamepol.policies import Policy, PolicySettings, PolicyShape, fresh_policy
from alphamepol.runs.checks import policy_shape
from alphamepol.runs.config import FinetuneConfig, PretrainConfig
from alphamepol.sampling.compiled import collect
from alphamepol.sampling.trajectories import Trajectories

FIRST_LOOK = 1 << 29
"""Sets the random numbers of the first trajectories apart from those that policies are built with."""


def fresh_policies(
    keys: Key[Array, " rows"],
    environment_class: EnvironmentClass,
    config: PretrainConfig | FinetuneConfig,
    *,
    members: Int[Array, "rows minibatches"],
    batch: int,
    horizon: int,
) -> Policy:
    """An untrained policy for each key.

    What a memory is scaled by is measured on a first `batch` of trajectories in each of `members`.
    """
    settings = PolicySettings(config.hidden, config.initial_log_std, config.memory, config.recurrent_units)
    policies = _build(keys, policy_shape(environment_class), settings)
    if policies.memory is None:
        return policies
    sampling_keys = jax.vmap(lambda key: jax.random.fold_in(key, FIRST_LOOK))(keys)
    first = collect(policies, environment_class, members, batch=batch, horizon=horizon, keys=sampling_keys)
    return measure(policies, first)


@jax.jit
def measure(policies: Policy, trajectories: Trajectories) -> Policy:
    """Take trajectories into the scales of the policies' memories."""

    def one(policy: Policy, trajectories: Trajectories) -> Policy:
        assert policy.memory is not None
        memory = policy.memory.measure(trajectories.perceived, trajectories.actions, trajectories.valid)
        return eqx.tree_at(lambda policy: policy.memory, policy, memory)

    return jax.vmap(one)(policies, trajectories)


@partial(jax.jit, static_argnums=(1, 2))
def _build(keys: Key[Array, " rows"], shape: PolicyShape, settings: PolicySettings) -> Policy:
    return map_leading_axis(lambda key: fresh_policy(shape, settings, key=key))(keys)
