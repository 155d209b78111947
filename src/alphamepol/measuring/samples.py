"""The steps from policies to measured samples: draw members, collect trajectories, measure particles, find neighbours.

Training, evaluation, `check` and the measurements of experiments all use this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from alphamepol.compute.devices import lay_over_devices, wait_for_devices
from alphamepol.environments.cmp import Member, check_entropy_names
from alphamepol.environments.environment_class import draw_members_of_class
from alphamepol.environments.generated.member_generator import MemberGenerator
from alphamepol.environments.host import AnyClass
from alphamepol.environments.member_tasks import feature_size_of_member
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours
from alphamepol.measuring.particles import find_particle_encoder, make_particles_measurable
from alphamepol.measuring.sample_checks import Occasion, check_sample_aliasing, check_sample_particles
from alphamepol.policies.image_networks import RandomEncoder
from alphamepol.policies.policy import Policy
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.samples import SampleSettings, settings_with_noise


class Measured(eqx.Module):
    """Trajectories whose particles are ready for the entropy estimate, and the neighbours of every particle."""

    trajectories: Trajectories
    """The trajectories. Their particles are encoded if they are images, divided by their units, and with noise."""
    neighbourhood: Neighbourhood


@dataclass(frozen=True)
class SamplePlan:
    """The plan for sampling a class and measuring its particles."""

    environment_class: AnyClass
    settings: SampleSettings
    encoder: RandomEncoder | None
    seeds: Sequence[int]
    """The seeds of the policies that sample, for error messages."""

    @classmethod
    def of(cls, environment_class: AnyClass, settings: SampleSettings, seeds: Sequence[int]) -> "SamplePlan":
        """Make a plan with the encoder that the settings ask for."""
        check_entropy_names(environment_class[0].entropy_names, feature_size_of_member(environment_class[0]))
        return cls(environment_class, settings, find_particle_encoder(environment_class, settings), seeds)

    def collect(
        self,
        policies: Policy,
        members: Int[Array, "seeds minibatches"],
        when: str,
        *,
        fewest: int | None = None,
        keys: Key[Array, " seeds"],
    ) -> Trajectories:
        """Collect a mini-batch in each of the members, with the policy of each seed.

        Raise a `RunError` if a state is not finite, or if a mini-batch does not have more than `fewest` particles. By
        default `fewest` is k of the settings. The error says `when` it happened.
        """
        batch, horizon = self.settings.batch, self.settings.horizon
        trajectories = collect_with_sampler(
            policies, self.environment_class, lay_over_devices(members, 2), batch=batch, horizon=horizon, keys=keys
        )
        trajectories = wait_for_devices(lay_over_devices(trajectories, 2))
        needed = self.settings.neighbours if fewest is None else fewest
        check_sample_particles(trajectories, needed, self._occasion(when))
        return trajectories

    def ready(
        self, trajectories: Trajectories, units: Float[Array, "seeds features"] | None, *, keys: Key[Array, " seeds"]
    ) -> Trajectories:
        """Return the trajectories with particles that are ready for the entropy estimate."""
        return make_particles_measurable(trajectories, self.encoder, units, self.settings.feature_noise, keys=keys)

    def measure(
        self,
        trajectories: Trajectories,
        units: Float[Array, "seeds features"] | None,
        when: str,
        *,
        cure: str = "continue with --resume --coinciding noise, or start again with more --neighbours",
        keys: Key[Array, " seeds"],
    ) -> Measured:
        """Make particles ready for the entropy estimate and find their neighbours.

        Raise a `CoincidenceError` if more than k particles coincide. The error says `when` it happened, and names the
        `cure`.
        """
        ready = self.ready(trajectories, units, keys=keys)
        neighbourhood = wait_for_devices(lay_over_devices(neighbours_of_samples(ready, self.settings.neighbours), 2))
        check_sample_aliasing(neighbourhood, trajectories, self._occasion(when), cure)
        return Measured(ready, neighbourhood)

    def with_noise(self) -> "SamplePlan":
        """Return the plan with the noise that is added if particles coincide."""
        return replace(self, settings=settings_with_noise(self.settings))

    def _occasion(self, when: str) -> Occasion:
        return Occasion(when, self.environment_class.names, self.seeds)


@partial(jax.jit, static_argnums=(2, 3, 4))
def draw_sample_members(
    keys: Key[Array, " seeds"],
    epoch: int | Int[Array, ""],
    distribution: tuple[float, ...] | MemberGenerator,
    minibatches: int,
    member_batches: int = 1,
) -> tuple[Int[Array, "seeds minibatches"], Key[Array, " seeds"]]:
    """Draw the members of an epoch's mini-batches from p_M, and the key for its trajectories, for each seed.

    Each draw is the member of `member_batches` mini-batches in a row.
    """

    def one_seed(key):
        members_key, trajectories_key = jax.random.split(jax.random.fold_in(key, epoch))
        drawn = draw_members_of_class(distribution, minibatches // member_batches, key=members_key)
        return jnp.repeat(drawn, member_batches), trajectories_key

    return jax.vmap(one_seed)(keys)


def neighbours_of_samples(trajectories: Trajectories, k: int) -> Neighbourhood:
    """Find the neighbours of every particle among all particles of its mini-batch, over all trajectories."""
    *minibatches, batch, time, features = trajectories.particles.shape
    particles = trajectories.particles.reshape(*minibatches, batch * time, features)
    return nearest_neighbours(particles, k, trajectories.valid.reshape(*minibatches, batch * time))


@jax.jit
def entropies_of_samples(neighbourhood: Neighbourhood) -> Float[Array, "seeds sets"]:
    """Return the entropy (E3) of every particle set."""
    return jax.vmap(jax.vmap(particle_entropy))(neighbourhood)


def entropy_ceiling_of_samples(member: Member, units: Float[Array, " features"] | None) -> float:
    """Return the largest entropy that the particles of a member can have, in their units."""
    return member.entropy_ceiling - (0.0 if units is None else float(jnp.sum(jnp.log(units))))
