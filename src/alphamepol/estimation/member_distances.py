"""The distances between members that make a class hard, after the paper's appendix (D1)–(D5).

All functions here work on samples that were drawn elsewhere. A state distribution gives each cell of a partition a
probability, because the paper's entropy bound holds for probabilities. It does not hold for densities, which can
exceed 1.
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
"""The largest number of cells, by default."""
MOST_GRID_DIMENSIONS = 3
"""The most dimensions for which cells form a grid. With more dimensions, a cell is the region nearest to a centre."""


@dataclass(frozen=True)
class Cells:
    """A partition of space into cells: a grid, or the regions nearest to some centres."""

    edges: tuple[Float[np.ndarray, " _"], ...] = ()
    """The inner edges of a grid along each dimension. The outer cells of the grid have no end."""
    centres: Float[np.ndarray, "centres dimension"] | None = None
    """The centres, if cells are the regions nearest to centres."""

    @property
    def count(self) -> int:
        return math.prod(len(edges) + 1 for edges in self.edges) if self.centres is None else len(self.centres)

    def numbers(self, points: Float[np.ndarray, "points dimension"]) -> Int[np.ndarray, " points"]:
        """Return the number of the cell of each point."""
        if self.centres is not None:
            return vq(points, self.centres)[0].astype(int)
        found = np.zeros(len(points), int)
        for column, edges in zip(points.T, self.edges, strict=True):
            found = found * (len(edges) + 1) + np.searchsorted(edges, column, side="right")
        return found


def partition_into_cells(points: Float[np.ndarray, "points dimension"], cells: int = CELLS) -> Cells:
    """Make cells for the particles of all members.

    In up to three dimensions the cells are a grid over the middle 99 % of each coordinate. In more dimensions they
    are the regions nearest to some of the particles.
    """
    dimension = points.shape[1]
    if dimension > MOST_GRID_DIMENSIONS:
        random = np.random.default_rng(0)
        some = random.permutation(points)[: 50 * cells].astype(float)
        return Cells(centres=random.permutation(np.unique(some, axis=0))[:cells])
    along = max(1, int(cells ** (1 / dimension) + 1e-9))
    low, high = np.quantile(points, [0.005, 0.995], axis=0)
    return Cells(edges=tuple(np.linspace(*ends, along + 1)[1:-1] for ends in zip(low, high, strict=True)))


def shares_of_cells(counts: Float[np.ndarray, "trajectories cells"]) -> Float[np.ndarray, " cells"]:
    """Return the state distribution of one member; `counts` says how often each trajectory was in each cell."""
    total = counts.sum(axis=0)
    return total / total.sum()


def total_variation_distance(first: Float[np.ndarray, " cells"], second: Float[np.ndarray, " cells"]) -> float:
    return float(0.5 * np.abs(first - second).sum())


@dataclass(frozen=True)
class Variation:
    """The total variation of the state distributions of two members, with one estimate too high and one too low."""

    high: float
    """The total variation of all counts. It is too high, because chance makes counts differ."""
    found: tuple[float, float]
    """The total variation of the counts of each half of the trajectories."""
    tried: tuple[float, float]
    """Two estimates that are too low on average, one per half of the trajectories.

    The half chooses the cells in which the first member is more often than the second. The difference of their
    probabilities there is measured on the other half. It is 0 on average for equal members, so it can be negative.
    """

    @property
    def low(self) -> float:
        """The estimate that is too low on average: the mean of `tried`, but at least 0."""
        return max(0.0, sum(self.tried) / 2)


def variation_distance(
    first: Float[np.ndarray, "trajectories cells"], second: Float[np.ndarray, "others cells"]
) -> Variation:
    """Estimate (D1) for a pair of members; counts say how often each trajectory was in each cell."""
    high = total_variation_distance(shares_of_cells(first), shares_of_cells(second))
    halves = [(first[i::2], second[i::2]) for i in range(2)]
    if any(half.sum() == 0 for pair in halves for half in pair):  # one trajectory cannot be halved
        return Variation(high, (0.0, 0.0), (0.0, 0.0))
    differences = [shares_of_cells(one) - shares_of_cells(other) for one, other in halves]
    found = [float(0.5 * np.abs(difference).sum()) for difference in differences]
    tried = [float(differences[1 - i][differences[i] > 0].sum()) for i in range(2)]
    return Variation(high, (found[0], found[1]), (tried[0], tried[1]))


def diameter_of_distances(variations: Sequence[Variation]) -> tuple[float, float]:
    """Return two estimates of (D1) over all pairs: one that is too low on average, and one that is too high.

    For the low estimate, one half of the trajectories chooses the pair that is farthest apart, and the other half
    measures the distance of this pair. The high estimate is the largest of all pairs.
    """
    low = [max(variations, key=lambda one: one.found[i]).tried[i] for i in range(2)]
    return max(0.0, sum(low) / 2), max(one.high for one in variations)


def wasserstein_distance(
    first: Float[np.ndarray, "points dimension"], second: Float[np.ndarray, "points dimension"]
) -> float:
    """Return W_1 of two samples of equal size: the mean distance of their points under the best pairing."""
    distances = cdist(first, second)
    return float(distances[linear_sum_assignment(distances)].mean())


@dataclass(frozen=True)
class StepSample:
    """Some steps of one member, in units of the deviation of each component."""

    before: Float[np.ndarray, "steps numbers"]
    """The state and the action before each step."""
    change: Float[np.ndarray, "steps changes"]
    """The change of the state in each step."""


def distances_by_step_contrasts(
    asked: Sequence[StepSample], known: Sequence[StepSample]
) -> Float[np.ndarray, "members members"]:
    """Measure how well steps tell members apart, for members that cannot be put into the same state.

    Each step of `asked` is compared with the most similar step in `known` of its own member, and with the most similar
    one of the other member. Entry [i, j] is the share of steps of member i whose change differs more from that in
    member j than from that in member i. Ties count half. The share is ½ if the members are the same. The steps in
    `known` must be from other trajectories than those in `asked`.
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
    """Return the Lipschitz constant L of a step: the largest factor by which a step moves two states apart.

    This is the largest ratio of the mean distance after the step to the distance before it, over all pairs of
    different points. `reached` are the points after the step, drawn with common random numbers.
    """
    before = cdist(points, points)
    after = np.mean([cdist(draw, draw) for draw in np.swapaxes(reached, 0, 1)], axis=0)
    apart = before > 0
    return float(np.max(after[apart] / before[apart], initial=0.0))


def entropy_of_distance_cells(probabilities: Float[np.ndarray, " cells"]) -> float:
    inside = probabilities[probabilities > 0]
    return float(-(inside * np.log(inside)).sum())


def pairs_for_distances(count: int) -> Sequence[tuple[int, int]]:
    """Return all pairs of different members, each once."""
    return [(i, j) for i in range(count) for j in range(i + 1, count)]
