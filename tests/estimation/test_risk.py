"""Test VaR and CVaR (E7) against lists worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamepol import InputError, cvar, value_at_risk
from alphamepol.estimation.risk import risk_tail_count, weighted_cvar

pytestmark = pytest.mark.quick

LIST = [3.0, -1.0, 2.0, 0.5, 7.0]  # in order: -1, 0.5, 2, 3, 7


@pytest.mark.parametrize(
    ("alpha", "var", "mean"),
    [(0.2, -1.0, -1.0), (0.21, 0.5, -0.25), (0.4, 0.5, -0.25), (0.6, 2.0, 0.5), (0.99, 7.0, 2.3), (1.0, 7.0, 2.3)],
)
def test_worked_by_hand(alpha: float, var: float, mean: float) -> None:
    assert value_at_risk(np.array(LIST), alpha) == pytest.approx(var)
    assert cvar(np.array(LIST), alpha) == pytest.approx(mean)


def test_ties() -> None:
    tied = np.array([1.0, 1.0, 1.0, 2.0, 2.0])
    assert value_at_risk(tied, 0.4) == 1.0
    assert value_at_risk(tied, 0.8) == 2.0
    assert cvar(tied, 0.8) == pytest.approx(1.25)


@settings(deadline=None)
@given(st.floats(0.01, 1.0), st.sampled_from([1, 7, 40]), st.floats(-5, 5, width=32))
def test_identical_values_are_their_own_var_and_cvar(alpha: float, count: int, value: float) -> None:
    same = np.full(count, value, np.float32)
    assert value_at_risk(same, alpha) == pytest.approx(value)
    assert cvar(same, alpha) == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize(
    ("alpha", "count", "tail"),
    [
        (0.2, 40, 8),
        (0.07, 100, 7),
        (0.1, 100, 10),
        (0.35, 40, 14),
        (0.3, 20, 6),
        (1.0, 40, 40),
        (0.001, 40, 1),
        (0.201, 40, 9),
    ],
)
def test_tail_count_does_not_stumble_over_rounding(alpha: float, count: int, tail: int) -> None:
    assert risk_tail_count(alpha, count) == tail
    assert risk_tail_count(float(np.float32(alpha)), count) == tail


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.01, float("nan")])
def test_refuses_alpha_outside_its_range(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha"):
        cvar(np.array(LIST), alpha)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(1, 30))
def test_equal_weights_give_the_plain_cvar(values: list[float], tail: int) -> None:
    tail = min(tail, len(values))
    expected = np.mean(sorted(values)[:tail])
    weights = np.full(len(values), 0.37)
    assert weighted_cvar(np.array(values), weights, tail / len(values)) == pytest.approx(expected, abs=1e-6)


def test_weights_move_the_tail() -> None:
    # The lowest value has probability 0.1 and the next 0.3. Each makes up half of the worst 0.2.
    assert weighted_cvar(np.array([5.0, 0.0, 1.0]), np.array([0.6, 0.1, 0.3]), 0.2) == pytest.approx(0.5)
