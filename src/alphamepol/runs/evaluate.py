"""How well policies explore each member of a class, on fresh samples."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass, HostMember
from alphamepol.environments.registry import resolve_class
from alphamepol.errors import InputError
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import nearest_neighbours
from alphamepol.estimation.risk import weighted_cvar
from alphamepol.policies import Policy, stack_policies
from alphamepol.runs.checks import check_aliasing, check_horizon, check_particles, check_policy_fits
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.epoch import blur, in_units, neighbours_of_minibatches, units_of
from alphamepol.sampling.sampler import collect
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.seeds import seed_keys, split_purposes

BINS = 50


@dataclass(frozen=True)
class VisitMap:
    """Share of particles in each cell of a map."""

    shares: Float[np.ndarray, "*sets rows columns"]
    """Rows from south, columns from west."""
    extent: tuple[float, float, float, float]
    """West, east, south and north end."""


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
    """Where the agent went, with leading axes (seeds, members); None unless particles are in the plane."""
    trails: Float[np.ndarray, "members batch time 2"] | None
    """The first seed's first mini-batch in each member, NaN after an end; None unless particles are in the plane."""
    units: tuple[float, ...] | None = None
    """What particles were counted in, if they were scaled."""

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
        } | ({} if self.units is None else {"units": list(self.units)})


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
    - `config`: horizon, batch, neighbours, feature_noise, alpha and evaluation_batches count here.
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

    with jax.default_matmul_precision(config.matmul_precision):
        samples = [
            _evaluate_member(stacked, environment_class, number, config, list(policies), units, keys)
            for number in track(range(len(environment_class)))
        ]
    *parts, trails = zip(*samples, strict=True)
    entropies, trajectory_entropies, particles, valid = (np.stack(part, axis=1) for part in parts)
    return Evaluation(
        class_name=environment_class.name,
        members=environment_class.names,
        probabilities=environment_class.probabilities,
        alpha=config.alpha,
        seeds=tuple(policies),
        ceilings=tuple(_ceiling(environment_class[i], units) for i in range(len(environment_class))),
        entropies=entropies,
        trajectory_entropies=trajectory_entropies,
        visits=visit_map(particles, valid, environment_class[0]),
        trails=np.stack(trails) if particles.shape[-1] == 2 else None,
        units=None if units is None else tuple(units.tolist()),
    )


def _ceiling(member: Member, units: Float[Array, " features"] | None) -> float:
    return member.entropy_ceiling - (0.0 if units is None else float(jnp.sum(jnp.log(units))))


def _evaluate_member(
    policies: Policy,
    environment_class: AnyClass,
    number: int,
    config: PretrainConfig,
    seeds: list[int],
    units: Float[Array, " features"] | None,
    keys: Key[Array, " seeds"],
) -> tuple[np.ndarray, ...]:
    """Entropies of mini-batches and of trajectories; all particles of each seed, whether each is valid; some trails."""
    members = jnp.full((len(seeds), config.evaluation_batches), number)
    member_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
    trajectories = collect(
        policies, environment_class, members, batch=config.batch, horizon=config.horizon, keys=member_keys
    )
    names, when = environment_class.names, "evaluation"
    check_particles(trajectories, names, seeds, config.neighbours, when)
    measured = in_units(trajectories, None if units is None else jnp.tile(units, (len(seeds), 1)))
    noisy = blur(measured, config.feature_noise, keys=member_keys)
    neighbourhood = neighbours_of_minibatches(noisy, config.neighbours)
    check_aliasing(neighbourhood, trajectories, names, seeds, when, cure="evaluate with a little --feature-noise")
    return (
        np.asarray(jax.vmap(jax.vmap(particle_entropy))(neighbourhood)),
        _trajectory_entropies(noisy, config.neighbours),
        np.asarray(trajectories.particles.reshape(len(seeds), -1, trajectories.particles.shape[-1])),
        np.asarray(trajectories.valid.reshape(len(seeds), -1)),
        np.where(trajectories.valid[0, 0, :, :, None], trajectories.particles[0, 0], np.nan),
    )


def _trajectory_entropies(trajectories: Trajectories, k: int) -> Float[np.ndarray, "seeds trajectories"]:
    """Entropies of single trajectories, with at most a quarter of the shortest as neighbours; NaN if that has none."""
    seeds, minibatches, batch, time, features = trajectories.particles.shape
    valid = trajectories.valid.reshape(seeds, minibatches * batch, time)
    shortest = int(valid.sum(axis=-1).min())
    if shortest < 2:
        return np.full((seeds, minibatches * batch), np.nan)
    particles = trajectories.particles.reshape(seeds, minibatches * batch, time, features)
    neighbourhood = nearest_neighbours(particles, max(1, min(k, shortest // 4)), valid)
    return np.asarray(jax.vmap(jax.vmap(particle_entropy))(neighbourhood))


def visit_map(
    particles: Float[np.ndarray, "*sets particles features"], valid: Bool[np.ndarray, "*sets particles"], member: Member
) -> VisitMap | None:
    """Count valid particles in BINS × BINS cells; None unless they are in the plane.

    The map is as large as the member says, or as the observation space if that is a bounded plane that holds them, else
    as what was visited.
    """
    if particles.shape[-1] != 2:
        return None
    low, high = particles[valid].min(axis=0), particles[valid].max(axis=0)
    space = member.observation_space
    if isinstance(member, HostMember) and member.extent is not None:
        west, east, south, north = member.extent
        low, high = np.array([west, south]), np.array([east, north])
    elif isinstance(space, gymnasium.spaces.Box) and space.shape == (2,) and space.is_bounded():
        holds_them = np.all(low >= space.low) and np.all(high <= space.high)
        low, high = (space.low, space.high) if holds_them else (low, high)
    (west, south), (east, north) = low.tolist(), high.tolist()
    edges = [(south, north), (west, east)]
    flat = zip(particles.reshape(-1, *particles.shape[-2:]), valid.reshape(-1, valid.shape[-1]), strict=True)
    counts = np.stack([np.histogram2d(one[of, 1], one[of, 0], BINS, edges)[0] for one, of in flat])
    shares = counts / counts.sum(axis=(-1, -2), keepdims=True)
    return VisitMap(shares.reshape(*particles.shape[:-2], BINS, BINS), (west, east, south, north))
