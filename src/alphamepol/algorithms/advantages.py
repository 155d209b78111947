"""The advantages of the steps of a trajectory (T1)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def generalised_advantages(
    rewards: Float[Array, " time"],
    ended: Bool[Array, " time"],
    values: Float[Array, " time"],
    last_value: Float[Array, ""],
    discount: Float[Array, ""],
    gae_lambda: Float[Array, ""],
) -> Float[Array, " time"]:
    """Return the generalised advantages (T1) of the steps of one trajectory.

    After a step that ends an episode, the value of the next state is 0. The trajectory itself may be cut in the middle
    of an episode. Then `last_value` is the value of the state after the last step.
    """
    goes_on = jnp.where(ended, 0.0, discount)
    surprises = rewards + goes_on * jnp.append(values[1:], last_value) - values

    def then(later, earlier):
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    return jax.lax.associative_scan(then, (goes_on * gae_lambda, surprises), reverse=True)[1]


def normalise_advantages(
    advantages: Float[Array, " rows"], valid: Bool[Array, " rows"] | None = None
) -> Float[Array, " rows"]:
    """Scale advantages to mean 0 and deviation 1 over the valid ones. All become 0 if they are equal up to rounding."""
    deviation = jnp.std(advantages, where=valid)
    largest = jnp.max(jnp.abs(advantages), where=valid, initial=0.0)
    differ = deviation > 1e-6 * largest
    return jnp.where(differ, (advantages - jnp.mean(advantages, where=valid)) / jnp.where(differ, deviation, 1.0), 0.0)
