"""Distributions over actions, against SciPy, sums and samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphamepol.distributions import Categorical, Normal

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
