"""How well policies explore each member of a class, on fresh samples."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.environments.cmp import Member
from alphamepol.environments.horizons import check_horizon
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError
from alphamepol.estimation.knn import nearest_neighbours
from alphamepol.estimation.risk import weighted_cvar
from alphamepol.measuring.particles import particle_size, units_of_particles
from alphamepol.measuring.sample_checks import check_sample_units
from alphamepol.measuring.samples import SamplePlan, entropies_of_samples, entropy_ceiling_of_samples
from alphamepol.measuring.visits import VisitMap, count_visited_cells, visit_map
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.shape import check_policy_shape
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.samples import SampleSettings


@dataclass(frozen=True)
class Evaluation:
    """Entropies of fresh samples, per seed and member, and where the agent went."""

    class_name: str
    members: tuple[str, ...]
    probabilities: tuple[float, ...]
    alpha: float
    seeds: tuple[int, ...]
    ceilings: tuple[float, ...]
    """The largest possible entropy of each member; infinite where unknown."""
    entropies: Float[np.ndarray, "seeds members minibatches"]
    trajectory_entropies: Float[np.ndarray, "seeds members trajectories"]
    visits: VisitMap | None
    """Where the agent went, with leading axes (seeds, members); None unless it is somewhere in a plane."""
    trails: Float[np.ndarray, "members batch time 2"] | None
    """The first seed's first mini-batch in each member, NaN after an end; None unless it is somewhere in a plane."""
    cells: dict[str, Float[np.ndarray, "seeds members"]] | None = None
    """How many cells were visited, on average, in a `trajectory` and in a `minibatch`; None unless there are cells."""
    units: tuple[float, ...] | None = None
    """What particles were counted in, if they were scaled."""
    encoder_seed: int | None = None
    """Which random network particles were encoded with, if they were."""

    @property
    def member_means(self) -> Float[np.ndarray, "seeds members"]:
        return self.entropies.mean(axis=-1)

    @property
    def mean(self) -> Float[np.ndarray, " seeds"]:
        """E^1 under p_M."""
        return self.member_means @ np.array(self.probabilities)

    @property
    def cvar(self) -> Float[np.ndarray, " seeds"]:
        """E^α under p_M (E1)."""
        minibatches = self.entropies.shape[-1]
        weights = np.repeat(np.array(self.probabilities) / minibatches, minibatches)
        return np.array([weighted_cvar(seed.ravel(), weights, self.alpha) for seed in self.entropies])

    def of_seed(self, seed: int) -> "Evaluation":
        """The part of one seed."""
        i = self.seeds.index(seed)
        return dataclasses.replace(
            self,
            seeds=(seed,),
            entropies=self.entropies[i : i + 1],
            trajectory_entropies=self.trajectory_entropies[i : i + 1],
            visits=self.visits and dataclasses.replace(self.visits, shares=self.visits.shares[i : i + 1]),
            cells=self.cells and {per: cells[i : i + 1] for per, cells in self.cells.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """The part of summary.json that an evaluation decides."""
        means = self.member_means
        return {
            "class": self.class_name,
            "alpha": self.alpha,
            "seeds": list(self.seeds),
            "members": list(self.members),
            "probabilities": list(self.probabilities),
            "entropy": {name: means[:, i].tolist() for i, name in enumerate(self.members)},
            "ceiling": {
                name: ceiling if math.isfinite(ceiling) else None
                for name, ceiling in zip(self.members, self.ceilings, strict=True)
            },
            "mean": self.mean.tolist(),
            "cvar": self.cvar.tolist(),
        } | self._more()

    def _more(self) -> dict[str, Any]:
        """What not every class has."""
        found: dict[str, Any] = {} if self.units is None else {"units": list(self.units)}
        if self.encoder_seed is not None:
            found["encoder_seed"] = self.encoder_seed
        for per, cells in (self.cells or {}).items():
            found[f"cells_per_{per}"] = {name: cells[:, i].tolist() for i, name in enumerate(self.members)}
        return found


def measure_exploration(
    policies: Mapping[int, Policy],
    environment_class: AnyClass,
    settings: SampleSettings,
    *,
    alpha: float,
    batches: int,
    like: Policy | None = None,
    track: Callable[[range], Iterable[int]] = iter,
) -> Evaluation:
    """Sample mini-batches in every member with each policy and estimate their entropies.

    **Arguments**

    - `policies`: seed → policy. The seed decides the samples.
    - `environment_class`: its probabilities are those of `mean` and `cvar`.
    - `settings`: how the class is sampled and measured.
    - `alpha`: the percentile of `cvar`.
    - `batches`: mini-batches in each member.
    - `like`: the policy whose units particles are counted in, if it is a scaled one; the first policy if not given.
    - `track`: goes through the members' numbers and may show progress, as `rich.progress.track` does.
    """
    if not policies:
        raise InputError("policies: none was given; at least one is needed")
    check_horizon(environment_class, settings.horizon)
    for policy in policies.values():
        check_policy_shape(policy, environment_class)
    units = units_of_particles(like or next(iter(policies.values())))
    check_sample_units(units, particle_size(environment_class, settings.encoder), environment_class.name)
    plan = SamplePlan.of(environment_class, settings, list(policies))
    stacked = stack_policies(list(policies.values()))
    keys = split_keys_by_purpose(seed_keys(list(policies))).evaluation
    samples = [
        _measure_exploration_of_member(plan, stacked, number, batches, units, keys)
        for number in track(range(len(environment_class)))
    ]
    entropies, trajectory_entropies, places, valid = (np.stack(part, axis=1) for part in zip(*samples, strict=True))
    member, planar = environment_class[0], places.shape[-1] == 2
    particles = math.prod(valid.shape[2:])
    flat = places.reshape(*valid.shape[:2], particles, places.shape[-1])
    first = np.where(valid[0, :, 0, :, :, None], places[0, :, 0], np.nan)
    return Evaluation(
        class_name=environment_class.name,
        members=environment_class.names,
        probabilities=environment_class.probabilities,
        alpha=alpha,
        seeds=tuple(policies),
        ceilings=tuple(entropy_ceiling_of_samples(environment_class[i], units) for i in range(len(environment_class))),
        entropies=entropies,
        trajectory_entropies=trajectory_entropies,
        visits=visit_map(flat, valid.reshape(*valid.shape[:2], particles), member),
        trails=first if planar else None,
        cells=_cells_of_exploration(places, valid, member) if planar else None,
        units=None if units is None else tuple(units.tolist()),
        encoder_seed=None if plan.encoder is None else settings.encoder_seed,
    )


def _measure_exploration_of_member(
    plan: SamplePlan,
    policies: Policy,
    number: int,
    batches: int,
    units: Float[Array, " features"] | None,
    keys: Key[Array, " seeds"],
) -> tuple[np.ndarray, ...]:
    """Entropies of mini-batches and of trajectories in one member; where the agent was, and whether it was there."""
    when, cure = "evaluation", "evaluate with a little --feature-noise"
    members = jax.device_put(np.full((len(keys), batches), number, np.int32))
    member_keys = _keys_to_explore_member(keys, number)
    trajectories = plan.collect(policies, members, when, keys=member_keys)
    of_seeds = None if units is None else jnp.tile(units, (len(members), 1))
    measured = plan.measure(trajectories, of_seeds, when, cure=cure, keys=member_keys)
    return (
        np.asarray(entropies_of_samples(measured.neighbourhood)),
        _exploration_trajectory_entropies(measured.trajectories, plan.settings.neighbours),
        _places_of_exploration(trajectories),
        np.asarray(trajectories.valid),
    )


@jax.jit
def _keys_to_explore_member(keys: Key[Array, " seeds"], number: int | Int[Array, ""]) -> Key[Array, " seeds"]:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)


def _places_of_exploration(trajectories: Trajectories) -> Float[np.ndarray, "seeds minibatches batch time coordinates"]:
    """Where the agent was; no coordinates at all unless it was in a plane."""
    places = trajectories.whereabouts
    return np.asarray(places if places.shape[-1] == 2 else places[..., :0])


def _cells_of_exploration(
    places: Float[np.ndarray, "seeds members minibatches batch time 2"],
    valid: Bool[np.ndarray, "seeds members minibatches batch time"],
    member: Member,
) -> dict[str, Float[np.ndarray, "seeds members"]] | None:
    """The mean number of cells that a trajectory and a mini-batch visit, where there are cells."""
    ground = member.map
    if ground is None or ground.cells is None:
        return None
    together = places.reshape(*places.shape[:3], -1, 2), valid.reshape(*valid.shape[:3], -1)
    return {
        "trajectory": count_visited_cells(places, valid, ground.cells).mean(axis=(-1, -2)),
        "minibatch": count_visited_cells(*together, ground.cells).mean(axis=-1),
    }


def _exploration_trajectory_entropies(trajectories: Trajectories, k: int) -> Float[np.ndarray, "seeds trajectories"]:
    """Entropies of single trajectories, with at most a quarter of the shortest as neighbours; NaN if that has none."""
    seeds, minibatches, batch, time, features = trajectories.particles.shape
    valid = np.asarray(trajectories.valid).reshape(seeds, minibatches * batch, time)
    shortest = int(valid.sum(axis=-1).min())
    if shortest < 2:
        return np.full((seeds, minibatches * batch), np.nan)
    particles = trajectories.particles.reshape(seeds, minibatches * batch, time, features)
    neighbourhood = nearest_neighbours(particles, max(1, min(k, shortest // 4)), valid)
    return np.asarray(entropies_of_samples(neighbourhood))
