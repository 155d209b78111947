"""Both ways of finding neighbours against scikit-learn, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from alphamepol import InputError, nearest_neighbours

METHODS = ["tree", "brute"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dimension", "k"), [(1, 1), (2, 30), (2, 200), (8, 5), (29, 10), (64, 50)])
def test_agrees_with_scikit_learn(method: str, dimension: int, k: int) -> None:
    points = np.random.default_rng(dimension).standard_normal((2, 400, dimension)).astype(np.float32)
    found = nearest_neighbours(points, k, method=method)
    for i in range(2):
        reference = NearestNeighbors(n_neighbors=k).fit(points[i])
        distances, indices = reference.kneighbors()  # without arguments a point is not its own neighbour
        np.testing.assert_allclose(found.radii[i], distances[:, -1], rtol=1e-5)
        # Of equally distant points, to rounding, either may be counted.
        same = np.mean(np.sort(found.indices[i], axis=-1) == np.sort(indices, axis=-1))
        assert same > 0.999


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16), n=st.sampled_from([12, 40]), k=st.integers(1, 11), dimension=st.sampled_from([1, 2, 12])
)
def test_both_methods_agree_and_count_nobody_twice(seed: int, n: int, k: int, dimension: int) -> None:
    points = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    tree, brute = (nearest_neighbours(points, k, method=method) for method in METHODS)
    np.testing.assert_allclose(tree.radii, brute.radii, rtol=1e-4, atol=1e-6)
    for found in (tree, brute):
        indices = np.asarray(found.indices)
        assert all(len(set(row)) == k for row in indices)
        assert not np.any(indices == np.arange(n)[:, None])


@pytest.mark.parametrize("method", METHODS)
def test_a_particle_is_not_its_own_neighbour_even_among_coinciding_ones(method: str) -> None:
    points = np.zeros((6, 2), np.float32)
    points[4:] = [[1, 0], [0, 2]]
    found = nearest_neighbours(points, 4, method=method)
    assert not np.any(np.asarray(found.indices) == np.arange(6)[:, None])
    np.testing.assert_allclose(found.radii, [1, 1, 1, 1, 1, 2])
    nearer = nearest_neighbours(points, 3, method=method)
    np.testing.assert_allclose(nearer.radii, [0, 0, 0, 0, 1, 2])


@pytest.mark.parametrize("method", METHODS)
def test_invalid_particles_are_nobodys_neighbours(method: str) -> None:
    points = np.random.default_rng(0).standard_normal((3, 50, 2)).astype(np.float32)
    valid = np.random.default_rng(1).random((3, 50)) < 0.6
    found = nearest_neighbours(points, 4, valid, method=method)
    for i in range(3):
        assert np.all(valid[i][np.asarray(found.indices)[i][valid[i]]])
        alone = nearest_neighbours(points[i][valid[i]], 4, method=method)
        np.testing.assert_allclose(np.asarray(found.radii)[i][valid[i]], alone.radii, rtol=1e-6)


def test_far_from_the_origin_nothing_cancels() -> None:
    points = (1000 + np.random.default_rng(2).uniform(size=(200, 2))).astype(np.float32)
    tree, brute = (nearest_neighbours(points, 5, method=method) for method in METHODS)
    np.testing.assert_allclose(tree.radii, brute.radii, rtol=1e-5)


def test_clusters_in_many_dimensions() -> None:
    # Distances within a cluster are a ten-thousandth of the coordinates: a product of matrices would not see them.
    random = np.random.default_rng(3)
    centres = np.repeat(random.uniform(-3, 3, (8, 64)), 50, axis=0)
    points = (centres + random.uniform(0, 1e-3, centres.shape)).astype(np.float32)
    tree, brute = (nearest_neighbours(points, 30, method=method) for method in METHODS)
    np.testing.assert_allclose(tree.radii, brute.radii, rtol=1e-5)
    assert np.mean(np.sort(tree.indices, axis=-1) == np.sort(brute.indices, axis=-1)) > 0.99


@pytest.mark.parametrize("method", METHODS)
def test_whole_numbers_are_points_too(method: str) -> None:
    points = np.random.default_rng(4).integers(0, 50, (40, 2))
    found = nearest_neighbours(points, 12, method=method)
    np.testing.assert_allclose(found.radii, nearest_neighbours(points.astype(float), 12).radii, rtol=1e-6)


@pytest.mark.parametrize("k", [0, 10, 11])
def test_refuses_k_that_is_not_less_than_the_particles(k: int) -> None:
    with pytest.raises(InputError, match=f"neighbours: k = {k} was given for 10 particles"):
        nearest_neighbours(np.zeros((10, 2)), k)
