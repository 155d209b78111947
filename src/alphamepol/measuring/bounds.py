"""The distances between the state distributions of members, and the bounds on them (D1)–(D5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from alphamepol.estimation.member_distances import (
    Cells,
    diameter_of_distances,
    entropy_of_distance_cells,
    pairs_for_distances,
    partition_into_cells,
    shares_of_cells,
    variation_distance,
    wasserstein_distance,
)
from alphamepol.estimation.theoretical_bounds import (
    sharp_theoretical_gap_bound,
    theoretical_entropy_gap_bound,
    theoretical_one_step_bound,
    theoretical_wasserstein_bound,
)
from alphamepol.measuring.dynamics import Dynamics

POINTS = 400
"""The most particles of a member from which Wasserstein distances are computed."""


@dataclass(frozen=True)
class Bounds:
    """The distances between the state distributions of members, and the bounds that the theory gives for them.

    `measure_bounds` returns it. Matrices have a row and a column per member.
    """

    members: tuple[str, ...]
    variation_low: Float[np.ndarray, "members members"]
    """The total variation of each pair, estimated too low on average."""
    variation_high: Float[np.ndarray, "members members"]
    """The total variation of each pair, estimated too high."""
    diameter: tuple[float, float]
    """The π-diameter (D1): an estimate that is too low on average, and one that is too high."""
    wasserstein: Float[np.ndarray, "members members"]
    """The Wasserstein distance of each pair."""
    wasserstein_chance: float
    """The mean Wasserstein distance between two samples of the same member, which is due to chance."""
    cell_entropies: Float[np.ndarray, " members"]
    """The entropy of the state distribution of each member on cells."""
    cells: int
    """The number of cells that at least one member was in."""
    smallest: float
    """σ: the smallest probability of one of these cells in any member."""
    horizon: int
    ends: bool
    """True if trajectories ended early, which the theory does not cover."""
    dynamics: Dynamics | None
    """The differences after one step; None for a host class."""

    @property
    def one_step_bound(self) -> float | None:
        """The bound (D2) on the π-diameter; None without `dynamics`. A bound of 1 or more says nothing."""
        if self.dynamics is None:
            return None
        found = self.dynamics.starts_differ, self.dynamics.steps_differ
        return max(
            (
                theoretical_one_step_bound(float(a), float(b), self.horizon)
                for a, b in zip(*map(_off_diagonal_for_bounds, found), strict=True)
            ),
            default=0.0,
        )

    @property
    def wasserstein_bound(self) -> float | None:
        """The bound (D3) on the Wasserstein distance; None without `dynamics`."""
        if self.dynamics is None:
            return None
        found = self.dynamics.starts_distance, self.dynamics.steps_distance
        both = zip(*map(_off_diagonal_for_bounds, found), strict=True)
        bounds = [
            theoretical_wasserstein_bound(float(a), float(b), self.dynamics.lipschitz, self.horizon) for a, b in both
        ]
        return max(bounds, default=0.0)

    @property
    def entropy_gap(self) -> float:
        """The largest difference between the entropies of two members on cells."""
        return float(np.ptp(self.cell_entropies))

    @property
    def entropy_gap_bound(self) -> float:
        """The bound (D4) on `entropy_gap`."""
        return theoretical_entropy_gap_bound(self.diameter[1], self.smallest)

    @property
    def sharp_entropy_gap_bound(self) -> float:
        """The bound (D5) on `entropy_gap`."""
        return sharp_theoretical_gap_bound(self.diameter[1], self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, without those that are infinite or unknown."""
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
    """Compare the state distributions of members, from trajectories in each of them.

    `dynamics` must be of the same members, in the same order. Distributions are counted on `cells`, which are made
    from all particles if they are not given. Wasserstein distances are computed from `points` particles of each
    member, at most `POINTS`.
    """
    cells = cells or partition_into_cells(np.concatenate([part[of] for part, of in zip(particles, valid, strict=True)]))
    counts = [_cell_counts_for_bounds(part, of, cells) for part, of in zip(particles, valid, strict=True)]
    distributions = np.stack([shares_of_cells(of_member) for of_member in counts])
    seen = distributions[:, distributions.max(axis=0) > 0]
    size = len(members)
    low, high, distance = (np.zeros((size, size)) for _ in range(3))
    samples = [_points_for_bounds(part, of) for part, of in zip(particles, valid, strict=True)]
    points = min(points, *(len(half) for halves in samples for half in halves))
    found = {(i, j): variation_distance(counts[i], counts[j]) for i, j in pairs_for_distances(size)}
    for (i, j), one in found.items():
        low[i, j] = low[j, i] = one.low
        high[i, j] = high[j, i] = one.high
        distance[i, j] = distance[j, i] = wasserstein_distance(samples[i][0][:points], samples[j][0][:points])
    return Bounds(
        members=tuple(members),
        variation_low=low,
        variation_high=high,
        diameter=diameter_of_distances(list(found.values())) if found else (0.0, 0.0),
        wasserstein=distance,
        wasserstein_chance=float(
            np.mean([wasserstein_distance(*(half[:points] for half in halves)) for halves in samples])
        ),
        cell_entropies=np.array([entropy_of_distance_cells(one) for one in distributions]),
        cells=seen.shape[1],
        smallest=float(seen.min()),
        horizon=particles[0].shape[1],
        ends=not all(of.all() for of in valid),
        dynamics=dynamics,
    )


def _cell_counts_for_bounds(
    points: Float[np.ndarray, "trajectories time features"], valid: Bool[np.ndarray, "trajectories time"], cells: Cells
) -> Float[np.ndarray, "trajectories cells"]:
    """Count how often each trajectory was in each cell."""
    numbers = cells.numbers(points.reshape(-1, points.shape[-1])).reshape(valid.shape)
    return np.stack(
        [np.bincount(of[inside], minlength=cells.count) for of, inside in zip(numbers, valid, strict=True)]
    ).astype(float)


def _points_for_bounds(
    points: Float[np.ndarray, "trajectories time features"], valid: Bool[np.ndarray, "trajectories time"]
) -> list[Float[np.ndarray, "points features"]]:
    """Return some particles of each half of the trajectories, in random order."""
    random = np.random.default_rng(0)
    halves = [points[i::2][valid[i::2]] for i in range(2)] if len(points) > 1 else [points[valid]] * 2
    return [half[random.permutation(len(half))[:POINTS]] for half in halves]


def _off_diagonal_for_bounds(matrix: Float[np.ndarray, "members members"]) -> Float[np.ndarray, " pairs"]:
    return matrix[~np.eye(len(matrix), dtype=bool)]
