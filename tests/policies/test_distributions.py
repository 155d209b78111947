"""Test distributions over actions against SciPy, sums and samples."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphamepol.policies.distributions import Categorical, Normal, SquashedNormal
from alphamepol.policies.memory import ActionRange

pytestmark = pytest.mark.quick

numbers = st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3)


@settings(max_examples=25, deadline=None)
@given(numbers, numbers, numbers, numbers)
def test_kl_of_normals_is_that_of_their_densities(mean, log_std, other_mean, other_log_std) -> None:
    one, other = Normal(jnp.array(mean), jnp.array(log_std)), Normal(jnp.array(other_mean), jnp.array(other_log_std))
    deviation, other_deviation = np.exp(log_std), np.exp(other_log_std)
    # Cross-entropy minus entropy, component by component.
    second_moment = deviation**2 + (np.array(mean) - other_mean) ** 2
    cross = 0.5 * np.log(2 * np.pi * other_deviation**2) + 0.5 * second_moment / other_deviation**2
    expected = np.sum(cross - stats.norm.entropy(mean, deviation))
    assert float(one.kl(other)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4), st.lists(st.floats(-3, 3), min_size=4, max_size=4))
def test_categorical_agrees_with_scipy(logits, other_logits) -> None:
    one, other = Categorical(jnp.array(logits)), Categorical(jnp.array(other_logits))
    p, q = (np.exp(values) / np.exp(values).sum() for values in (np.array(logits), np.array(other_logits)))
    assert float(one.kl(other)) == pytest.approx(stats.entropy(p, q), rel=1e-3, abs=1e-5)
    log_probs = [float(one.log_prob(jnp.array(action))) for action in range(4)]
    np.testing.assert_allclose(log_probs, np.log(p), rtol=1e-4, atol=1e-5)


def test_categorical_samples_come_as_often_as_they_should() -> None:
    distribution = Categorical(jnp.log(jnp.array([0.1, 0.2, 0.7])))
    actions = jax.vmap(lambda key: distribution.sample(key=key))(jax.random.split(jax.random.key(0), 20_000))
    np.testing.assert_allclose(np.bincount(actions) / 20_000, [0.1, 0.2, 0.7], atol=0.01)


def test_kl_to_itself_is_zero() -> None:
    for one in (Normal(jnp.array([0.3, -1.0]), jnp.array([-1.5, 0.2])), Categorical(jnp.array([0.3, -1.0, 4.0]))):
        assert float(one.kl(one)) == pytest.approx(0.0, abs=1e-6)


SKEWED = ActionRange(0, (-0.2,), (0.6,))
PLANE = ActionRange(0, (-0.2, -3.0), (0.6, 1.0))


def squashed(actions: ActionRange, mean: Sequence[float], log_std: Sequence[float]) -> SquashedNormal:
    return SquashedNormal(Normal(jnp.array(mean), jnp.array(log_std)), actions)


def draw(distribution: SquashedNormal, count: int) -> jax.Array:
    return jax.vmap(lambda key: distribution.sample(key=key))(jax.random.split(jax.random.key(1), count))


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -1.0), (-0.5, -0.3)])
def test_the_density_of_a_squashed_normal_adds_up_to_what_is_squashed(mean: float, log_std: float) -> None:
    """Integrate the density with the midpoint rule, from the low end of the range up to each point.

    The integral is the probability that the normal draws a number that is squashed to less. It is 1 in the end.
    """
    cells = 20_000
    edges = np.linspace(-0.2, 0.6, cells + 1)
    distribution = squashed(SKEWED, [mean], [log_std])
    middles = jnp.array((edges[1:] + edges[:-1]) / 2)[:, None]
    density = np.exp(np.asarray(jax.vmap(distribution.log_prob)(middles), float))
    below = np.cumsum(density) * 0.8 / cells
    assert below[-1] == pytest.approx(1.0, abs=1e-3)
    expected = stats.norm.cdf(np.arctanh((edges[1:-1] - 0.2) / 0.4), mean, np.exp(log_std))
    np.testing.assert_allclose(below[:-1], expected, atol=1e-3)


def test_a_squashed_sample_is_the_one_within_stretched_and_so_is_its_density() -> None:
    distribution = squashed(PLANE, [0.4, -0.9], [-0.5, 0.1])
    keys = jax.random.split(jax.random.key(0), 200)
    within, log_probs = jax.vmap(lambda key: distribution.sample_within(key=key))(keys)
    actions = jax.vmap(lambda key: distribution.sample(key=key))(keys)
    np.testing.assert_allclose(actions, np.array([0.2, -1.0]) + np.array([0.4, 2.0]) * within, rtol=1e-5, atol=1e-6)
    # A density per half range is the density per unit times half the range.
    stretched = jax.vmap(distribution.log_prob)(actions) + np.log(0.4 * 2.0)
    np.testing.assert_allclose(log_probs, stretched, atol=5e-3)
    before = np.arctanh(np.asarray(within, float))
    expected = stats.norm.logpdf(before, [0.4, -0.9], np.exp([-0.5, 0.1])) - np.log(1 - np.asarray(within, float) ** 2)
    np.testing.assert_allclose(log_probs, expected.sum(axis=1), atol=5e-3)


@pytest.mark.parametrize("mean", [-1e4, -9.0, 0.0, 9.0, 1e4])
@pytest.mark.parametrize("log_std", [-5.0, 2.0, 10.0])
def test_squashed_samples_never_leave_the_range(mean: float, log_std: float) -> None:
    actions = np.asarray(draw(squashed(PLANE, [mean, -mean], [log_std, log_std]), 500), float)
    rounding = 1e-6
    assert np.all(actions >= np.array(PLANE.low) - rounding)
    assert np.all(actions <= np.array(PLANE.high) + rounding)


def test_squashed_samples_reach_both_ends_of_the_range() -> None:
    actions = draw(squashed(PLANE, [0.0, 0.0], [2.0, 2.0]), 500)
    np.testing.assert_allclose(actions.min(axis=0), PLANE.low, atol=1e-4)
    np.testing.assert_allclose(actions.max(axis=0), PLANE.high, atol=1e-4)


def test_kl_of_squashed_normals_is_that_of_the_normals_and_of_their_densities() -> None:
    one, other = squashed(PLANE, [0.3, -0.6], [-0.7, -0.2]), squashed(PLANE, [-0.2, 0.1], [-0.3, -0.5])
    assert float(one.kl(other)) == float(one.normal.kl(other.normal))
    actions = draw(one, 100_000)
    estimates = jax.vmap(one.log_prob)(actions) - jax.vmap(other.log_prob)(actions)
    error = float(jnp.std(estimates)) / np.sqrt(100_000)
    assert error < 0.01
    assert float(one.kl(other)) == pytest.approx(float(jnp.mean(estimates)), abs=4 * error)


@pytest.mark.parametrize("log_std", [-5.0, 0.0, 2.0])
def test_the_density_at_the_ends_of_the_range_is_a_number_and_has_a_gradient(log_std: float) -> None:
    ends = jnp.array([[-0.2, -3.0], [0.6, 1.0], [-0.2, 1.0], [0.0, -3.0]])

    def log_prob(parameters, action):
        return squashed(PLANE, *parameters).log_prob(action)

    for end in ends:
        value, gradient = jax.value_and_grad(log_prob)((jnp.array([0.3, -0.2]), jnp.full(2, log_std)), end)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
