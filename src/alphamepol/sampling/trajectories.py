"""What sampling hands on: after it, nothing knows where the data came from."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped


class Trajectories(eqx.Module):
    """The samples of an epoch, mini-batch by mini-batch; axes (seed, mini-batch, trajectory, time) unless mapped over.

    What is perceived is the observation, and what the policy's memory adds to it. The particle at time t is of the
    state *reached* by the action at time t. Steps after an early end are not valid.
    """

    perceived: Shaped[Array, "*batch time inputs"]
    actions: Shaped[Array, "..."]
    particles: Float[Array, "*batch time features"]
    valid: Bool[Array, "*batch time"]
    members: Int[Array, "*minibatch"]
    places: Float[Array, "*batch time 2"] | None = None
    """Where on a map the agent was with each particle; None where nobody knows, or particles are places themselves."""

    @property
    def whereabouts(self) -> Float[Array, "*batch time coordinates"]:
        """The places, or the particles where there are none."""
        return self.particles if self.places is None else self.places


class Episodes(eqx.Module):
    """The samples of an iteration of reinforcement learning: trajectories in which episode follows episode.

    An episode that has not ended with the last step is cut there, and would have gone on from `last_perceived`.
    """

    perceived: Shaped[Array, "*batch time inputs"]
    actions: Shaped[Array, "..."]
    rewards: Float[Array, "*batch time"]
    ended: Bool[Array, "*batch time"]
    last_perceived: Shaped[Array, "*batch inputs"]

    @property
    def starts(self) -> Bool[Array, "*batch time"]:
        """Where an episode begins."""
        return jnp.concatenate([jnp.ones_like(self.ended[..., :1]), self.ended[..., :-1]], axis=-1)

    @property
    def mean_return(self) -> Float[Array, ""]:
        """Undiscounted return, averaged over the episodes that began with the iteration.

        Each of them had the whole horizon before it; counting the later, cut ones would favour short successes.
        """
        earlier_ends = jnp.cumsum(self.ended, axis=-1) - self.ended
        return jnp.mean(jnp.sum(jnp.where(earlier_ends == 0, self.rewards, 0.0), axis=-1))
