"""Test the estimators of entropy and KL divergence against closed forms, finite differences and each other."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree

from alphamepol import importance_weighted_entropy, knn_entropy, knn_kl, nearest_neighbours
from alphamepol.estimation.entropy import (
    entropy_of_masses,
    kl_of_masses,
    neighbour_masses_for_entropy,
    particle_entropy,
    weighted_entropy,
)
from alphamepol.estimation.knn import Neighbourhood

pytestmark = pytest.mark.quick

REPEATS, POINTS = 20, 2000


@pytest.mark.parametrize("dimension", [1, 2, 8])
def test_entropy_of_a_gaussian(dimension: int) -> None:
    deviation = 0.5
    samples = deviation * np.random.default_rng(dimension).standard_normal((REPEATS, POINTS, dimension))
    truth = 0.5 * dimension * math.log(2 * math.pi * math.e * deviation**2)
    estimates = np.array([knn_entropy(sample, 4) for sample in samples])
    assert abs(estimates.mean() - truth) < estimates.std(ddof=1)


@pytest.mark.parametrize("dimension", [1, 2])
def test_entropy_of_a_uniform_square(dimension: int) -> None:
    # The test uses one neighbour. With more, the balls at the edges reach further out, and the bias exceeds the
    # deviation (in two dimensions with k = 4: 0.029 against 0.011).
    samples = np.random.default_rng(dimension).uniform(-1, 1, (REPEATS, POINTS, dimension))
    estimates = np.array([knn_entropy(sample, 1) for sample in samples])
    assert abs(estimates.mean() - dimension * math.log(2)) < estimates.std(ddof=1)


@pytest.mark.parametrize(("dimension", "k"), [(1, 4), (1, 30), (2, 4), (2, 30), (8, 4)])
def test_entropy_of_a_square_without_edges(dimension: int, k: int) -> None:
    # Balls at an edge reach outside. This biases the estimate of a square upwards, by more than a nat in eight
    # dimensions. A torus has no edge, so the mean over repeats must come close to the truth.
    random = np.random.default_rng(10 * dimension + k)
    estimates = []
    for _ in range(REPEATS):
        points = random.uniform(0, 2, (POINTS, dimension))
        distances, indices = KDTree(points, boxsize=2.0).query(points, k + 1)
        torus = Neighbourhood(
            radii=jnp.asarray(distances[:, -1], jnp.float32),
            valid=jnp.ones(POINTS, bool),
            indices=jnp.asarray(indices[:, 1:]),
            among=None,
            k=k,
            dimension=dimension,
        )
        estimates.append(float(particle_entropy(torus)))
    standard_error = np.std(estimates, ddof=1) / math.sqrt(REPEATS)
    assert abs(np.mean(estimates) - dimension * math.log(2)) < 3 * standard_error


@pytest.mark.parametrize(
    ("dimension", "unit_ball"), [(1, 2.0), (2, math.pi), (3, 4 / 3 * math.pi), (8, math.pi**4 / 24)]
)
def test_volume_of_the_ball(dimension: int, unit_ball: float) -> None:
    # If all radii are equal, the estimate is ln V + ln n − ψ(k), and ψ(2) = 1 − γ.
    same = Neighbourhood(jnp.full(7, 0.3), jnp.ones(7, bool), jnp.zeros((7, 2), int), None, k=2, dimension=dimension)
    expected = math.log(unit_ball * 0.3**dimension) + math.log(7) - (1 - 0.5772156649)
    assert particle_entropy(same) == pytest.approx(expected, abs=1e-5)


def test_entropy_follows_scaling_and_shifting() -> None:
    points = np.random.default_rng(0).uniform(size=(500, 3))
    assert knn_entropy(5 * points + 7, 5) == pytest.approx(float(knn_entropy(points, 5)) + 3 * math.log(5), abs=1e-4)


def test_entropy_of_four_points_worked_by_hand() -> None:
    # On a line at 0, 1, 3, 7 with k = 2 the radii are 3, 2, 3, 6; a ball of radius r has volume 2r.
    points = np.array([[0.0], [1.0], [3.0], [7.0]])
    psi_of_2 = 1 - 0.5772156649
    expected = -np.mean([math.log(2 / (4 * 2 * r)) for r in (3, 2, 3, 6)]) + math.log(2) - psi_of_2
    assert knn_entropy(points, 2) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), k=st.sampled_from([1, 2, 10]), constant=st.floats(-50, 50))
def test_equal_weights_give_the_plain_entropy(seed: int, k: int, constant: float) -> None:
    points = np.random.default_rng(seed).standard_normal((60, 2))
    weighted = importance_weighted_entropy(points, np.full(60, constant), k)
    assert weighted == pytest.approx(float(knn_entropy(points, k)), abs=2e-5)


def test_weights_that_pick_a_region_give_the_entropy_of_that_region() -> None:
    # Points are uniform on [0, 4) x [0, 1) and re-weighted to the half [0, 2) x [0, 1). The entropy falls from ln 4 to
    # ln 2.
    points = np.random.default_rng(1).uniform((0, 0), (4, 1), (4000, 2))
    log_weights = np.where(points[:, 0] < 2, 0.0, -30.0)
    # The estimate is compared with the plain one of that half, which has the same bias from the same edges.
    half = float(knn_entropy(points[points[:, 0] < 2], 20))
    assert importance_weighted_entropy(points, log_weights, 20) == pytest.approx(half, abs=0.015)
    assert float(knn_entropy(points, 20)) - half == pytest.approx(math.log(2), abs=0.03)


def test_gradient_of_the_weighted_entropy_against_finite_differences() -> None:
    with jax.enable_x64(True):
        random = np.random.default_rng(2)
        points = random.standard_normal((60, 2))
        log_weights = jnp.asarray(0.3 * random.standard_normal(60))
        neighbourhood = nearest_neighbours(points, 5)
        assert neighbourhood.radii.dtype == jnp.float64

        def entropy(log_weights):
            return weighted_entropy(neighbourhood, log_weights)

        gradient = jax.grad(entropy)(log_weights)
        step = 1e-6
        for i in range(60):
            change = jnp.zeros(60).at[i].set(step)
            difference = (entropy(log_weights + change) - entropy(log_weights - change)) / (2 * step)
            assert gradient[i] == pytest.approx(float(difference), abs=1e-8)
        assert float(jnp.abs(gradient).max()) > 1e-3


def test_kl_is_zero_without_change_and_positive_away_from_it() -> None:
    random = np.random.default_rng(3)
    points = random.uniform(size=(4, 500, 2))
    assert knn_kl(points, np.zeros((4, 500)), 10) == pytest.approx(0.0, abs=1e-5)
    assert knn_kl(points, np.full((4, 500), 3.0), 10) == pytest.approx(0.0, abs=1e-5)
    small, large = (float(knn_kl(points, scale * points[..., 0], 10)) for scale in (1.0, 3.0))
    assert 0.01 < small < large


def test_kl_of_a_known_change_of_density() -> None:
    # The density changes from uniform on the unit square to 1.5 on one half and 0.5 on the other. Then
    # KL = -(ln 1.5 + ln 0.5) / 2.
    points = np.random.default_rng(4).uniform(size=(8, 2000, 2))
    log_weights = np.log(np.where(points[..., 0] < 0.5, 1.5, 0.5))
    assert knn_kl(points, log_weights, 20) == pytest.approx(-(math.log(1.5) + math.log(0.5)) / 2, abs=0.01)


def test_kl_weights_are_normalised_over_the_epoch_not_the_set() -> None:
    # One of two sets has three quarters of the weight. Weights are equal within each set, but not over both sets.
    points = np.random.default_rng(5).uniform(size=(2, 300, 2))
    log_weights = np.log(np.stack([np.full(300, 1.5), np.full(300, 0.5)]))
    assert knn_kl(points, log_weights, 10) == pytest.approx(-(math.log(1.5) + math.log(0.5)) / 2, abs=1e-4)


def test_particles_after_an_early_end_change_nothing() -> None:
    random = np.random.default_rng(6)
    points, log_weights = random.standard_normal((80, 2)), random.standard_normal(80)
    padded = np.concatenate([points, points[:20] + 1e-3])
    valid = np.arange(100) < 80
    cut, whole = nearest_neighbours(padded, 5, valid), nearest_neighbours(points, 5)
    np.testing.assert_allclose(particle_entropy(cut), particle_entropy(whole), atol=1e-6)
    padded_weights = jnp.asarray(np.concatenate([log_weights, np.full(20, 9.0)]))
    np.testing.assert_allclose(
        weighted_entropy(cut, padded_weights), weighted_entropy(whole, jnp.asarray(log_weights)), atol=1e-5
    )
    gradient = jax.grad(lambda weights: weighted_entropy(cut, weights))(padded_weights)
    assert np.all(np.asarray(gradient)[80:] == 0)
    assert np.all(np.isfinite(gradient))


def test_masses_sum_to_k_when_everybody_is_chosen_equally_often() -> None:
    # Particles have equal distances on a ring, so each is the neighbour of exactly k others.
    angle = 2 * np.pi * np.arange(12) / 12
    ring: Neighbourhood = nearest_neighbours(np.stack([np.cos(angle), np.sin(angle)], axis=1), 2)
    weights = np.random.default_rng(7).standard_normal(12)
    assert float(jnp.sum(neighbour_masses_for_entropy(ring, jnp.asarray(weights)))) == pytest.approx(2.0, abs=1e-5)


def test_extreme_weights_stay_finite() -> None:
    points = np.random.default_rng(8).uniform(size=(100, 2))
    neighbourhood = nearest_neighbours(points, 3)
    log_weights = jnp.linspace(-2000.0, 2000.0, 100)
    value, gradient = jax.value_and_grad(lambda weights: weighted_entropy(neighbourhood, weights))(log_weights)
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("over_sets", [jax.vmap, lambda one: lambda *sets: jax.lax.map(lambda some: one(*some), sets)])
def test_marked_neighbours_count_as_much_as_listed_ones(over_sets) -> None:
    random = np.random.default_rng(9)
    points = random.standard_normal((3, 400, 2)).astype(np.float32)
    valid = random.random((3, 400)) < 0.8
    log_weights = jnp.where(valid, jnp.asarray(random.standard_normal((3, 400)), jnp.float32), -jnp.inf)

    def estimate(log_weights, neighbourhood):
        masses = over_sets(neighbour_masses_for_entropy)(neighbourhood, log_weights)
        entropies = jax.vmap(entropy_of_masses)(neighbourhood, masses)
        kl = kl_of_masses(neighbourhood, log_weights, masses)
        return jnp.sum(entropies) + kl, (masses, entropies, kl, jax.vmap(particle_entropy)(neighbourhood))

    slopes_and_estimates = jax.jit(jax.grad(estimate, has_aux=True))
    listed, marked = (
        slopes_and_estimates(log_weights, nearest_neighbours(points, 120, valid, method=method))
        for method in ("tree", "matrix")
    )
    for ours, theirs in zip(marked[1], listed[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    assert np.all(np.isfinite(listed[0]))
    np.testing.assert_allclose(marked[0], listed[0], atol=1e-6 * float(jnp.abs(listed[0]).max()))
