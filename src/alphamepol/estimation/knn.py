"""The k nearest neighbours of every particle: a k-d tree on the host, or brute force on the device."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped
from scipy.spatial import KDTree

from alphamepol.errors import InputError

Method = Literal["auto", "tree", "brute"]


class Neighbourhood(eqx.Module):
    """What the estimators need of a particle set; leading axes (seeds, mini-batches) may be stacked in front.

    Invalid particles (after an early end) are nobody's neighbours; their own radius is 1 and their indices are
    meaningless.
    """

    radii: Float[Array, "*sets particles"]
    indices: Int[Array, "*sets particles k"]
    valid: Bool[Array, "*sets particles"]
    dimension: int = eqx.field(static=True)

    @property
    def k(self) -> int:
        return self.indices.shape[-1]


def nearest_neighbours(
    points: Shaped[Array | np.ndarray, "*sets particles dimension"],
    k: int,
    valid: Bool[Array | np.ndarray, "*sets particles"] | None = None,
    method: Method = "auto",
) -> Neighbourhood:
    """The k nearest other particles of each particle, in each set, by Euclidean distance.

    A particle is never its own neighbour. The answer does not depend on `method`, except for which of several
    equally distant particles are counted.
    """
    points = points if isinstance(points, Array) else np.asarray(points)
    if not jnp.issubdtype(points.dtype, jnp.floating):
        points = points.astype(float)
    if points.ndim < 2:
        raise InputError(f"points: an array of shape {points.shape} was given; it must be (particles, dimension)")
    *sets, particles, dimension = points.shape
    if valid is None:
        valid = np.ones((*sets, particles), bool)
    fewest = int(jnp.min(jnp.sum(valid, axis=-1)))
    if not 1 <= k < fewest:
        raise InputError(
            f"neighbours: k = {k} was given for {fewest} particles; it must be at least 1 and less than those"
        )
    if method == "auto":
        method = best_method(dimension)
    search = _by_tree if method == "tree" else _by_brute_force
    flat = points.reshape(-1, particles, dimension), valid.reshape(-1, particles)
    radii, indices = search(*flat, k=k)
    shape = (*sets, particles)
    return Neighbourhood(
        radii=jnp.asarray(radii).reshape(shape),
        indices=jnp.asarray(indices).reshape(*shape, k),
        valid=jnp.asarray(valid),
        dimension=dimension,
    )


def best_method(dimension: int) -> Literal["tree", "brute"]:
    """The quicker method, by the measurements in benchmarks/README.md: the tree for few dimensions on a CPU.

    It is so for every k that was tried, from 4 to a quarter of the particles, so k does not decide.
    """
    return "tree" if jax.default_backend() == "cpu" and dimension < 8 else "brute"


def _by_tree(
    points: Float[Array | np.ndarray, "sets particles dimension"],
    valid: Bool[Array | np.ndarray, "sets particles"],
    *,
    k: int,
) -> tuple[Float[np.ndarray, "sets particles"], Int[np.ndarray, "sets particles k"]]:
    points, valid = np.asarray(points), np.asarray(valid)
    radii = np.ones(valid.shape, points.dtype)
    indices = np.zeros((*valid.shape, k), np.int32)

    def search(i: int) -> None:
        rows = np.flatnonzero(valid[i])
        distances, found = (np.asarray(part) for part in KDTree(points[i, rows]).query(points[i, rows], k + 1))
        # Usually the first found is the particle itself; among coinciding ones it may be any, or missing.
        itself = found == np.arange(len(rows))[:, None]
        itself[~itself.any(axis=1), -1] = True
        radii[i, rows] = np.where(itself[:, -1], distances[:, -2], distances[:, -1])
        indices[i, rows] = rows[found[~itself].reshape(len(rows), k)]

    # SciPy releases the interpreter while it builds and asks, so threads use all cores.
    list(_threads().map(search, range(len(points))))
    return radii, indices


def _by_brute_force(
    points: Float[Array | np.ndarray, "sets particles dimension"],
    valid: Bool[Array | np.ndarray, "sets particles"],
    *,
    k: int,
) -> tuple[Float[Array, "sets particles"], Int[Array, "sets particles k"]]:
    return _brute_force(jnp.asarray(points), jnp.asarray(valid), k)


@partial(jax.jit, static_argnums=2)
def _brute_force(points, valid, k):
    sets, particles, _ = points.shape

    def search(some):
        points, valid = some
        squares = jax.vmap(_squared_distances)(points)
        squares = jnp.where(jnp.eye(particles, dtype=bool) | ~valid[:, None, :], jnp.inf, squares)
        # In two axes, and the indices alone: else XLA sorts whole rows, which takes twenty times as long on a CPU.
        indices = jax.lax.top_k(-squares.reshape(-1, particles), k)[1].reshape(*valid.shape, k)
        kth = jax.vmap(lambda points, indices: points[indices[:, -1]])(points, indices)
        radii = jnp.sqrt(jnp.sum((points - kth) ** 2, axis=-1))
        return jnp.where(valid, radii, 1.0), indices

    # One set after the other on a CPU, some together on an accelerator; either way memory stays bounded.
    most = 1 if jax.default_backend() == "cpu" else min(sets, max(1, 2**27 // particles**2))
    together = max(size for size in range(1, most + 1) if sets % size == 0)
    split = jax.tree.map(lambda leaf: leaf.reshape(-1, together, *leaf.shape[1:]), (points, valid))
    return jax.tree.map(lambda leaf: leaf.reshape(sets, *leaf.shape[2:]), jax.lax.map(search, split))


def _squared_distances(points):
    """From differences of coordinates. |a|² + |b|² − 2ab would be quicker, and wrong where particles cluster."""
    dimension = points.shape[-1]
    if dimension > 8:
        return jnp.sum((points[:, None] - points[None]) ** 2, axis=-1)
    return sum((points[:, None, d] - points[None, :, d]) ** 2 for d in range(dimension))


@cache
def _threads() -> ThreadPoolExecutor:
    # Not every system can say which processors a process may use.
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(processors, thread_name_prefix="neighbours")
