"""The paper's theory for a class and a policy: distances of state distributions, their bounds, and what they assume."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import AnyClass
from alphamepol.estimation.risk import tail_count
from alphamepol.images import RandomEncoder
from alphamepol.learning.alphamepol import on_policy_gradient
from alphamepol.learning.log_probabilities import scores_along
from alphamepol.policies import Policy
from alphamepol.runs.particles import encode
from alphamepol.sampling.coupled import (
    act_everywhere,
    choose,
    difference_of_steps,
    start_everywhere,
    step_everywhere,
    visit,
)
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.theory import (
    BaselineTradeOff,
    Cells,
    Transitions,
    baseline_trade_off,
    diameter,
    entropy_gap_bound,
    entropy_of_cells,
    lipschitz,
    one_step_bound,
    pairs,
    partition,
    shares,
    sharp_entropy_gap_bound,
    step_contrasts,
    variation,
    wasserstein,
    wasserstein_bound,
)

TRAJECTORIES, STATES, DRAWS = 8, 150, 16
"""Of dynamics: trajectories per member, the states that are chosen from them, and how often a step is drawn there."""
ASKED, KNOWN, LARGEST_OBSERVATION = 1000, 20_000, 1000
"""Of contrasts: the steps that are compared, and those of a member that they are compared with; and numbers of an
observation beyond which that takes too long."""
COMPARED = 20
"""At most so many members of a class are compared with each other, spread evenly over it: pairs are many."""
FEWEST_IN_TAIL = 3
"""Mini-batches without which the baseline is not judged; that at the VaR itself counts nothing in (E9)."""
DYNAMICS = 1 << 27
"""Sets the random numbers of dynamics apart from those of trajectories."""
POINTS = 400
"""Particles of a member that Wasserstein distances are taken on."""


@dataclass(frozen=True)
class Dynamics:
    """How far apart members are at the start and after a step, with common random numbers; rows and columns are
    members. Only environments written in JAX can be put into a state to see."""

    starts_differ: Float[np.ndarray, "members members"]
    starts_distance: Float[np.ndarray, "members members"]
    steps_differ: Float[np.ndarray, "members members"]
    """Of the steps in the row's member: the share after which the other would be elsewhere, or look otherwise."""
    steps_distance: Float[np.ndarray, "members members"]
    """The largest mean distance after a step from the same state, over all states that were visited."""
    lipschitz: float
    """The largest of all members."""
    steps: int
    """How many were taken in each member to see whether they differ."""

    def of_members(self, numbers: Int[np.ndarray, " some"]) -> "Dynamics":
        """The part of some members."""
        some = np.ix_(numbers, numbers)
        return Dynamics(
            self.starts_differ[some],
            self.starts_distance[some],
            self.steps_differ[some],
            self.steps_distance[some],
            self.lipschitz,
            self.steps,
        )


@dataclass(frozen=True)
class Bounds:
    """Distances of state distributions, a row and a column per member, and what the theory says of them."""

    members: tuple[str, ...]
    variation_low: Float[np.ndarray, "members members"]
    variation_high: Float[np.ndarray, "members members"]
    diameter: tuple[float, float]
    """(D1): the π-diameter, estimated too low and too high."""
    wasserstein: Float[np.ndarray, "members members"]
    wasserstein_chance: float
    """Between two samples of one member, on average."""
    cell_entropies: Float[np.ndarray, " members"]
    cells: int
    """Those that any member was in."""
    smallest: float
    """σ: the smallest probability of one of them in any member."""
    horizon: int
    ends: bool
    """Whether trajectories ended early, which the theory does not know."""
    dynamics: Dynamics | None

    @property
    def one_step_bound(self) -> float | None:
        """(D2); at most 1 says something."""
        if self.dynamics is None:
            return None
        found = self.dynamics.starts_differ, self.dynamics.steps_differ
        return max(
            (one_step_bound(float(a), float(b), self.horizon) for a, b in zip(*map(_off_diagonal, found), strict=True)),
            default=0.0,
        )

    @property
    def wasserstein_bound(self) -> float | None:
        """(D3)."""
        if self.dynamics is None:
            return None
        found = self.dynamics.starts_distance, self.dynamics.steps_distance
        both = zip(*map(_off_diagonal, found), strict=True)
        bounds = [wasserstein_bound(float(a), float(b), self.dynamics.lipschitz, self.horizon) for a, b in both]
        return max(bounds, default=0.0)

    @property
    def entropy_gap(self) -> float:
        """The largest difference of entropies on cells."""
        return float(np.ptp(self.cell_entropies))

    @property
    def entropy_gap_bound(self) -> float:
        """(D4)."""
        return entropy_gap_bound(self.diameter[1], self.smallest)

    @property
    def sharp_entropy_gap_bound(self) -> float:
        """(D5)."""
        return sharp_entropy_gap_bound(self.diameter[1], self.cells)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is not finite, or cannot be known, is left out."""
        numbers: dict[str, float | None] = {
            "diameter_low": self.diameter[0],
            "diameter_high": self.diameter[1],
            "one_step_bound": self.one_step_bound,
            "wasserstein": float(self.wasserstein.max()),
            "wasserstein_chance": self.wasserstein_chance,
            "wasserstein_bound": self.wasserstein_bound,
            "lipschitz": None if self.dynamics is None else self.dynamics.lipschitz,
            "entropy_gap": self.entropy_gap,
            "entropy_gap_bound": self.entropy_gap_bound,
            "sharp_entropy_gap_bound": self.sharp_entropy_gap_bound,
            "smallest_probability": self.smallest,
            "cells": self.cells,
        }
        return {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}


def measure_bounds(
    particles: Sequence[Float[np.ndarray, "_ time features"]],
    valid: Sequence[Bool[np.ndarray, "_ time"]],
    members: Sequence[str],
    dynamics: Dynamics | None,
    cells: Cells | None = None,
    points: int = POINTS,
) -> Bounds:
    """Compare the state distributions of members, from trajectories in each; on `cells` of one's own, if given.

    `dynamics` are of the same members, in the same order; Wasserstein distances are of so many `points` of each, at
    most `POINTS`.
    """
    cells = cells or partition(np.concatenate([part[of] for part, of in zip(particles, valid, strict=True)]))
    counts = [_count(part, of, cells) for part, of in zip(particles, valid, strict=True)]
    distributions = np.stack([shares(of_member) for of_member in counts])
    seen = distributions[:, distributions.max(axis=0) > 0]
    size = len(members)
    low, high, distance = (np.zeros((size, size)) for _ in range(3))
    samples = [_some(part, of) for part, of in zip(particles, valid, strict=True)]
    points = min(points, *(len(half) for halves in samples for half in halves))
    found = {(i, j): variation(counts[i], counts[j]) for i, j in pairs(size)}
    for (i, j), one in found.items():
        low[i, j] = low[j, i] = one.low
        high[i, j] = high[j, i] = one.high
        distance[i, j] = distance[j, i] = wasserstein(samples[i][0][:points], samples[j][0][:points])
    return Bounds(
        members=tuple(members),
        variation_low=low,
        variation_high=high,
        diameter=diameter(list(found.values())) if found else (0.0, 0.0),
        wasserstein=distance,
        wasserstein_chance=float(np.mean([wasserstein(*(half[:points] for half in halves)) for halves in samples])),
        cell_entropies=np.array([entropy_of_cells(one) for one in distributions]),
        cells=seen.shape[1],
        smallest=float(seen.min()),
        horizon=particles[0].shape[1],
        ends=not all(of.all() for of in valid),
        dynamics=dynamics,
    )


def compared(members: int) -> Int[np.ndarray, " some"]:
    """The numbers of the members that are compared, of so many."""
    return np.unique(np.linspace(0, members - 1, min(members, COMPARED)).round().astype(int))


def measure_dynamics(
    policy: Policy,
    environment_class: AnyClass,
    horizon: int,
    encoder: RandomEncoder | None,
    units: Float[Array, " features"] | None,
    *,
    key: PRNGKeyArray,
) -> Dynamics | None:
    """Start and step the members that are compared with common random numbers, where states are at hand; None of a
    host's class."""
    if not isinstance(environment_class, EnvironmentClass):
        return None
    names = [environment_class.names[number] for number in compared(len(environment_class))]
    some = EnvironmentClass({name: environment_class[name] for name in names})
    keys = jax.random.split(jax.random.fold_in(key, DYNAMICS), 6)
    visited = visit(policy, some, horizon=horizon, trajectories=TRAJECTORIES, key=keys[0])
    chosen = choose(visited, count=STATES, key=keys[1])
    started = start_everywhere(some, draws=STATES, key=keys[2])
    stepped = step_everywhere(chosen, some, draws=DRAWS, key=keys[3])
    acted = act_everywhere(policy, chosen, some, draws=DRAWS, key=keys[4])
    measured = partial(_as_measured, encoder=encoder, units=units)
    starts, steps = measured(started.particles), measured(stepped)
    members = range(len(some))
    points, reached = measured(chosen.particles), measured(acted)
    return Dynamics(
        starts_differ=np.asarray(started.differ),
        starts_distance=np.stack([[_distance(starts[i], starts[j]).mean() for j in members] for i in members]),
        steps_differ=np.asarray(difference_of_steps(visited, some, key=keys[5])),
        steps_distance=np.stack(
            [[_distance(steps[:, i], steps[:, j]).mean(axis=-1).max() for j in members] for i in members]
        ),
        lipschitz=max(lipschitz(points[i], reached[i]) for i in members),
        steps=int(jnp.min(jnp.sum(visited.valid, axis=1))),
    )


def measure_contrasts(
    observations: Float[np.ndarray, "members trajectories time observation"],
    actions: Shaped[np.ndarray, "members trajectories time ..."],
    valid: Bool[np.ndarray, "members trajectories time"],
) -> Float[np.ndarray, "members members"] | None:
    """How well steps tell members apart, by the steps that were seen; ½ is not at all. None of large images."""
    if observations.shape[-1] > LARGEST_OBSERVATION:
        return None
    members = len(observations)
    flat_actions = actions.reshape(*valid.shape, -1) if actions.ndim > 3 else _one_hot(actions)
    before = np.concatenate([observations, flat_actions], axis=-1)[:, :, :-1]
    change = np.diff(observations, axis=2)
    inside = valid[:, :, 1:]
    before, change = (part / np.where(scale := part[inside].std(axis=0), scale, 1.0) for part in (before, change))
    random = np.random.default_rng(0)

    def some(member: int, half: int, most: int) -> Transitions:
        rows = np.argwhere(inside[member, half::2])
        chosen = rows[random.permutation(len(rows))[:most]]
        return Transitions(*(part[member, half::2][tuple(chosen.T)] for part in (before, change)))

    asked = [some(member, 0, ASKED) for member in range(members)]
    known = [some(member, 1, KNOWN) for member in range(members)]
    if any(not len(one.before) for one in (*asked, *known)):
        return None
    return step_contrasts(asked, known)


def _one_hot(choices: Int[np.ndarray, "*sets"]) -> Float[np.ndarray, "*sets choices"]:
    return np.eye(int(choices.max()) + 1)[choices]


def measure_trade_off(
    policy: Policy, trajectories: Trajectories, entropies: Float[Array, " minibatches"], alpha: float
) -> BaselineTradeOff | None:
    """(D6) and (D7) of one seed's epoch, along its gradient: half of the mini-batches find it, the others are judged.

    None if there are too few mini-batches in the tail for that.
    """
    half = len(entropies) // 2
    if half == 0 or tail_count(alpha, len(entropies) - half) < FEWEST_IN_TAIL:
        return None
    scores = _scores(policy, trajectories, entropies, half, tail_count(alpha, half))
    judged = np.asarray(scores, float), np.asarray(entropies[half:], float)
    return baseline_trade_off(*judged, tail_count(alpha, len(entropies) - half))


@partial(jax.jit, static_argnums=(3, 4))
def _scores(policy, trajectories, entropies, half: int, tail: int) -> Float[Array, " minibatches"]:
    """f·u of the later mini-batches, u being the gradient of the earlier ones, of length 1."""
    earlier, later = (
        jax.tree.map(lambda leaf, of=of: leaf[of], trajectories) for of in (slice(half), slice(half, None))
    )
    gradient = on_policy_gradient(policy, earlier, entropies[:half], tail_size=tail, baseline=False)
    flat, unravel = ravel_pytree(gradient)
    # With a tail of one, the gradient without b is zero: any direction will do.
    length = jnp.linalg.norm(flat)
    direction = unravel(jnp.where(length > 0, flat / jnp.where(length > 0, length, 1.0), flat.size**-0.5))
    scores = scores_along(policy, direction, later.perceived, later.actions)
    return jnp.sum(jnp.where(later.valid, scores, 0.0), axis=(-1, -2))


def _count(
    points: Float[np.ndarray, "trajectories time features"], valid: Bool[np.ndarray, "trajectories time"], cells: Cells
) -> Float[np.ndarray, "trajectories cells"]:
    """How often each trajectory was in each cell."""
    numbers = cells.numbers(points.reshape(-1, points.shape[-1])).reshape(valid.shape)
    return np.stack(
        [np.bincount(of[inside], minlength=cells.count) for of, inside in zip(numbers, valid, strict=True)]
    ).astype(float)


def _some(
    points: Float[np.ndarray, "trajectories time features"], valid: Bool[np.ndarray, "trajectories time"]
) -> list[Float[np.ndarray, "points features"]]:
    """Some particles of each half of the trajectories, in random order."""
    random = np.random.default_rng(0)
    halves = [points[i::2][valid[i::2]] for i in range(2)] if len(points) > 1 else [points[valid]] * 2
    return [half[random.permutation(len(half))[:POINTS]] for half in halves]


def _as_measured(
    features: Shaped[Array, "*sets features"],
    encoder: RandomEncoder | None,
    units: Float[Array, " features"] | None,
) -> Float[np.ndarray, "*sets measured"]:
    """Particles as entropies are taken of them, without noise."""
    if encoder is not None:
        features = encode(encoder, features[None], jax.random.key(0)[None], noisy=False)[0]
    return np.asarray(features if units is None else features / units, float)


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.linalg.norm(first - second, axis=-1)


def _off_diagonal(matrix: Float[np.ndarray, "members members"]) -> Float[np.ndarray, " pairs"]:
    return matrix[~np.eye(len(matrix), dtype=bool)]
