"""The conversion of a policy with scaling into an equal policy without scaling."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from alphamepol.errors import InputError
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import GaussianPolicy


def unscaled_policy(policy: Policy) -> Policy:
    """Return an equal policy without scaling.

    The scaling becomes part of the first layer, of the last layer and of the memory. Biases are computed in double
    precision, because a mean that is many deviations from 0 costs them digits. Raises an `InputError` if the policy
    scales images.
    """
    scaling, memory = policy.scaling, policy.memory
    if scaling is None:
        return policy
    if policy.trunk is not None:
        raise InputError("policy: it scales images pixel by pixel, which cannot become part of its convolutions")
    size = scaling.mean.shape[-1]

    def take_in(weight: Float[Array, "out inputs"], bias: Float[Array, " out"]) -> tuple[Array, Array]:
        """Turn a layer for scaled observations into a layer for unscaled ones."""
        weight = weight.at[:, :size].divide(scaling.deviation)
        subtracted = np.asarray(weight[:, :size], float) @ np.asarray(scaling.mean, float)
        return weight, jnp.asarray(np.asarray(bias, float) - subtracted, jnp.float32)

    first, *others = policy.layers
    weight, bias = take_in(first.weight, first.bias)  # pyright: ignore[reportArgumentType] (it has a bias)
    layers = [eqx.tree_at(lambda layer: (layer.weight, layer.bias), first, (weight, bias)), *others]
    if isinstance(policy, GaussianPolicy):
        middle, half = jnp.array(scaling.actions.middles), jnp.array(scaling.actions.half_ranges)
        last = layers[-1]
        scaled = last.weight * half[:, None], last.bias * half + middle
        layers[-1] = eqx.tree_at(lambda layer: (layer.weight, layer.bias), last, scaled)
        policy = eqx.tree_at(lambda policy: policy.log_std, policy, policy.log_std + jnp.log(half))
    if memory is not None:
        memory = eqx.tree_at(lambda memory: memory.change_scale, memory, memory.change_scale * scaling.deviation)
        if memory.recurrence is not None:
            cell = memory.recurrence
            taken = take_in(cell.weight_ih, cell.bias)  # pyright: ignore[reportArgumentType] (it has a bias)
            memory = eqx.tree_at(lambda m: (m.recurrence.weight_ih, m.recurrence.bias), memory, taken)
    return eqx.tree_at(
        lambda policy: (policy.layers, policy.memory, policy.scaling),
        policy,
        (tuple(layers), memory, None),
        is_leaf=lambda leaf: leaf is None,
    )
