"""Test the number of units that would make an interval narrow enough."""

import numpy as np
import pytest
from scipy.stats import t

from alphamepol.estimation.power import MOST_UNITS, units_for_narrower_interval
from alphamepol.estimation.statistics import Sample, contrast_statistic

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("units", "ratio"), [(4, 0.1), (5, 0.5), (10, 0.9), (10, 0.3), (30, 0.05)])
def test_it_is_the_smallest_number_with_which_the_interval_is_so_narrow(units, ratio) -> None:
    found = units_for_narrower_interval(units, ratio)
    widths = {count: t.ppf(0.975, count - 1) / count**0.5 for count in (units, found - 1, found)}
    assert widths[found] <= ratio * widths[units] < widths[found - 1]


def test_more_units_than_possible_are_none() -> None:
    assert units_for_narrower_interval(10, 0.0) is None
    assert units_for_narrower_interval(10, 1e-3 / MOST_UNITS) is None
    assert units_for_narrower_interval(10, 1.0) == 10


def test_so_many_units_give_the_width_that_was_wanted() -> None:
    """Draw as many seeds as were said to be needed, and compare the width of their intervals."""
    rng = np.random.default_rng(0)

    def width(seeds: int) -> float:
        low, high = contrast_statistic([(1.0, Sample.of_seeds(rng.normal(size=seeds)))]).interval
        return high - low

    few = np.mean([width(6) for _ in range(150)])
    many = units_for_narrower_interval(6, 0.4)
    assert np.mean([width(many) for _ in range(50)]) == pytest.approx(0.4 * few, rel=0.1)
