"""Untrained policies."""

import jax
from jaxtyping import PRNGKeyArray

from alphamepol.compute.keys import MEMORY, POLICY_TRUNK
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import Memory
from alphamepol.policies.policy import CategoricalPolicy, GaussianPolicy, Policy
from alphamepol.policies.scaling import Scaling
from alphamepol.policies.shape import PolicyShape
from alphamepol.settings.policy import PolicySettings


def fresh_policy(shape: PolicyShape, settings: PolicySettings, features: int = 0, *, key: PRNGKeyArray) -> Policy:
    """Build an untrained policy. `features` is the size of a particle, which only policies with scaling need."""
    memory = None
    if settings.memory != "none":
        units = settings.recurrent_units if settings.memory == "recurrent" else 0
        memory = Memory(shape.observation_size, shape.actions, units, key=jax.random.fold_in(key, MEMORY))
    scaling = Scaling(shape.observation_size, features, shape.actions) if settings.normalise else None
    trunk = shape.image and Trunk(shape.image, key=jax.random.fold_in(key, POLICY_TRUNK))
    sizes = shape.observation_size, shape.action_size, settings.hidden
    if shape.kind == "categorical":
        return CategoricalPolicy(*sizes, memory, scaling, trunk, key=key)
    return GaussianPolicy(*sizes, settings.initial_log_std, memory, scaling, trunk, key=key)
