"""What makes a class hard, after the paper's appendix: distances between its members, and bounds (D1)–(D7).

Everything here is about samples that others have drawn. State distributions are taken on cells, in which probabilities
are counted: the paper's entropy bound is one for probabilities, and does not hold for densities, which can exceed 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.vq import vq
from scipy.optimize import linear_sum_assignment
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

CELLS = 256
"""At most so many, as long as nobody says otherwise."""
MOST_GRID_DIMENSIONS = 3
"""Particles of more numbers have cells of any shape: what is nearest to one of some centres."""


@dataclass(frozen=True)
class Cells:
    """A partition of space: a grid between inner edges, its outer cells without end, or what is nearest to centres."""

    edges: tuple[Float[np.ndarray, " _"], ...] = ()
    centres: Float[np.ndarray, "centres dimension"] | None = None

    @property
    def count(self) -> int:
        return math.prod(len(edges) + 1 for edges in self.edges) if self.centres is None else len(self.centres)

    def numbers(self, points: Float[np.ndarray, "points dimension"]) -> Int[np.ndarray, " points"]:
        """The cell of each point."""
        if self.centres is not None:
            return vq(points, self.centres)[0].astype(int)
        found = np.zeros(len(points), int)
        for column, edges in zip(points.T, self.edges, strict=True):
            found = found * (len(edges) + 1) + np.searchsorted(edges, column, side="right")
        return found


def partition_into_cells(points: Float[np.ndarray, "points dimension"], cells: int = CELLS) -> Cells:
    """Cells for particles of all members: a grid over the middle 99 % of each coordinate, or what is nearest to some
    of the particles."""
    dimension = points.shape[1]
    if dimension > MOST_GRID_DIMENSIONS:
        random = np.random.default_rng(0)
        some = random.permutation(points)[: 50 * cells].astype(float)
        return Cells(centres=random.permutation(np.unique(some, axis=0))[:cells])
    along = max(1, int(cells ** (1 / dimension) + 1e-9))
    low, high = np.quantile(points, [0.005, 0.995], axis=0)
    return Cells(edges=tuple(np.linspace(*ends, along + 1)[1:-1] for ends in zip(low, high, strict=True)))


def shares_of_cells(counts: Float[np.ndarray, "trajectories cells"]) -> Float[np.ndarray, " cells"]:
    """The state distribution of one member, from how often each trajectory was in each cell."""
    total = counts.sum(axis=0)
    return total / total.sum()


def total_variation_distance(first: Float[np.ndarray, " cells"], second: Float[np.ndarray, " cells"]) -> float:
    return float(0.5 * np.abs(first - second).sum())


@dataclass(frozen=True)
class Variation:
    """Total variation of two members' state distributions, estimated too high and too low."""

    high: float
    """That of the counts themselves, chance included."""
    found: tuple[float, float]
    """That of the counts of each half of the trajectories."""
    tried: tuple[float, float]
    """The cells where a half has one member more often, tried on the other half: too low on average; of equal members 0
    on average, and so at times negative."""

    @property
    def low(self) -> float:
        return max(0.0, sum(self.tried) / 2)


def variation_distance(
    first: Float[np.ndarray, "trajectories cells"], second: Float[np.ndarray, "others cells"]
) -> Variation:
    """(D1) of a pair, from how often each trajectory was in each cell."""
    high = total_variation_distance(shares_of_cells(first), shares_of_cells(second))
    halves = [(first[i::2], second[i::2]) for i in range(2)]
    if any(half.sum() == 0 for pair in halves for half in pair):  # one trajectory cannot be halved
        return Variation(high, (0.0, 0.0), (0.0, 0.0))
    differences = [shares_of_cells(one) - shares_of_cells(other) for one, other in halves]
    found = [float(0.5 * np.abs(difference).sum()) for difference in differences]
    tried = [float(differences[1 - i][differences[i] > 0].sum()) for i in range(2)]
    return Variation(high, (found[0], found[1]), (tried[0], tried[1]))


def diameter_of_distances(variations: Sequence[Variation]) -> tuple[float, float]:
    """(D1) of all pairs, too low and too high on average: the pair that half of the trajectories have farthest apart,
    as the others see it; and the largest of all."""
    low = [max(variations, key=lambda one: one.found[i]).tried[i] for i in range(2)]
    return max(0.0, sum(low) / 2), max(one.high for one in variations)


def wasserstein_distance(
    first: Float[np.ndarray, "points dimension"], second: Float[np.ndarray, "points dimension"]
) -> float:
    """W_1 of two equally large samples: the mean distance under the best way to pair them."""
    distances = cdist(first, second)
    return float(distances[linear_sum_assignment(distances)].mean())


@dataclass(frozen=True)
class StepSample:
    """Steps of one member: what was there before (state and action, in units of their deviation) and how it changed."""

    before: Float[np.ndarray, "steps numbers"]
    change: Float[np.ndarray, "steps changes"]


def distances_by_step_contrasts(
    asked: Sequence[StepSample], known: Sequence[StepSample]
) -> Float[np.ndarray, "members members"]:
    """How well steps tell members apart that cannot be put into the same state; `known` are of other trajectories.

    For each step that is asked about, the most similar one known of its own member, and of the other: how often is the
    change in the other member the farther one? Half the time if members are the same.
    """
    most = min(len(one.before) for one in known)
    trees = [KDTree(one.before[:most]) for one in known]
    found = np.full((len(asked), len(known)), 0.5)
    for i, one in enumerate(asked):
        errors = [
            np.linalg.norm(one.change - other.change[tree.query(one.before)[1]], axis=-1)
            for other, tree in zip(known, trees, strict=True)
        ]
        for j, error in enumerate(errors):
            found[i, j] = np.mean(error > errors[i]) + 0.5 * np.mean(error == errors[i])
    return found


def lipschitz_constant_of_distances(
    points: Float[np.ndarray, "points dimension"], reached: Float[np.ndarray, "points draws dimension"]
) -> float:
    """L: by how much a step can pull states apart, from those reached with common random numbers.

    The largest ratio of the mean distance after the step to that before, over all pairs of different points.
    """
    before = cdist(points, points)
    after = np.mean([cdist(draw, draw) for draw in np.swapaxes(reached, 0, 1)], axis=0)
    apart = before > 0
    return float(np.max(after[apart] / before[apart], initial=0.0))


def entropy_of_distance_cells(probabilities: Float[np.ndarray, " cells"]) -> float:
    inside = probabilities[probabilities > 0]
    return float(-(inside * np.log(inside)).sum())


def pairs_for_distances(count: int) -> Sequence[tuple[int, int]]:
    """All pairs of different members, each once."""
    return [(i, j) for i in range(count) for j in range(i + 1, count)]
