"""Test the methods of finding neighbours against scikit-learn and against each other."""

from unittest import mock

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from alphamepol import InputError, nearest_neighbours
from alphamepol.estimation.knn import Neighbourhood

METHODS = ["tree", "brute", "brute on a device", "matrix", "matrix on a device"]


def find(points, k: int, valid=None, *, method: str) -> Neighbourhood:
    method, on_a_device, _ = method.partition(" on a device")
    if not on_a_device:
        return nearest_neighbours(points, k, valid, method=method)
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        return nearest_neighbours(points, k, valid, method=method)


def marks(found: Neighbourhood) -> np.ndarray:
    """Return the matrix of neighbours, whether they are stored as a matrix or as indices."""
    if found.among is not None:
        assert found.indices is None
        return np.asarray(found.among)
    marked = np.zeros((*found.radii.shape, found.radii.shape[-1]), bool)
    np.put_along_axis(marked, np.asarray(found.indices), True, axis=-1)
    return marked


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dimension", "k"), [(1, 1), (2, 30), (2, 200), (8, 5), (29, 10), (64, 50)])
def test_agrees_with_scikit_learn(method: str, dimension: int, k: int) -> None:
    points = np.random.default_rng(dimension).standard_normal((2, 400, dimension)).astype(np.float32)
    found = find(points, k, method=method)
    for i in range(2):
        reference = NearestNeighbors(n_neighbors=k).fit(points[i])
        distances, indices = reference.kneighbors()  # without arguments a point is not its own neighbour
        np.testing.assert_allclose(found.radii[i], distances[:, -1], rtol=1e-5)
        # If two points are equally distant up to rounding, either may be counted.
        assert np.mean(np.take_along_axis(marks(found)[i], indices, axis=-1)) > 0.999


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16), n=st.sampled_from([12, 40]), k=st.integers(1, 11), dimension=st.sampled_from([1, 2, 12])
)
def test_methods_agree_and_count_nobody_twice(seed: int, n: int, k: int, dimension: int) -> None:
    points = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    tree, *others = (find(points, k, method=method) for method in ("tree", "brute", "matrix"))
    for found in (tree, *others):
        np.testing.assert_allclose(tree.radii, found.radii, rtol=1e-4, atol=1e-6)
        assert np.all(marks(found).sum(axis=-1) == k)
        assert not np.any(np.diagonal(marks(found)))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_neighbours_as_the_tree(method: str) -> None:
    points = np.random.default_rng(5).standard_normal((2, 3, 450, 2)).astype(np.float32)
    valid = np.random.default_rng(6).random((2, 3, 450)) < 0.8
    found, tree = (find(points, 150, valid, method=way) for way in (method, "tree"))
    np.testing.assert_array_equal(marks(found)[valid], marks(tree)[valid])
    np.testing.assert_allclose(found.radii, tree.radii, rtol=1e-6)
    assert np.all(np.asarray(found.radii)[~valid] == 1)
    assert found.k == tree.k == 150


@pytest.mark.parametrize("method", ["matrix", "matrix on a device", "brute on a device"])
@pytest.mark.parametrize("k", [1, 6, 60, 150])
def test_of_equally_distant_particles_the_first_are_marked(method: str, k: int) -> None:
    # On a grid nearly all distances occur many times. A stable sort by distance keeps the order of equal ones.
    grid = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), axis=-1).reshape(-1, 2).astype(np.float32)
    valid = np.random.default_rng(k).random(225) < 0.9
    found = find(grid, k, valid, method=method)
    squares = np.sum((grid[:, None] - grid[None]) ** 2, axis=-1)
    squares[:, ~valid] = np.inf
    np.fill_diagonal(squares, np.inf)
    first = np.argsort(squares, axis=-1, kind="stable")[:, :k]
    expected = np.zeros((225, 225), bool)
    np.put_along_axis(expected, first, True, axis=-1)
    np.testing.assert_array_equal(marks(found)[valid], expected[valid])
    radii = np.sqrt(np.take_along_axis(squares, first[:, -1:], axis=-1))[:, 0]
    np.testing.assert_allclose(found.radii, np.where(valid, radii, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("k", "particles", "marked"), [(30, 150, False), (99, 400, False), (100, 900, False), (100, 800, True)]
)
def test_only_many_neighbours_are_marked(k: int, particles: int, marked: bool) -> None:
    found = nearest_neighbours(np.random.default_rng(7).uniform(size=(particles, 2)), k)
    assert (found.among is not None) == marked


@pytest.mark.parametrize("method", METHODS)
def test_a_particle_is_not_its_own_neighbour_even_among_coinciding_ones(method: str) -> None:
    points = np.zeros((6, 2), np.float32)
    points[4:] = [[1, 0], [0, 2]]
    found = find(points, 4, method=method)
    assert not np.any(np.diagonal(marks(found)))
    np.testing.assert_allclose(found.radii, [1, 1, 1, 1, 1, 2])
    nearer = find(points, 3, method=method)
    np.testing.assert_allclose(nearer.radii, [0, 0, 0, 0, 1, 2])


@pytest.mark.parametrize("method", METHODS)
def test_invalid_particles_are_nobodys_neighbours(method: str) -> None:
    points = np.random.default_rng(0).standard_normal((3, 50, 2)).astype(np.float32)
    valid = np.random.default_rng(1).random((3, 50)) < 0.6
    points[~valid] = np.inf  # the position of an invalid particle must not matter
    found = find(points, 4, valid, method=method)
    for i in range(3):
        assert not np.any(marks(found)[i][valid[i]][:, ~valid[i]])
        alone = find(points[i][valid[i]], 4, method="tree")
        np.testing.assert_allclose(np.asarray(found.radii)[i][valid[i]], alone.radii, rtol=1e-6)


def test_far_from_the_origin_nothing_cancels() -> None:
    points = (1000 + np.random.default_rng(2).uniform(size=(200, 2))).astype(np.float32)
    tree, *others = (find(points, 5, method=method) for method in METHODS)
    for found in others:
        np.testing.assert_allclose(tree.radii, found.radii, rtol=1e-5)


def test_clusters_in_many_dimensions() -> None:
    # Distances within a cluster are a ten-thousandth of the coordinates. A product of matrices would lose them to
    # rounding.
    random = np.random.default_rng(3)
    centres = np.repeat(random.uniform(-3, 3, (8, 64)), 50, axis=0)
    points = (centres + random.uniform(0, 1e-3, centres.shape)).astype(np.float32)
    tree, *others = (find(points, 30, method=method) for method in METHODS)
    for found in others:
        np.testing.assert_allclose(tree.radii, found.radii, rtol=1e-5)
        assert np.mean(marks(found)[marks(tree)]) > 0.99


@pytest.mark.parametrize("method", METHODS)
def test_whole_numbers_are_points_too(method: str) -> None:
    points = np.random.default_rng(4).integers(0, 50, (40, 2))
    found = find(points, 12, method=method)
    np.testing.assert_allclose(found.radii, nearest_neighbours(points.astype(float), 12).radii, rtol=1e-6)


@pytest.mark.parametrize("k", [0, 10, 11])
def test_refuses_k_that_is_not_less_than_the_particles(k: int) -> None:
    with pytest.raises(InputError, match=f"neighbours: k = {k} was given for 10 particles"):
        nearest_neighbours(np.zeros((10, 2)), k)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dimension", [2, 9])
def test_float64_keeps_neighbours_apart_far_from_zero(method: str, dimension: int) -> None:
    points = np.random.default_rng(0).standard_normal((2, 100, dimension))
    near, far = find(points, 5, method=method), find(1e9 + points, 5, method=method)
    np.testing.assert_allclose(far.radii, near.radii, rtol=1e-4)
    assert np.mean(marks(far) == marks(near)) > 0.999
    assert far.radii.dtype == np.float32


@pytest.mark.parametrize("convert", [np.int64, np.int32, jax.numpy.asarray])
def test_large_integers_keep_their_digits(convert) -> None:
    found = nearest_neighbours(convert(100_000_000 + np.array([[0], [1], [3]])), 1)
    np.testing.assert_array_equal(found.radii, [1, 1, 2])


def test_distances_of_short_floats_are_not_rounded() -> None:
    found = nearest_neighbours(np.array([[0.0], [1000.0], [2001.0], [60000.0]], np.float16), 1)
    np.testing.assert_array_equal(found.radii, [1000, 1000, 1001, 57999])  # float16 would round 57999 to 57984


@pytest.mark.parametrize("distance", [1e-50, 1e50])
def test_distances_that_float32_cannot_hold_are_refused(distance: float) -> None:
    with pytest.raises(InputError, match=r"points: a distance of 1e[+-]50 .* multiply all points by a constant"):
        nearest_neighbours(distance * np.arange(4.0)[:, None], 1)


def test_points_that_are_not_finite_are_refused_unless_they_do_not_count() -> None:
    points = np.array([[0.0], [1.0], [np.nan], [5.0]])
    with pytest.raises(InputError, match="points: they hold NaN or infinity"):
        nearest_neighbours(points, 1)
    found = nearest_neighbours(points, 1, np.array([True, True, False, True]))
    np.testing.assert_array_equal(found.radii, [1, 1, 1, 4])
