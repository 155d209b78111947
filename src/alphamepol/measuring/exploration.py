"""The evaluation of policies: the entropy in each member of a class, measured on fresh samples."""

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
from alphamepol.estimation.risk import risk_tail_count, weighted_cvar
from alphamepol.estimation.statistics import Estimate, Sample, estimate_of_minibatches, estimate_statistic
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.measuring.sample_checks import CoincidenceError
from alphamepol.measuring.samples import SamplePlan, entropies_of_samples, entropy_ceiling_of_samples
from alphamepol.measuring.visits import VisitMap, count_visited_cells, names_of_visited_places, visit_map
from alphamepol.notebooks.views import view
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.shape import check_policy_shape
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.samples import SampleSettings

MANY_MEMBERS = 10
"""The fewest members of which an evaluation reports the worst tenth."""


@dataclass(frozen=True)
class Evaluation:
    """The entropies that policies reach on fresh samples, per seed and member, and the places that they visit.

    `evaluate` returns an `Evaluation` for each policy or run that it is given. Entropies are in nats.
    """

    class_name: str
    """The name of the class."""
    members: tuple[str, ...]
    """The names of the members."""
    probabilities: tuple[float, ...]
    """The probability p_M of each member, which `mean` and `cvar` use."""
    alpha: float
    """The percentile α of `cvar`."""
    seeds: tuple[int, ...]
    """The seeds of the policies. A policy without a seed has a number instead, counted from 0."""
    ceilings: tuple[float, ...]
    """The largest possible entropy of each member; infinite where it is not known."""
    entropies: Float[np.ndarray, "seeds members minibatches"]
    """The entropy of every mini-batch, of shape (seeds, members, mini-batches)."""
    trajectory_entropies: Float[np.ndarray, "seeds members trajectories"]
    """The entropy of every single trajectory, of shape (seeds, members, trajectories).

    They are estimated with k at most a quarter of the length of the shortest trajectory in the member. They are NaN if
    that trajectory has fewer than two particles.
    """
    visits: VisitMap | None
    """The share of time in each part of a map, with leading axes (seeds, members). The field is None if places are not
    in a plane."""
    trails: Float[np.ndarray, "members batch time 2"] | None
    """The places in the first mini-batch of the first seed, of shape (members, trajectories, time, 2).

    Steps after an early end are NaN. The field is None if places are not in a plane.
    """
    cells: dict[str, Float[np.ndarray, "seeds members"]] | None = None
    """The mean number of cells that a `trajectory` and that a `minibatch` visits; None if members have no cells."""
    units: tuple[float, ...] | None = None
    """The units that particles were divided by; None if particles were not scaled."""
    encoder_seed: int | None = None
    """The seed of the random network that encoded particles; None if particles were not encoded."""
    feature_noise: float = 0.0
    """The standard deviation of the noise that was added to particles."""
    place_names: tuple[str, ...] = ()
    """The names of the two coordinates of `visits` and `trails`; empty if places are not in a plane."""

    def __repr__(self) -> str:
        numbers = [f"{name_as_text(member, WIDTH)} {self.estimate(member).text}" for member in self.members[:20]]
        more = [f"and {len(self.members) - 20} more"] if len(self.members) > 20 else []
        return f"Evaluation({self.class_name!r}, {', '.join(numbers + more)}, over {self.intervals_over})"

    def _repr_html_(self) -> str:
        return view("evaluation", {"mean": self})

    @property
    def member_means(self) -> Float[np.ndarray, "seeds members"]:
        """The mean entropy over mini-batches, of shape (seeds, members)."""
        return self.entropies.mean(axis=-1)

    @property
    def mean(self) -> Float[np.ndarray, " seeds"]:
        """The mean entropy E^1 under p_M, of shape (seeds,)."""
        return self.member_means @ np.array(self.probabilities)

    @property
    def cvar(self) -> Float[np.ndarray, " seeds"]:
        """The mean of the worst α-fraction of entropies, E^α under p_M (E1), of shape (seeds,)."""
        minibatches = self.entropies.shape[-1]
        weights = np.repeat(np.array(self.probabilities) / minibatches, minibatches)
        return np.array([weighted_cvar(one.ravel(), weights, self.alpha) for one in self.entropies])

    @property
    def worst_members(self) -> Float[np.ndarray, " seeds"] | None:
        """The mean entropy in the worst tenth of the members, of shape (seeds,); None if there are fewer than ten.

        Members are ordered by their mean entropy. With few mini-batches for each member, some of the worst members are
        there by bad luck.
        """
        if len(self.members) < MANY_MEMBERS:
            return None
        weights = np.array(self.probabilities)
        return np.array([weighted_cvar(means.astype(float), weights, 0.1) for means in self.member_means])

    def estimate(self, member: str | None = None) -> Estimate:
        """Return the mean entropy in a member, or under p_M if no member is named, with its 95 % interval.

        The interval is over seeds. If there is one seed, the interval is over its mini-batches. Fewer than three seeds
        or mini-batches have no interval.
        """
        if member is None:
            return estimate_of_minibatches(np.einsum("smb,m->sb", self.entropies, np.array(self.probabilities)))
        return estimate_of_minibatches(self.entropies[:, self.members.index(member)])

    def estimate_cvar(self) -> Estimate:
        """Return `cvar` with its 95 % interval, which is over seeds or mini-batches as in `estimate`.

        There is no interval over mini-batches if the worst α-fraction of them has fewer than three.
        """
        if len(self.seeds) > 1:
            return estimate_statistic(Sample.of_seeds(self.cvar))
        # A resample takes or leaves the mini-batches with the same number in all members together.
        members, minibatches = self.entropies.shape[1:]
        numbers = np.tile(np.arange(minibatches), members)
        sample = Sample(self.entropies[0].ravel(), numbers, np.zeros(len(numbers), int))
        probabilities = np.repeat(self.probabilities, minibatches)
        found = estimate_statistic(
            sample,
            lambda h, weights: weighted_cvar(h, weights * probabilities, self.alpha),
            units=risk_tail_count(self.alpha, minibatches),
        )
        return dataclasses.replace(found, values=())

    @property
    def intervals_over(self) -> str:
        """The units that the intervals of `estimate` are over, in words."""
        seeds, minibatches = len(self.seeds), self.entropies.shape[-1]
        return f"{minibatches} mini-batches of one seed" if seeds == 1 else f"{seeds} seeds"

    def of_seed(self, seed: int) -> "Evaluation":
        """Return the part that belongs to one seed. `trails` stay those of the first seed."""
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
        """Return the entries of summary.json that come from the evaluation."""
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
        """Return the entries that only some classes have."""
        found: dict[str, Any] = {} if self.units is None else {"units": list(self.units)}
        if (worst := self.worst_members) is not None:
            found["worst_members"] = worst.tolist()
        if self.encoder_seed is not None:
            found["encoder_seed"] = self.encoder_seed
        if self.feature_noise:
            found["feature_noise"] = self.feature_noise
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
    units: Float[Array, " features"] | None = None,
    track: Callable[[range], Iterable[int]] = iter,
) -> Evaluation:
    """Sample mini-batches in every member with each policy and estimate their entropies.

    If particles coincide and `settings.coinciding` is "noise", everything is measured again with noise.

    **Arguments**

    - `policies`: a policy for each seed. The seed decides the samples.
    - `environment_class`: the class. `mean` and `cvar` use its probabilities.
    - `settings`: the settings for sampling and measuring the class.
    - `alpha`: the percentile α of `cvar`.
    - `batches`: the number of mini-batches in each member.
    - `units`: the units that particles are divided by. If they are not given, particles are not divided.
    - `track`: a function that iterates over the numbers of the members and may show progress, as
      `rich.progress.track` does.
    """
    if not policies:
        raise InputError("policies: none was given; at least one is needed")
    check_horizon(environment_class, settings.horizon)
    for policy in policies.values():
        check_policy_shape(policy, environment_class)
    plan = SamplePlan.of(environment_class, settings, list(policies))
    stacked = stack_policies(list(policies.values()))
    keys = split_keys_by_purpose(seed_keys(list(policies))).evaluation

    def measure_members() -> list[tuple[np.ndarray, ...]]:
        return [
            _measure_exploration_of_member(plan, stacked, number, batches, units, keys)
            for number in track(range(len(environment_class)))
        ]

    try:
        samples = measure_members()
    except CoincidenceError:
        if settings.coinciding == "stop":
            raise
        plan = plan.with_noise()
        samples = measure_members()
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
        feature_noise=plan.settings.feature_noise,
        place_names=names_of_visited_places(member) if planar else (),
    )


def _measure_exploration_of_member(
    plan: SamplePlan,
    policies: Policy,
    number: int,
    batches: int,
    units: Float[Array, " features"] | None,
    keys: Key[Array, " seeds"],
) -> tuple[np.ndarray, ...]:
    """Return the entropies of mini-batches and of trajectories in one member, the visited places, and valid steps."""
    when, cure = "evaluation", "evaluate with --feature-noise 0.001"
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
    """Return the visited places. They have no coordinates if places are not in a plane."""
    places = trajectories.whereabouts
    return np.asarray(places if places.shape[-1] == 2 else places[..., :0])


def _cells_of_exploration(
    places: Float[np.ndarray, "seeds members minibatches batch time 2"],
    valid: Bool[np.ndarray, "seeds members minibatches batch time"],
    member: Member,
) -> dict[str, Float[np.ndarray, "seeds members"]] | None:
    """Return the mean number of cells that a trajectory and a mini-batch visit; None if the member has no cells."""
    ground = member.map
    if ground is None or ground.cells is None:
        return None
    together = places.reshape(*places.shape[:3], -1, 2), valid.reshape(*valid.shape[:3], -1)
    return {
        "trajectory": count_visited_cells(places, valid, ground.cells).mean(axis=(-1, -2)),
        "minibatch": count_visited_cells(*together, ground.cells).mean(axis=-1),
    }


def _exploration_trajectory_entropies(trajectories: Trajectories, k: int) -> Float[np.ndarray, "seeds trajectories"]:
    """Return the entropies of single trajectories.

    They are estimated with at most `k` neighbours, and at most a quarter of the length of the shortest trajectory. They
    are NaN if the shortest trajectory has fewer than two particles.
    """
    seeds, minibatches, batch, time, features = trajectories.particles.shape
    valid = np.asarray(trajectories.valid).reshape(seeds, minibatches * batch, time)
    shortest = int(valid.sum(axis=-1).min())
    if shortest < 2:
        return np.full((seeds, minibatches * batch), np.nan)
    particles = trajectories.particles.reshape(seeds, minibatches * batch, time, features)
    neighbourhood = nearest_neighbours(particles, max(1, min(k, shortest // 4)), valid)
    return np.asarray(entropies_of_samples(neighbourhood))
