"""Untrained policies for a class of environments."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from alphamepol.compute.keys import FIRST_LOOK
from alphamepol.compute.mapping import map_leading_axis
from alphamepol.environments.host import AnyClass
from alphamepol.measuring.particles import particle_size
from alphamepol.measuring.policy_scales import measure_policy_scales
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import PolicyShape, fresh_policy, policy_shape
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.settings.policy import PolicySettings
from alphamepol.settings.samples import EncoderKind


@dataclass(frozen=True)
class FirstLook:
    """The plan of the first trajectories, on which the scales of untrained policies are measured."""

    members: Int[Array, "rows minibatches"]
    batch: int
    """The number of trajectories in each of the members."""
    horizon: int


def untrained_policies_for_class(
    keys: Key[Array, " rows"],
    environment_class: AnyClass,
    settings: PolicySettings,
    first: FirstLook | None,
    encoder: EncoderKind = "auto",
) -> Policy:
    """Build an untrained policy for each key, and measure the scales of its memory and its inputs.

    The scales are measured on the trajectories of `first`. If `first` is None, nothing is sampled: the policies have
    the right shapes, but unmeasured scales.
    """
    policies = _unmeasured_untrained_policies(keys, environment_class, settings, encoder)
    if first is None or (policies.memory is None and policies.scaling is None):
        return policies
    sampling_keys = jax.vmap(lambda key: jax.random.fold_in(key, FIRST_LOOK))(keys)
    lookers = policies if policies.scaling is None else _blind_untrained_policies(policies)
    seen = collect_with_sampler(
        lookers, environment_class, first.members, batch=first.batch, horizon=first.horizon, keys=sampling_keys
    )
    return measure_policy_scales(policies, seen)


def _blind_untrained_policies(policies: Policy) -> Policy:
    """Return policies that ignore their observations, because the scale of observations is not known yet."""
    first = policies.layers[0].weight
    return eqx.tree_at(lambda policies: policies.layers[0].weight, policies, jnp.zeros_like(first))


def _unmeasured_untrained_policies(
    keys: Key[Array, " rows"], environment_class: AnyClass, settings: PolicySettings, encoder: EncoderKind
) -> Policy:
    features = particle_size(environment_class, encoder) if settings.normalise else 0
    return _build_untrained_policies(keys, policy_shape(environment_class), settings, features)


@partial(jax.jit, static_argnums=(1, 2, 3))
def _build_untrained_policies(
    keys: Key[Array, " rows"], shape: PolicyShape, settings: PolicySettings, features: int
) -> Policy:
    return map_leading_axis(lambda key: fresh_policy(shape, settings, features, key=key))(keys)
