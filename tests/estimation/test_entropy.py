"""Test the estimators of entropy and KL divergence against closed forms, finite differences and each other."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree
from scipy.special import digamma, gammaln

from alphamepol import InputError, importance_weighted_entropy, knn_entropy, knn_kl, nearest_neighbours
from alphamepol.estimation.entropy import (
    entropy_of_masses,
    kl_of_masses,
    log_masses_for_kl,
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


def neighbours_in_float64(neighbourhood: Neighbourhood, log_weights) -> tuple[np.ndarray, np.ndarray]:
    """Return ln ŵ of each set in float64, and the indices of the neighbours, as lists."""
    found = neighbourhood.indices
    if found is None:
        assert neighbourhood.among is not None
        found = np.argsort(~np.asarray(neighbourhood.among), axis=-1, kind="stable")[..., : neighbourhood.k]
    return np.where(neighbourhood.valid, np.asarray(log_weights, np.float64), -np.inf), np.asarray(found)


def true_kl(neighbourhood: Neighbourhood, log_weights) -> float:
    """Return the KL (E6) of stacked sets in float64."""
    log_weights, found = neighbours_in_float64(neighbourhood, log_weights)
    terms = np.take_along_axis(log_weights[:, None, :], found, axis=-1)
    log_masses = np.logaddexp.reduce(terms, axis=-1) - np.logaddexp.reduce(log_weights, axis=None)
    valid = np.asarray(neighbourhood.valid)
    return max(0.0, float(np.log(neighbourhood.k / valid.sum()) - log_masses[valid].mean()))


def true_weighted_entropy(neighbourhood: Neighbourhood, log_weights) -> float:
    """Return the entropy (E5) of one set in float64."""
    log_weights, found = neighbours_in_float64(neighbourhood, log_weights)
    weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    masses, k, dimension = weights[found].sum(axis=-1), neighbourhood.k, neighbourhood.dimension
    log_volumes = dimension * np.log(np.asarray(neighbourhood.radii, np.float64))
    log_volumes += dimension / 2 * np.log(np.pi) - gammaln(dimension / 2 + 1)
    counts = np.asarray(neighbourhood.valid) & (masses > 0)
    log_masses = np.log(masses, where=counts, out=np.zeros_like(masses))
    return float(-np.sum(np.where(counts, masses / k * (log_masses - log_volumes), 0)) + np.log(k) - digamma(k))


estimated_masses = jax.jit(jax.vmap(neighbour_masses_for_entropy))
estimated_kl = jax.jit(kl_of_masses)
estimated_entropy = jax.jit(weighted_entropy)


@pytest.mark.parametrize("method", ["tree", "matrix"])
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("lowest", [0, -10, -50, -87, -100, -200, -500, -1000])
def test_kl_and_entropy_of_weights_of_any_size(lowest: float, ended: bool, method: str) -> None:
    """A third of the points, on one side, has log-weights down to `lowest`; there neighbours are alike improbable."""
    random = np.random.default_rng(10)
    points = random.uniform(size=(3, 300, 2)).astype(np.float32)
    valid = random.random((3, 300)) < (0.8 if ended else 1.0)
    depth = np.where(points[..., 0] < 1 / 3, random.uniform(0.7, 1.0, (3, 300)), 0.0)
    log_weights = jnp.asarray(np.where(valid, lowest * depth, -np.inf), jnp.float32)
    neighbourhood = nearest_neighbours(points, 10, valid, method=method)
    kl = float(estimated_kl(neighbourhood, log_weights, estimated_masses(neighbourhood, log_weights)))
    assert kl == pytest.approx(true_kl(neighbourhood, log_weights), rel=1e-4, abs=1e-5)
    one = jax.tree.map(lambda leaf: leaf[0], neighbourhood)
    entropy = float(estimated_entropy(one, log_weights[0]))
    assert entropy == pytest.approx(true_weighted_entropy(one, log_weights[0]), rel=1e-4, abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.floats(0, 1000), st.sampled_from(["tree", "matrix"]), st.floats(-1e4, 1e4))
def test_kl_of_any_weights_against_float64(seed: int, depth: float, method: str, constant: float) -> None:
    random = np.random.default_rng(seed)
    points = random.normal(size=(2, 40, 2)).astype(np.float32)
    log_weights = (constant - depth * random.random((2, 40)) ** random.integers(1, 9)).astype(np.float32)
    neighbourhood = nearest_neighbours(points, 3, np.ones((2, 40), bool), method=method)
    masses = estimated_masses(neighbourhood, jnp.asarray(log_weights))
    kl = float(estimated_kl(neighbourhood, jnp.asarray(log_weights), masses))
    # The float32 weights of the constant itself are known to a ten-thousandth of a nat only.
    assert kl == pytest.approx(true_kl(neighbourhood, log_weights), rel=1e-4, abs=1e-5 + 2e-7 * abs(constant))


def test_kl_of_mapped_seeds_is_that_of_each() -> None:
    """Masses of the second seed underflow, and those of the others do not, whose bits stay the same."""
    points = np.random.default_rng(11).uniform(size=(3, 2, 200, 2)).astype(np.float32)
    depth = np.array([-1.0, -900.0, -20.0])[:, None, None]
    log_weights = jnp.asarray(np.where(points[..., 0] < 0.4, depth, 0.0), jnp.float32)
    neighbourhood = nearest_neighbours(points, 8)
    masses = jax.vmap(estimated_masses)(neighbourhood, log_weights)
    together = jax.vmap(kl_of_masses)(neighbourhood, log_weights, masses)
    for seed in range(3):
        one = jax.tree.map(lambda leaf, seed=seed: leaf[seed], neighbourhood)
        assert float(together[seed]) == pytest.approx(true_kl(one, log_weights[seed]), rel=1e-4)
    floored = jnp.log(masses)  # the logarithms as long as nothing underflows
    exact = jax.vmap(log_masses_for_kl)(neighbourhood, log_weights, masses)
    np.testing.assert_array_equal(exact[::2], floored[::2])
    assert np.any(np.asarray(exact[1]) < -800)


def test_kl_is_infinite_where_no_neighbour_has_a_weight() -> None:
    points = np.random.default_rng(12).uniform(size=(100, 2))
    log_weights = np.where(points[:, 0] < 0.5, -np.inf, 0.0)
    assert knn_kl(points, log_weights, 5) == np.inf
    assert np.isfinite(importance_weighted_entropy(points, log_weights, 5))


@pytest.mark.parametrize("k", [4, 120])
@pytest.mark.parametrize("dimension", [1, 2, 8, 12])
def test_points_in_float64_may_lie_far_from_zero(dimension: int, k: int) -> None:
    """In float32, points around 10⁸ are multiples of 8 and would coincide."""
    random = np.random.default_rng(13)
    points, far = random.standard_normal((300, dimension)), 1e8 * random.standard_normal(dimension)
    log_weights = random.standard_normal(300)
    for shift, scale in ((far, 1.0), (far, 1e-3), (1e3 * np.ones(dimension), 1e-6)):
        near, away = scale * points, scale * points + shift
        assert knn_entropy(away, k) == pytest.approx(float(knn_entropy(near, k)), rel=1e-4, abs=1e-4)
        for estimate in (importance_weighted_entropy, knn_kl):
            expected = float(estimate(near, log_weights, k))
            assert estimate(away, log_weights, k) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_log_weights_in_float64_may_have_a_large_constant() -> None:
    random = np.random.default_rng(14)
    points, log_weights = random.standard_normal((300, 2)), random.standard_normal(300)
    for estimate in (importance_weighted_entropy, knn_kl):
        expected = float(estimate(points, log_weights, 5))
        assert estimate(points, log_weights - 1e8, 5) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (np.nan, r"log_weights: they hold NaN or \+infinity"),
        (np.inf, r"log_weights: they hold NaN or \+infinity"),
        (-np.inf, "log_weights: all are −infinity"),
    ],
)
def test_weights_that_are_no_weights_are_refused(wrong: float, sentence: str) -> None:
    points = np.random.default_rng(15).standard_normal((30, 2))
    for estimate in (importance_weighted_entropy, knn_kl):
        with pytest.raises(InputError, match=sentence):
            estimate(points, np.full(30, wrong), 5)
