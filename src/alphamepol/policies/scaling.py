"""What brings observations, actions and particles to order one, where an environment has other units (M3)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from alphamepol.policies.memory import ActionRange


class Scaling(eqx.Module):
    """Observations have their running mean and deviation taken out; actions are counted from the middle of their range,
    in halves of it; particles are divided by a deviation that is measured once.
    """

    mean: Float[Array, " observation"]
    variance: Float[Array, " observation"]
    measured_steps: Float[Array, ""]
    """How many steps the two are of."""
    particle_deviation: Float[Array, " features"]
    """The unit of entropies, which must not change while they are compared."""
    actions: ActionRange = eqx.field(static=True)

    def __init__(self, observation_size: int, feature_size: int, actions: ActionRange):
        """Nothing is measured yet."""
        self.mean, self.variance = jnp.zeros(observation_size), jnp.zeros(observation_size)
        self.measured_steps = jnp.zeros(())
        self.particle_deviation = jnp.ones(feature_size)
        self.actions = actions

    @property
    def deviation(self) -> Float[Array, " observation"]:
        """What observations are divided by; 1 for what has never moved."""
        moves = self.variance > (1e-5 * self.mean) ** 2
        return jnp.where(moves, jnp.sqrt(jnp.where(moves, self.variance, 1.0)), 1.0)

    def observation(self, observation: Shaped[Array | np.ndarray, " observation"]) -> Float[Array, " observation"]:
        """The observation in units of its deviation."""
        return (jnp.asarray(observation, jnp.float32) - self.mean) / self.deviation

    def measure(
        self, scaled: Float[Array, "*trajectories time observation"], valid: Bool[Array, "*trajectories time"]
    ) -> "Scaling":
        """Take observations of trajectories, as scaled so far, into mean and deviation, which are over all steps."""
        axes = tuple(range(valid.ndim))
        count = jnp.sum(valid, dtype=jnp.float32)
        mean = jnp.sum(jnp.where(valid[..., None], scaled, 0.0), axis=axes) / jnp.maximum(count, 1.0)
        variance = jnp.mean((scaled - mean) ** 2, axis=axes, where=valid[..., None])
        steps = self.measured_steps + count
        share = count / jnp.maximum(steps, 1.0)
        change = self.deviation * mean  # from the mean so far to that of these steps
        inside = (1 - share) * self.variance + share * self.deviation**2 * variance
        return eqx.tree_at(
            lambda scaling: (scaling.mean, scaling.variance, scaling.measured_steps),
            self,
            (self.mean + share * change, inside + share * (1 - share) * change**2, steps),
        )


def deviation_for_scaling(
    particles: Float[Array, "*sets features"], valid: Bool[Array, "*sets"]
) -> Float[Array, " features"]:
    """The deviation of each feature over all valid particles; 1 where a feature never changes."""
    axes, counted = tuple(range(valid.ndim)), valid[..., None]
    deviation = jnp.std(particles, axis=axes, where=counted)
    largest = jnp.max(jnp.abs(particles), axis=axes, where=counted, initial=0.0)
    return jnp.where(deviation > 1e-6 * largest, deviation, 1.0)
