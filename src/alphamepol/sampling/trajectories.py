"""The samples that all samplers return. They have the same form for compiled classes and host classes."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped


class Trajectories(eqx.Module):
    """The samples of an epoch. Their axes are (seed, mini-batch, trajectory, time) unless mapped over.

    `perceived` is the observation together with what the policy's memory adds to it. The particle at time t belongs to
    the state *reached* by the action at time t. Steps after an early end are not valid.
    """

    perceived: Shaped[Array, "*batch time inputs"]
    actions: Shaped[Array, "..."]
    particles: Float[Array, "*batch time features"]
    valid: Bool[Array, "*batch time"]
    members: Int[Array, "*minibatch"]
    places: Float[Array, "*batch time 2"] | None = None
    """The place of the agent on a map, for each particle.

    It is None if the place is unknown, or if the particles are places themselves.
    """

    @property
    def whereabouts(self) -> Float[Array, "*batch time coordinates"]:
        """The places, or the particles if `places` is None."""
        return self.particles if self.places is None else self.places


class Episodes(eqx.Module):
    """The samples of an iteration of reinforcement learning. Within a trajectory, episode follows episode.

    An episode that has not ended at the last step is cut there. It would have gone on from `last_perceived`.
    """

    perceived: Shaped[Array, "*batch time inputs"]
    actions: Shaped[Array, "..."]
    rewards: Float[Array, "*batch time"]
    ended: Bool[Array, "*batch time"]
    last_perceived: Shaped[Array, "*batch inputs"]

    @property
    def starts(self) -> Bool[Array, "*batch time"]:
        """True at the first step of each episode."""
        return jnp.concatenate([jnp.ones_like(self.ended[..., :1]), self.ended[..., :-1]], axis=-1)

    @property
    def mean_return(self) -> Float[Array, ""]:
        """The undiscounted return, averaged over the first episode of each trajectory.

        Each first episode has the whole horizon before it. Later episodes may be cut, and counting them would favour
        short successes.
        """
        earlier_ends = jnp.cumsum(self.ended, axis=-1) - self.ended
        return jnp.mean(jnp.sum(jnp.where(earlier_ends == 0, self.rewards, 0.0), axis=-1))
