"""The search for the k nearest neighbours of every particle.

The neighbours are stored as lists of indices, or as a matrix if k is a large part of all particles.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, reduce
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped
from scipy.spatial import KDTree

from alphamepol.compute.devices import share_among_devices
from alphamepol.compute.machine import machine_cores
from alphamepol.compute.mapping import largest_divisor_for_mapping
from alphamepol.errors import InputError

Method = Literal["auto", "tree", "brute", "matrix"]

ROWS = 200
"""The rows of distances that a thread computes at once: with 2000 particles 1.6 MB, which stay in its cache."""


class Neighbourhood(eqx.Module):
    """The neighbours of every particle of a particle set, as `nearest_neighbours` returns them.

    Leading axes (seeds, mini-batches) may be stacked in front. The neighbours are either listed in `indices` or marked
    in `among`; the other field is None. Invalid particles (those after an early end) are neighbours of no particle.
    Their own radius is 1, and their indices or their row have no meaning.
    """

    radii: Float[Array, "*sets particles"]
    """The distance from each particle to its k-th nearest neighbour."""
    valid: Bool[Array, "*sets particles"]
    """True for each particle that counts."""
    indices: Int[Array, "*sets particles k"] | None
    """The indices of the k neighbours of each particle."""
    among: Bool[Array, "*sets particles particles"] | None
    """A matrix whose row t is true at the k neighbours of particle t."""
    k: int = eqx.field(static=True)
    """The number of neighbours of each particle."""
    dimension: int = eqx.field(static=True)
    """The number of components of a particle."""

    def sums(self, values: Float[Array, " particles"]) -> Float[Array, " particles"]:
        """Return for each particle the sum of the values of its neighbours, in one particle set."""
        if self.among is None:
            return jnp.sum(values[self.indices], axis=-1)
        # This is no matrix product, because an accelerator would round a product to TF32. It is no `jnp.where`
        # either, because JAX would move its zeros out of a differentiated loop and store them. That took 540 ms
        # instead of 440 in the measurement of `best_knn_method`.
        marked = jax.lax.select(
            self.among, jnp.broadcast_to(values, self.among.shape), jnp.zeros(self.among.shape, values.dtype)
        )
        return jnp.sum(marked, axis=-1)


def nearest_neighbours(
    points: Shaped[Array | np.ndarray, "*sets particles dimension"],
    k: int,
    valid: Bool[Array | np.ndarray, "*sets particles"] | None = None,
    method: Method = "auto",
) -> Neighbourhood:
    """Find the k nearest other particles of each particle, by Euclidean distance.

    A particle is never its own neighbour. All methods find the same neighbours, except among particles whose distances
    are equal up to rounding. If distances are exactly equal, "matrix" takes the particles with the lowest indices.

    Points in float64 are compared in float64, so that they may lie far from zero and close together. JAX usually
    rounds float64 to float32; then NumPy and SciPy search instead.

    **Arguments**

    - `points`: the particles, of shape (particles, dimension); axes for several sets may stand in front. Neighbours
      are searched for within each set.
    - `k`: the number of neighbours; at least 1 and less than the number of valid particles of every set.
    - `valid`: true for each particle that counts, of the shape of `points` without its last axis. All particles count
      if it is not given. An invalid particle is a neighbour of no other particle.
    - `method`: "auto" chooses the quickest method. "tree" and "brute" return lists of indices, "matrix" returns a
      matrix of true and false.

    **Returns**

    A `Neighbourhood`. Its field `radii`, of shape (particles,), is the distance from each particle to its k-th
    neighbour. Its field `indices`, of shape (particles, k), lists the neighbours. With the method "matrix", `indices`
    is None and row t of `among`, of shape (particles, particles), is true at the neighbours of particle t. Axes for
    several sets stand in front as in `points`.

    **Raises**

    - `InputError`: if `k` is out of its range, if `points` has fewer than two axes or is not finite, or if a distance
      between points in float64 is too large or too small for float32.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    found = am.nearest_neighbours(np.array([[0.0], [1.0], [3.0]]), k=1)
    print(found.radii)  # [1. 1. 2.]
    print(found.indices[:, 0])  # [1 0 1]
    ```
    """
    points = _points_with_enough_bits_for_knn(points)
    if points.ndim < 2:
        raise InputError(f"points: an array of shape {points.shape} was given; it must be (particles, dimension)")
    *sets, particles, dimension = points.shape
    if valid is None:
        valid = np.ones((*sets, particles), bool)
    fewest = int(np.asarray(valid).sum(axis=-1).min())
    if not 1 <= k < fewest:
        raise InputError(
            f"neighbours: k = {k} was given for {fewest} particles; it must be at least 1 and less than those"
        )
    if isinstance(points, np.ndarray) and not np.isfinite(points[np.asarray(valid)]).all():
        raise InputError("points: they hold NaN or infinity; all their numbers must be finite")
    if method == "auto":
        method = best_knn_method(dimension, k, particles)
    if jax.dtypes.canonicalize_dtype(points.dtype) != points.dtype:  # JAX would round float64 to float32
        by_lists, by_matrix = _knn_by_tree, _knn_by_partition
    elif jax.default_backend() == "cpu":
        by_lists, by_matrix = _knn_by_top_k, _knn_by_partition
    else:
        by_lists, by_matrix = _knn_by_selection, _knn_by_bisection
    search = {"tree": _knn_by_tree, "brute": by_lists, "matrix": by_matrix}[method]
    shape = (*sets, particles)
    if method == "tree":
        points, valid = np.asarray(points), np.asarray(valid)
    radii, found = search(points.reshape(-1, particles, dimension), valid.reshape(-1, particles), k=k)
    if radii.dtype != jax.dtypes.canonicalize_dtype(radii.dtype):
        radii = _radii_in_float32_from_knn(np.asarray(radii))
    # `jnp.asarray` would compile a program for every shape of a NumPy array.
    found = jax.device_put(found.reshape(*shape, -1))
    return Neighbourhood(
        radii=jax.device_put(radii.reshape(shape)),
        valid=jax.device_put(valid),
        indices=None if method == "matrix" else found,
        among=found if method == "matrix" else None,
        k=k,
        dimension=dimension,
    )


def _points_with_enough_bits_for_knn(points: Shaped[Array | np.ndarray, "..."]) -> Float[Array | np.ndarray, "..."]:
    """Return points in float32 or float64. Integers become float64, in which even large ones keep all their digits."""
    points = points if isinstance(points, Array) else np.asarray(points)
    if not jnp.issubdtype(points.dtype, jnp.floating):
        return np.asarray(points).astype(np.float64)
    if points.dtype.itemsize in (4, 8):
        return points
    return points.astype(np.float32 if points.dtype.itemsize < 4 else np.float64)


def _radii_in_float32_from_knn(radii: Float[np.ndarray, "*sets"]) -> Float[np.ndarray, "*sets"]:
    with np.errstate(over="ignore", under="ignore"):
        rounded = radii.astype(np.float32)
    lost = (np.abs(rounded) < np.finfo(np.float32).tiny) & (radii > 0) | np.isinf(rounded)
    if lost.any():
        raise InputError(
            f"points: a distance of {radii[lost][0]:.3g} to the k-th neighbour is out of the range of float32; "
            "multiply all points by a constant, which adds its logarithm per dimension to the entropy"
        )
    return rounded


def best_knn_method(dimension: int, k: int, particles: int) -> Literal["tree", "brute", "matrix"]:
    """Choose the quickest method: lists for few neighbours, the matrix if k is at least an eighth of the particles.

    The table shows milliseconds on two CPU cores, with 30 sets of 2000 particles in two dimensions. The first number
    is for one search. The second number is for computing, 30 times, the masses (E5) of all sets and the gradient of
    the masses of 6 sets.

    | k | tree | matrix |
    |---|---|---|
    | 30 | 110 + 66 | 540 + 450 |
    | 60 | 187 + 71 | 540 + 450 |
    | 125 | 405 + 154 | 540 + 450 |
    | 250 | 823 + 283 | 540 + 450 |
    | 500 | 1728 + 559 | 540 + 450 |

    With 200 to 1000 particles the threshold is the same share. Below 100 neighbours both take little time, and lists
    are used. For lists, the tree is quicker on a CPU in few dimensions, for every k (benchmarks/README.md).
    """
    if k >= 100 and 8 * k >= particles:
        return "matrix"
    return "tree" if jax.default_backend() == "cpu" and dimension < 8 else "brute"


def _knn_by_tree(
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
        # Usually the first particle found is the particle itself. If particles coincide, the particle itself may
        # stand at any place, or be missing.
        itself = found == np.arange(len(rows))[:, None]
        itself[~itself.any(axis=1), -1] = True
        radii[i, rows] = np.where(itself[:, -1], distances[:, -2], distances[:, -1])
        indices[i, rows] = rows[found[~itself].reshape(len(rows), k)]

    # SciPy releases the interpreter lock while it builds and queries a tree, so threads use all cores.
    list(_knn_threads().map(search, range(len(points))))
    return radii, indices


@partial(jax.jit, static_argnames="k")
def _knn_by_top_k(points, valid, k):
    def search(points, valid):
        particles = valid.shape[-1]
        squares = _squared_distances_to_neighbours(points, valid)
        # The array has two axes, and only the indices are used. Otherwise XLA sorts whole rows, which takes twenty
        # times as long on a CPU.
        indices = jax.lax.top_k(-squares.reshape(-1, particles), k)[1].reshape(*valid.shape, k)
        kth = jax.vmap(lambda points, indices: points[indices[:, -1]])(points, indices)
        radii = jnp.sqrt(jnp.sum((points - kth) ** 2, axis=-1))
        return jnp.where(valid, radii, 1.0), indices

    return _knn_in_some_sets_at_once(search, points, valid)


def _knn_by_partition(
    points: Float[Array | np.ndarray, "sets particles dimension"],
    valid: Bool[Array | np.ndarray, "sets particles"],
    *,
    k: int,
) -> tuple[Float[np.ndarray, "sets particles"], Bool[np.ndarray, "sets particles particles"]]:
    points, valid = np.asarray(points), np.asarray(valid)
    particles = valid.shape[-1]
    radii = np.ones(valid.shape, points.dtype)
    among = np.empty((*valid.shape, particles), bool)

    def search(i: int) -> None:
        # NumPy computes distances coordinate by coordinate, so coordinates are stored in that order.
        here = np.asfortranarray(np.where(valid[i, :, None], points[i], 0))
        for start in range(0, particles, ROWS):
            rows = slice(start, start + ROWS)
            squares = np.asarray(_squared_distances_for_knn(here[rows], here))
            squares[:, ~valid[i]] = np.inf
            np.fill_diagonal(squares[:, start:], np.inf)
            kth = np.partition(squares, k - 1, axis=1)[:, k - 1 : k]
            among[i, rows] = _mark_no_further_neighbours(squares, kth, k)
            radii[i, rows] = np.sqrt(kth[:, 0])
        radii[i, ~valid[i]] = 1

    # NumPy releases the interpreter lock too.
    list(_knn_threads().map(search, range(len(points))))
    return radii, among


def _mark_no_further_neighbours(squares, kth, k):
    """Mark the k nearest particles. Among the particles exactly as far away as the k-th, mark the first ones."""
    among = squares <= kth
    tied = np.flatnonzero(np.count_nonzero(among, axis=1) > k)
    nearer = squares[tied] < kth[tied]
    equal = among[tied] & ~nearer
    among[tied] = nearer | (equal & (np.cumsum(equal, axis=1) <= k - np.count_nonzero(nearer, axis=1, keepdims=True)))
    return among


@partial(jax.jit, static_argnames="k")
def _knn_by_bisection(points, valid, k):
    return _knn_in_some_sets_at_once(partial(_mark_nearest_neighbours, k=k), points, valid)


@partial(jax.jit, static_argnames="k")
def _knn_by_selection(points, valid, k):
    def search(points, valid):
        radii, among = _mark_nearest_neighbours(points, valid, k)
        return radii, _list_marked_neighbours(among, k)

    return _knn_in_some_sets_at_once(search, points, valid)


def _mark_nearest_neighbours(points, valid, k):
    particles = valid.shape[-1]
    # Floating-point numbers that are not negative have the same order as their bits, read as integers.
    squares = _squared_distances_to_neighbours(points, valid)
    bits = jnp.finfo(squares.dtype).bits
    keys = jax.lax.bitcast_convert_type(squares, jnp.dtype(f"int{bits}"))
    kth = _kth_smallest_for_knn(keys, k, bits - 1)
    nearer, equal = keys < kth[..., None], keys == kth[..., None]
    missing = k - jnp.sum(nearer, axis=-1)
    # Among the particles exactly as far away as the k-th, the first are taken. Rarely are there more than are missing.
    places = jnp.where(equal, jnp.arange(particles), particles)
    last = jax.lax.cond(
        jnp.any(jnp.sum(equal, axis=-1) > missing),
        lambda: _kth_smallest_for_knn(places, missing, particles.bit_length()),
        lambda: jnp.full_like(missing, particles - 1),
    )
    radii = jnp.sqrt(jax.lax.bitcast_convert_type(kth, squares.dtype))
    return jnp.where(valid, radii, 1.0), nearer | (places <= last[..., None])


def _kth_smallest_for_knn(numbers, k, bits):
    """Return the k-th smallest of each row of non-negative integers.

    This is the largest number x for which fewer than k numbers of the row are below x. Two bits of x are found at a
    time, by three comparisons with all numbers. A device does these at once, whereas a sort would move the numbers.
    """
    found = jnp.zeros(numbers.shape[:-1], numbers.dtype)
    for shift in reversed(range(0, bits, 2)):
        digits = range(1, 2 ** min(2, bits - shift))
        tried = [jnp.sum(numbers < (found | (digit << shift))[..., None], axis=-1) < k for digit in digits]
        found |= reduce(jnp.add, [fewer.astype(found.dtype) for fewer in tried]) << shift
    return found


def _list_marked_neighbours(among, k):
    """Return the indices of the first k true values of each row.

    The search first finds the word of 32 bits, then the bit in the word.
    """
    *rows, particles = among.shape
    words = -(-particles // 32)
    padded = jnp.pad(among, [(0, 0)] * len(rows) + [(0, 32 * words - particles)]).reshape(*rows, words, 32)
    packed = jnp.sum(jnp.where(padded, jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32), jnp.uint32(0)), axis=-1)
    counts = _count_neighbour_bits(packed)
    until = jnp.cumsum(counts, axis=-1)
    rank = jnp.arange(k)
    word = jnp.sum(until[..., None, :] <= rank[:, None], axis=-1)
    rank = rank - jnp.take_along_axis(until - counts, word, axis=-1)
    bits, place = jnp.take_along_axis(packed, word, axis=-1), 32 * word
    for width in (16, 8, 4, 2, 1):
        below = _count_neighbour_bits(bits & jnp.uint32(2**width - 1))
        above = rank >= below
        rank, place = jnp.where(above, rank - below, rank), jnp.where(above, place + width, place)
        bits = jnp.where(above, bits >> width, bits)
    return place


def _count_neighbour_bits(words):
    return jax.lax.population_count(words).astype(jnp.int32)


def _knn_in_some_sets_at_once(search, points, valid):
    """Search one set after the other on a CPU, and several sets at once on an accelerator.

    On both kinds of devices the memory stays bounded.
    """

    def searched(_, points, valid):
        sets, particles, _ = points.shape
        together = largest_divisor_for_mapping(sets, 1 if jax.default_backend() == "cpu" else 2**27 // particles**2)
        split = jax.tree.map(lambda leaf: leaf.reshape(-1, together, *leaf.shape[1:]), (points, valid))
        found = jax.lax.map(lambda some: search(*some), split)
        return jax.tree.map(lambda leaf: leaf.reshape(sets, *leaf.shape[2:]), found)

    return share_among_devices(searched, None, points, valid)


def _squared_distances_to_neighbours(points, valid):
    """Return squared distances: infinite from a particle to itself and to invalid particles."""
    squares = jax.vmap(_squared_distances_for_knn)(points, points)
    return jnp.where(jnp.eye(valid.shape[-1], dtype=bool) | ~valid[:, None, :], jnp.inf, squares)


def _squared_distances_for_knn(points, others):
    """Return squared distances, computed from differences of coordinates.

    The formula |a|² + |b|² − 2ab would be quicker, but is wrong where particles lie close together.
    """
    dimension = points.shape[-1]
    # XLA sums over many coordinates without storing their differences; NumPy would store them all first.
    if dimension > 8 and isinstance(points, Array):
        return jnp.sum((points[:, None] - others[None]) ** 2, axis=-1)
    return sum((points[:, None, d] - others[None, :, d]) ** 2 for d in range(dimension))


@cache
def _knn_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(machine_cores(), thread_name_prefix="neighbours")
