"""The scaling of observations, actions and particles to order one (M3).

Environments whose values are much larger or smaller need it.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from alphamepol.compute.squares import exponent_for_squares
from alphamepol.policies.memory import ActionRange


class Scaling(eqx.Module):
    """The scales of a policy's observations, actions and particles (M3).

    Observations have their running mean subtracted, and are divided by their running standard deviation. Actions are
    counted from the middle of their range, in units of half the range. Particles are divided by a standard deviation
    that is measured once.
    """

    mean: Float[Array, " observation"]
    """The running mean of observations."""
    variance: Float[Array, " observation"]
    """The running variance of observations."""
    measured_steps: Float[Array, ""]
    """The number of steps on which mean and variance were measured."""
    particle_deviation: Float[Array, " features"]
    """The standard deviation of particles. It is the unit of entropies, and must not change while they are compared."""
    actions: ActionRange = eqx.field(static=True)

    def __init__(self, observation_size: int, feature_size: int, actions: ActionRange):
        """Build a scaling without measured scales."""
        self.mean, self.variance = jnp.zeros(observation_size), jnp.zeros(observation_size)
        self.measured_steps = jnp.zeros(())
        self.particle_deviation = jnp.ones(feature_size)
        self.actions = actions

    @property
    def deviation(self) -> Float[Array, " observation"]:
        """The divisor of observations: their standard deviation, or 1 for a component that has never changed."""
        moves = self.variance > (1e-5 * self.mean) ** 2
        return jnp.where(moves, jnp.sqrt(jnp.where(moves, self.variance, 1.0)), 1.0)

    def observation(self, observation: Shaped[Array | np.ndarray, " observation"]) -> Float[Array, " observation"]:
        """Return the scaled observation."""
        return (jnp.asarray(observation, jnp.float32) - self.mean) / self.deviation

    def measure(
        self, scaled: Float[Array, "*trajectories time observation"], valid: Bool[Array, "*trajectories time"]
    ) -> "Scaling":
        """Return the scaling with mean and variance over all steps so far: those measured before, and these.

        `scaled` holds the observations of trajectories, as this scaling has scaled them.
        """
        axes = tuple(range(valid.ndim))
        count = jnp.sum(valid, dtype=jnp.float32)
        mean = jnp.sum(jnp.where(valid[..., None], scaled, 0.0), axis=axes) / jnp.maximum(count, 1.0)
        variance = jnp.mean((scaled - mean) ** 2, axis=axes, where=valid[..., None])
        steps = self.measured_steps + count
        share = count / jnp.maximum(steps, 1.0)
        change = self.deviation * mean  # from the previous mean to the mean of these steps
        inside = (1 - share) * self.variance + share * self.deviation**2 * variance
        return eqx.tree_at(
            lambda scaling: (scaling.mean, scaling.variance, scaling.measured_steps),
            self,
            (self.mean + share * change, inside + share * (1 - share) * change**2, steps),
        )


def deviation_for_scaling(
    particles: Float[Array, "*sets features"], valid: Bool[Array, "*sets"]
) -> Float[Array, " features"]:
    """Return the standard deviation of each feature over all valid particles; 1 for a feature that never changes."""
    axes, counted = tuple(range(valid.ndim)), valid[..., None]
    largest = jnp.max(jnp.abs(particles), axis=axes, where=counted, initial=0.0)
    exponent = exponent_for_squares(largest)
    deviation = jnp.ldexp(jnp.std(jnp.ldexp(particles, -exponent), axis=axes, where=counted), exponent)
    return jnp.where(deviation > 1e-6 * largest, deviation, 1.0)
