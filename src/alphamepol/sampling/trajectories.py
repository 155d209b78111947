"""What sampling hands on: after it, nothing knows where the data came from."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, Shaped


class Trajectories(eqx.Module):
    """The samples of an epoch, mini-batch by mini-batch; axes (seed, mini-batch, trajectory, time) unless mapped over.

    The particle at time t is of the state *reached* by the action at time t. Steps after an early end are not valid.
    """

    observations: Shaped[Array, "*batch time observation"]
    actions: Shaped[Array, "*batch time action"]
    particles: Float[Array, "*batch time features"]
    valid: Bool[Array, "*batch time"]
    members: Int[Array, "*minibatch"]
