"""The checks for samples that cannot be measured. Their errors say why."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from alphamepol.environments.environment_warnings import name_of_member
from alphamepol.errors import RunError
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.sampling.trajectories import Trajectories

LARGEST_PARTICLE = 1e16
"""The largest number that a particle may hold. Sums of the squares of larger ones would overflow in float32."""


class CoincidenceError(RunError):
    """The error of a mini-batch in which more than k particles coincide."""


@dataclass(frozen=True)
class Occasion:
    """The occasion on which samples were collected, for error messages."""

    when: str
    """The moment, for example "epoch 3" or "evaluation"."""
    members: Sequence[str]
    seeds: Sequence[int]

    def place(self, bad: Bool[np.ndarray, "seeds minibatches"], trajectories: Trajectories) -> str:
        """Name the first bad mini-batch."""
        seed, minibatch = np.argwhere(bad)[0]
        member = name_as_text(name_of_member(int(trajectories.members[seed, minibatch]), self.members), WIDTH)
        return f"{self.when}, seed {self.seeds[seed]}, mini-batch {minibatch}, environment {member}"


def check_sample_particles(trajectories: Trajectories, k: int, occasion: Occasion) -> None:
    """Raise a `RunError` if a particle is not finite or too large, or if a mini-batch has too few for k neighbours."""
    whole, counts = jax.device_get(_check_finite_and_count_sample(trajectories))
    broken, short = ~whole, counts <= k
    if broken.any():
        where = occasion.place(broken, trajectories)
        seed, minibatch = np.argwhere(broken)[0]
        particles = np.asarray(trajectories.particles[seed, minibatch])[np.asarray(trajectories.valid[seed, minibatch])]
        largest = np.abs(particles).max()
        if not np.isfinite(largest):
            raise RunError(f"{where}: the environment returned a state that is not finite")
        raise RunError(
            f"{where}: the environment returned a particle that holds {largest:.3g}; numbers above "
            f"{LARGEST_PARTICLE:.0e} cannot be measured in float32, so it must be given in a larger unit"
        )
    if short.any():
        raise RunError(
            f"{occasion.place(short, trajectories)}: its trajectories ended so early that there are not "
            f"more than k = {k} particles; use fewer --neighbours or a larger --batch"
        )


@jax.jit
def _check_finite_and_count_sample(
    trajectories: Trajectories,
) -> tuple[Bool[Array, "seeds minibatches"], Int[Array, "seeds minibatches"]]:
    """Tell for each mini-batch whether all its valid particles are finite and not too large, and count them."""
    shape = trajectories.members.shape
    finite = jnp.all(jnp.abs(trajectories.particles) <= LARGEST_PARTICLE, axis=-1) | ~trajectories.valid
    return jnp.all(finite.reshape(*shape, -1), axis=-1), jnp.sum(trajectories.valid.reshape(*shape, -1), axis=-1)


def check_sample_aliasing(
    neighbourhood: Neighbourhood, trajectories: Trajectories, occasion: Occasion, cure: str
) -> None:
    """Raise a `CoincidenceError` error if more than k particles coincide, which makes the entropy −∞."""
    aliased = np.asarray(aliased_sets_of_samples(neighbourhood))
    if aliased.any():
        raise CoincidenceError(
            f"{occasion.place(aliased, trajectories)}: more than k = {neighbourhood.k} particles coincide, "
            f"so that the entropy is minus infinity and has no gradient; {cure}"
        )


@jax.jit
def aliased_sets_of_samples(neighbourhood: Neighbourhood) -> Bool[Array, "*sets"]:
    """Return for each set if more than k of its particles coincide."""
    return jnp.any((neighbourhood.radii == 0) & neighbourhood.valid, axis=-1)
