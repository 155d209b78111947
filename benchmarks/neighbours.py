"""Compare the search for neighbours with scikit-learn's and SciPy's."""

import jax
import numpy as np

from alphamepol import nearest_neighbours
from alphamepol.compute.machine import machine_cores
from alphamepol.estimation.knn import best_knn_method
from benchmarks.measuring import Measurement, bandwidth, turn_by_turn

CASES = ((40, 2000, 2, 30), (30, 2000, 2, 500), (20, 750, 64, 50))
"""The sets per seed, particles, dimension and k of an epoch of a gridworld, of the Ant, and of MiniGrid."""


def measure(rounds: int, seeds: int = 1) -> list[Measurement]:
    return [measure_case(seeds * sets, n, dimension, k, rounds) for sets, n, dimension, k in CASES]


def measure_case(sets: int, particles: int, dimension: int, k: int, rounds: int) -> Measurement:
    """Measure the search of all libraries on all cores; the other libraries are measured on a CPU only.

    The floor of a brute-force search is writing and reading every distance. A tree does not do that and has no floor.
    """
    from scipy.spatial import KDTree
    from sklearn.neighbors import NearestNeighbors

    points = np.random.default_rng(0).uniform(-1, 1, (sets, particles, dimension)).astype(np.float32)
    on_device = jax.device_put(points)

    def scikit_learn() -> None:
        for one in points:
            NearestNeighbors(n_neighbors=k, n_jobs=machine_cores()).fit(one).kneighbors()

    def scipy() -> None:
        for one in points:
            KDTree(one).query(one, k + 1, workers=machine_cores())

    def ours():
        found = nearest_neighbours(on_device, k)
        return found.radii, found.indices, found.among

    contestants = {"ours": ours}
    if jax.default_backend() == "cpu":
        contestants |= {"scikit-learn": scikit_learn} | ({"SciPy": scipy} if dimension < 8 else {})
    seconds = turn_by_turn(rounds, **contestants)
    name = f"neighbours, {sets} × {particles} in {dimension}-D, k = {k}"
    tree = best_knn_method(dimension, k, particles) == "tree"
    floor = None if tree else 2 * 4 * sets * particles**2 / bandwidth()
    peers = {name: found for name, found in seconds.items() if name != "ours"}
    return Measurement(name, seconds["ours"], floor, "all distances written and read once", peers)
