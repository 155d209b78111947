"""How well policies explore each member of a class, on fresh samples."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.environments.maps import map_of
from alphamepol.environments.registry import resolve_class
from alphamepol.errors import InputError
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours
from alphamepol.estimation.risk import weighted_cvar
from alphamepol.images import RandomEncoder
from alphamepol.policies import Policy, stack_policies
from alphamepol.runs.checks import check_aliasing, check_horizon, check_particles, check_policy_fits, check_units
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.epoch import neighbours_of_minibatches
from alphamepol.runs.particles import find_encoder, measurable, particle_size, units_of
from alphamepol.runs.visits import VisitMap, distinct_cells, visit_map
from alphamepol.sampling.sampler import collect
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.seeds import seed_keys, split_purposes


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


def evaluate(
    policies: Mapping[int, Policy] | Policy,
    environment_class: AnyClass | str,
    config: PretrainConfig,
    *,
    like: Policy | None = None,
    track: Callable[[range], Iterable[int]] = iter,
) -> Evaluation:
    """Sample `config.evaluation_batches` mini-batches in every member and estimate their entropies.

    **Arguments**

    - `policies`: seed → policy, or one policy, which is then of seed `config.seed`. The seed decides the samples.
    - `environment_class`: a class or its name; its own probabilities are used for `mean` and `cvar` unless
      `config.probabilities` gives others.
    - `config`: horizon, batch, neighbours, encoder, encoder_seed, feature_noise, alpha, evaluation_batches count here.
    - `like`: the policy whose units particles are counted in, if it is a scaled one; the first policy if not given.
    - `track`: goes through the members' numbers and may show progress, as `rich.progress.track` does.
    """
    config.check()
    environment_class = resolve_class(environment_class, config.probabilities)
    if isinstance(policies, Policy):
        policies = {config.seed: policies}
    if not policies:
        raise InputError("policies: none was given; at least one is needed")
    check_horizon(environment_class, config.horizon)
    for policy in policies.values():
        check_policy_fits(policy, environment_class)
    stacked = stack_policies(list(policies.values()))
    keys = split_purposes(seed_keys(list(policies))).evaluation
    units = units_of(like or next(iter(policies.values())))
    check_units(units, particle_size(environment_class, config), environment_class.name)
    encoder = find_encoder(environment_class, config)

    with jax.default_matmul_precision(config.matmul_precision):
        samples = [
            _evaluate_member(stacked, environment_class, number, config, list(policies), encoder, units, keys)
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
        alpha=config.alpha,
        seeds=tuple(policies),
        ceilings=tuple(ceiling_of(environment_class[i], units) for i in range(len(environment_class))),
        entropies=entropies,
        trajectory_entropies=trajectory_entropies,
        visits=visit_map(flat, valid.reshape(*valid.shape[:2], particles), member),
        trails=first if planar else None,
        cells=_count_cells(places, valid, member) if planar else None,
        units=None if units is None else tuple(units.tolist()),
        encoder_seed=None if encoder is None else config.encoder_seed,
    )


def ceiling_of(member: Member, units: Float[Array, " features"] | None) -> float:
    """The largest entropy that particles can have in their units."""
    return member.entropy_ceiling - (0.0 if units is None else float(jnp.sum(jnp.log(units))))


def _evaluate_member(
    policies: Policy,
    environment_class: AnyClass,
    number: int,
    config: PretrainConfig,
    seeds: list[int],
    encoder: RandomEncoder | None,
    units: Float[Array, " features"] | None,
    keys: Key[Array, " seeds"],
) -> tuple[np.ndarray, ...]:
    """Entropies of mini-batches and of trajectories; where the agent was, and whether it was there at all."""
    members = jnp.full((len(seeds), config.evaluation_batches), number)
    member_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
    trajectories = collect(
        policies, environment_class, members, batch=config.batch, horizon=config.horizon, keys=member_keys
    )
    names, when = environment_class.names, "evaluation"
    check_particles(trajectories, names, seeds, config.neighbours, when)
    units = None if units is None else jnp.tile(units, (len(seeds), 1))
    measured = measurable(trajectories, encoder, units, config.feature_noise, keys=member_keys)
    neighbourhood = neighbours_of_minibatches(measured, config.neighbours)
    check_aliasing(neighbourhood, trajectories, names, seeds, when, cure="evaluate with a little --feature-noise")
    return (
        np.asarray(entropies_of(neighbourhood)),
        _trajectory_entropies(measured, config.neighbours),
        _places(trajectories),
        np.asarray(trajectories.valid),
    )


def _places(trajectories: Trajectories) -> Float[np.ndarray, "seeds minibatches batch time coordinates"]:
    """Where the agent was; no coordinates at all unless it was in a plane."""
    places = trajectories.whereabouts
    return np.asarray(places if places.shape[-1] == 2 else places[..., :0])


def _count_cells(
    places: Float[np.ndarray, "seeds members minibatches batch time 2"],
    valid: Bool[np.ndarray, "seeds members minibatches batch time"],
    member: Member,
) -> dict[str, Float[np.ndarray, "seeds members"]] | None:
    """The mean number of cells that a trajectory and a mini-batch visit, where there are cells."""
    ground = map_of(member)
    if ground is None or ground.cells is None:
        return None
    together = places.reshape(*places.shape[:3], -1, 2), valid.reshape(*valid.shape[:3], -1)
    return {
        "trajectory": distinct_cells(places, valid, ground.cells).mean(axis=(-1, -2)),
        "minibatch": distinct_cells(*together, ground.cells).mean(axis=-1),
    }


def _trajectory_entropies(trajectories: Trajectories, k: int) -> Float[np.ndarray, "seeds trajectories"]:
    """Entropies of single trajectories, with at most a quarter of the shortest as neighbours; NaN if that has none."""
    seeds, minibatches, batch, time, features = trajectories.particles.shape
    valid = trajectories.valid.reshape(seeds, minibatches * batch, time)
    shortest = int(valid.sum(axis=-1).min())
    if shortest < 2:
        return np.full((seeds, minibatches * batch), np.nan)
    particles = trajectories.particles.reshape(seeds, minibatches * batch, time, features)
    neighbourhood = nearest_neighbours(particles, max(1, min(k, shortest // 4)), valid)
    return np.asarray(entropies_of(neighbourhood))


@jax.jit
def entropies_of(neighbourhood: Neighbourhood) -> Float[Array, "seeds sets"]:
    """(E3) of every set."""
    return jax.vmap(jax.vmap(particle_entropy))(neighbourhood)
