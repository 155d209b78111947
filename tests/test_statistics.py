"""Intervals, against the normal theory and by their coverage."""

import numpy as np
import pytest

from alphamepol.statistics import bootstrap_interval


def test_interval_of_many_normal_samples_is_the_normal_one() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 2000)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_it_covers_the_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(2)
    samples = random.uniform(size=(50, 300))
    low, high = bootstrap_interval(samples, confidence=0.9)
    assert np.mean((low <= 0.5) & (high >= 0.5)) == pytest.approx(0.9, abs=0.05)


def test_each_column_has_its_own_interval_and_constants_have_none_to_speak_of() -> None:
    values = np.stack([np.arange(10.0), np.full(10, 0.25)], axis=1)
    low, high = bootstrap_interval(values)
    assert low[0] < 4.5 < high[0]
    assert low[1] == pytest.approx(0.25)
    assert high[1] == pytest.approx(0.25)
    np.testing.assert_array_equal(bootstrap_interval(values)[0], low)
