"""The scales that policies divide by, measured on trajectories."""

import equinox as eqx
import jax

from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories


@jax.jit
def measure_policy_scales(policies: Policy, trajectories: Trajectories) -> Policy:
    """Update the scales of the policies' memories and scalings from trajectories."""

    def one(policy: Policy, trajectories: Trajectories) -> Policy:
        memory, scaling, valid = policy.memory, policy.scaling, trajectories.valid
        if memory is not None:
            memory = memory.measure(trajectories.perceived, trajectories.actions, valid)
        if scaling is not None:
            scaling = scaling.measure(trajectories.perceived[..., : policy.observation_size], valid)
        if memory is not None and policy.scaling is not None and scaling is not None:
            # Changes are measured in units of observations, and these units have just been updated.
            units = policy.scaling.deviation / scaling.deviation
            memory = eqx.tree_at(lambda memory: memory.change_scale, memory, memory.change_scale * units)
        parts = memory, scaling
        is_none = lambda leaf: leaf is None  # noqa: E731
        return eqx.tree_at(lambda policy: (policy.memory, policy.scaling), policy, parts, is_leaf=is_none)

    return jax.vmap(one)(policies, trajectories)
