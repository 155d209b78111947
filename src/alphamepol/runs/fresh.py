"""Untrained policies for a class of environments."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from alphamepol.environments.host import AnyClass
from alphamepol.mapping import map_leading_axis
from alphamepol.policies import Policy, PolicySettings, PolicyShape, fresh_policy
from alphamepol.runs.checks import policy_shape
from alphamepol.runs.config import AnyConfig, PretrainConfig
from alphamepol.runs.particles import encode, find_encoder, particle_size
from alphamepol.sampling.sampler import collect
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.scaling import deviation_of

FIRST_LOOK = 1 << 29
"""Sets the random numbers of the first trajectories apart from those that policies are built with."""


def fresh_policies(
    keys: Key[Array, " rows"],
    environment_class: AnyClass,
    config: AnyConfig,
    *,
    members: Int[Array, "rows minibatches"],
    batch: int,
    horizon: int,
    look: bool = True,
) -> Policy:
    """An untrained policy for each key.

    What memory and scaling divide by is measured on a first `batch` of trajectories in each of `members`, unless `look`
    is false: then policies have the right shapes, and nothing is sampled.
    """
    policies = _unmeasured(keys, environment_class, config)
    if not look or (policies.memory is None and policies.scaling is None):
        return policies
    sampling_keys = jax.vmap(lambda key: jax.random.fold_in(key, FIRST_LOOK))(keys)
    lookers = policies if policies.scaling is None else _blind(policies)
    first = collect(lookers, environment_class, members, batch=batch, horizon=horizon, keys=sampling_keys)
    return measure(policies, first)


def particle_deviation(environment_class: AnyClass, config: PretrainConfig) -> Float[Array, " features"]:
    """The unit of entropies: the deviation of particles over the whole class, with a certain untrained policy.

    It does not depend on seeds or α, so that runs that differ in those can be compared.
    """
    keys = jax.random.key(0)[None]
    policies, members = _unmeasured(keys, environment_class, config), jnp.arange(len(environment_class))[None]
    first = collect(_blind(policies), environment_class, members, batch=config.batch, horizon=config.horizon, keys=keys)
    encoder = find_encoder(environment_class, config)
    # Without the encoder's noise: a feature that nothing but noise moves has no size, and stays what it is.
    particles = first.particles if encoder is None else encode(encoder, first.particles, keys, noisy=False)
    return deviation_of(particles, first.valid)


@jax.jit
def measure(policies: Policy, trajectories: Trajectories) -> Policy:
    """Take trajectories into what the policies' memories and scalings divide by."""

    def one(policy: Policy, trajectories: Trajectories) -> Policy:
        memory, scaling, valid = policy.memory, policy.scaling, trajectories.valid
        if memory is not None:
            memory = memory.measure(trajectories.perceived, trajectories.actions, valid)
        if scaling is not None:
            scaling = scaling.measure(trajectories.perceived[..., : policy.observation_size], valid)
        if memory is not None and policy.scaling is not None and scaling is not None:
            # Changes are in the units of observations, which are new.
            units = policy.scaling.deviation / scaling.deviation
            memory = eqx.tree_at(lambda memory: memory.change_scale, memory, memory.change_scale * units)
        parts = memory, scaling
        is_none = lambda leaf: leaf is None  # noqa: E731
        return eqx.tree_at(lambda policy: (policy.memory, policy.scaling), policy, parts, is_leaf=is_none)

    return jax.vmap(one)(policies, trajectories)


def _blind(policies: Policy) -> Policy:
    """Policies that act at random whatever they see, because they cannot see yet: its scale is not known."""
    first = policies.layers[0].weight
    return eqx.tree_at(lambda policies: policies.layers[0].weight, policies, jnp.zeros_like(first))


def _unmeasured(keys: Key[Array, " rows"], environment_class: AnyClass, config: AnyConfig) -> Policy:
    """An untrained policy for each key, nothing measured."""
    features = particle_size(environment_class, config) if config.normalise else 0
    memory = config.memory, config.recurrent_units
    settings = PolicySettings(config.hidden, config.initial_log_std, *memory, features)
    return _build(keys, policy_shape(environment_class), settings)


@partial(jax.jit, static_argnums=(1, 2))
def _build(keys: Key[Array, " rows"], shape: PolicyShape, settings: PolicySettings) -> Policy:
    return map_leading_axis(lambda key: fresh_policy(shape, settings, key=key))(keys)
