"""Test the numbers that `check` computes from samples of a class, against direct counts and enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamepol.checking.component_scales import component_scales_of, wild_component_scale
from alphamepol.checking.member_shares import member_share_of_draws, member_share_of_variance, member_shares_of_tail
from alphamepol.estimation.risk import weighted_cvar
from alphamepol.measuring.aliasing import measure_aliasing

pytestmark = pytest.mark.quick


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 12))
def test_twins_are_those_of_comparing_all_with_all(seed, minibatches, particles):
    random = np.random.default_rng(seed)
    points = random.integers(0, 3, (minibatches, particles, 2)).astype(np.float32)
    valid = random.uniform(size=(minibatches, particles)) < 0.8
    found = measure_aliasing(points, valid)
    twins, largest = 0, 1
    for of, inside in zip(points, valid, strict=True):
        some = of[inside]
        same = (some[:, None] == some[None]).all(axis=-1).sum(axis=1) if len(some) else np.zeros(0, int)
        twins += int((same > 1).sum())
        largest = max([largest, *same.tolist()])
    assert found.coinciding == pytest.approx(twins / max(1, valid.sum()))
    assert found.largest == largest


def test_the_smallest_safe_k_is_the_first_with_finite_entropy():
    from alphamepol import knn_entropy

    points = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(size=(40, 2))]).astype(np.float32)
    safe = measure_aliasing(points[None], np.ones((1, 45), bool)).largest
    assert not np.isfinite(knn_entropy(points, safe - 1))
    assert np.isfinite(knn_entropy(points, safe))


def test_a_scale_is_mean_deviation_and_ends():
    values = np.array([[1.0, 10.0], [3.0, 10.0]])
    found = component_scales_of(values)
    assert found.mean.tolist() == [2.0, 10.0]
    assert found.deviation.tolist() == [1.0, 0.0]
    assert (found.low.tolist(), found.high.tolist()) == ([1.0, 10.0], [3.0, 10.0])
    assert found.moving.tolist() == [True, False]
    assert found.inequality == 1.0


@pytest.mark.parametrize(
    ("factors", "wild"),
    [
        ((1.0, 1.0), None),
        ((1.0, 2e3), 1),
        ((500.0, 2e3), 1),
        ((1.0, 1e-3), None),
        ((1e-3, 1e-2), 1),
        ((5.0, 0.2), None),
    ],
)
def test_numbers_far_from_one_are_wild_if_they_are_large_or_all_small(factors, wild):
    values = np.random.default_rng(0).normal(size=(1000, 2)) * np.array(factors)
    assert wild_component_scale(component_scales_of(values)) == wild


def test_a_constant_can_be_too_large_but_makes_nothing_visible():
    moving = np.random.default_rng(0).normal(size=100)
    assert wild_component_scale(component_scales_of(np.column_stack([moving, np.full(100, 1e6)]))) == 1
    assert wild_component_scale(component_scales_of(np.column_stack([moving, np.full(100, 1.0)]))) is None
    assert wild_component_scale(component_scales_of(np.column_stack([1e-3 * moving, np.full(100, 1.0)]))) == 0
    assert wild_component_scale(component_scales_of(np.column_stack([1e-3 * moving, np.zeros(100)]))) == 0
    assert wild_component_scale(component_scales_of(np.zeros((100, 2)))) is None


@given(st.floats(0.01, 0.99), st.integers(1, 12))
@settings(deadline=None, derandomize=True)
def test_lots_are_binomial(probability, minibatches):
    from scipy.stats import binom

    found = member_share_of_draws(probability, minibatches)
    counts = np.arange(minibatches + 1)
    chances = binom.pmf(counts, minibatches, probability)
    assert found.expected == pytest.approx(counts @ chances)
    assert found.absent == pytest.approx(chances[0])


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0))
@settings(deadline=None, derandomize=True)
def test_shares_of_the_tail_add_up_to_its_mean(seed, alpha):
    """The mean of the tail is that of `weighted_cvar`, and the shares are those of an enumeration of the tail."""
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.ones(3))
    entropies = np.repeat(random.normal(size=(3, 1)), 4, axis=1)  # equal within each member
    shares = member_shares_of_tail(entropies, probabilities.tolist(), alpha)
    assert shares.sum() == pytest.approx(1.0)
    weights = np.repeat(probabilities / 4, 4)
    assert shares @ entropies[:, 0] == pytest.approx(weighted_cvar(entropies.ravel(), weights, alpha))
    left, expected = alpha, np.zeros(3)
    for member in np.argsort(entropies[:, 0]):
        expected[member] = min(left, probabilities[member])
        left -= expected[member]
    np.testing.assert_allclose(shares, expected / alpha, atol=1e-9)


def test_variance_between_members_is_told_from_luck():
    random = np.random.default_rng(0)
    luck = random.normal(size=(4, 50))
    uniform = [0.25] * 4
    assert member_share_of_variance(luck, uniform) < 0.05
    apart = luck + 3.0 * np.array([[-1.0], [1.0], [-1.0], [1.0]])
    assert member_share_of_variance(apart, uniform) == pytest.approx(0.9, abs=0.03)  # 9 between, 1 within members
    assert member_share_of_variance(np.ones((2, 3)), [0.5, 0.5]) == 0.0
    rare = np.stack([luck[0], luck[1] + 100.0])
    between = 0.01 * 0.99 * 100**2
    assert member_share_of_variance(rare, [0.99, 0.01]) == pytest.approx(between / (between + 1), abs=0.02)
    few = [member_share_of_variance(random.normal(size=(5, 3)), [0.2] * 5) for _ in range(300)]
    assert np.median(few) < 0.1  # chance alone would give a quarter
