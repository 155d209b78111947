"""Test intervals and comparisons against normal theory and SciPy, and by their coverage."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from alphamepol.estimation import statistics
from alphamepol.estimation.statistics import (
    Estimate,
    Sample,
    contrast_statistic,
    estimate_of_minibatches,
    estimate_statistic,
    intervals_of_means,
    mean_with_bootstrap_interval,
    probability_of_improvement,
    weighted_interquartile_mean,
)

pytestmark = pytest.mark.quick


def test_interval_of_many_normal_samples_is_the_normal_one() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 2000)
    low, high = intervals_of_means(values)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


@pytest.mark.parametrize("seeds", [3, 5, 10, 50])
def test_intervals_cover_what_they_should_even_of_few_seeds(seeds) -> None:
    values = np.random.default_rng(2).normal(size=(seeds, 1000))
    low, high = intervals_of_means(values)
    assert 0.93 < np.mean((low <= 0) & (high >= 0)) < 0.985
    found = [estimate_statistic(Sample.of_seeds(one)).interval for one in values.T[:50]]
    assert 0.9 < np.mean([low <= 0 <= high for low, high in found]) <= 1
    np.testing.assert_allclose(found[0], (low[0], high[0]), rtol=0.05)


def test_differences_of_few_seeds_are_covered() -> None:
    random = np.random.default_rng(12)
    covered = []
    for _ in range(150):
        terms = [(1.0, Sample.of_seeds(random.normal(size=4))), (-1.0, Sample.of_seeds(random.normal(size=4)))]
        low, high = contrast_statistic(terms).interval
        covered.append(low <= 0 <= high)
    assert np.mean(covered) > 0.92


def test_policies_that_take_turns_over_tasks_are_covered() -> None:
    """Tasks differ and policies differ, so the interval must count the variation of both."""
    random = np.random.default_rng(13)
    covered = []
    for _ in range(150):
        numbers = np.arange(60)
        values = random.normal(size=20)[numbers // 3] + random.normal(size=5)[numbers % 5] + random.normal(size=60)
        low, high = estimate_statistic(Sample.of_tasks(values.reshape(20, 3), policies=5)).interval
        covered.append(low <= 0 <= high)
    assert np.mean(covered) > 0.88


def interval_in_json(values: np.ndarray) -> tuple[float, float]:
    return tuple(mean_with_bootstrap_interval(values)["interval"])


def interval_of_improvement(values: np.ndarray) -> tuple[float, float]:
    return probability_of_improvement(Sample.of_seeds(values[:5]), Sample.of_seeds(values[5:])).interval


@pytest.mark.parametrize(
    ("count", "interval", "truth"),
    [
        (5, lambda values: estimate_of_minibatches(values[None]).interval, 0.0),
        (5, interval_in_json, 0.0),
        (5, lambda values: estimate_statistic(Sample.of_seeds(values), weighted_interquartile_mean).interval, 0.0),
        (10, interval_of_improvement, 0.5),
    ],
    ids=["mini-batches", "JSON", "inter-quartile mean", "improvement"],
)
def test_intervals_of_every_caller_cover_what_they_should(count, interval, truth) -> None:
    random = np.random.default_rng(14)
    found = [interval(random.normal(size=count)) for _ in range(120)]
    assert 0.91 < np.mean([low <= truth <= high for low, high in found]) < 0.99


def test_simulation_errors_are_as_large_as_the_errors_are(monkeypatch) -> None:
    """An end with few resamples is within its error of the end with many. The error falls as 1/√n."""
    sample = Sample.of_seeds(np.random.default_rng(15).normal(size=12))
    exact = contrast_statistic([(1.0, sample)], settled=lambda found: found.resamples >= 640_000)
    errors = []
    for seed in range(1, 31):
        monkeypatch.setattr(statistics, "BOOTSTRAP_SEED", seed)
        found = estimate_statistic(sample)
        errors.append(np.subtract(found.interval, exact.interval) / found.simulation_errors)
    assert np.abs(errors).max() <= 1
    assert 0.2 < np.std(errors) < 0.5
    assert np.divide(found.simulation_errors, exact.simulation_errors) == pytest.approx(8, rel=0.3)
    assert exact.resamples == 64 * found.resamples == 640_000


def test_resamples_are_added_to_those_that_there_were() -> None:
    sample, seen = Sample.of_seeds(np.arange(5.0)), []
    contrast_statistic([(1.0, sample)], settled=lambda found: bool(seen.append(found)) or found.resamples >= 160_000)
    assert [found.resamples for found in seen] == [10_000, 40_000, 160_000]
    assert seen[0] == dataclasses.replace(estimate_statistic(sample), value=seen[0].value)


def test_each_column_has_its_own_interval_and_constants_have_none_to_speak_of() -> None:
    values = np.stack([np.arange(10.0), np.full(10, 0.25)], axis=1)
    low, high = intervals_of_means(values)
    assert low[0] < 4.5 < high[0]
    assert low[1] == pytest.approx(0.25)
    assert high[1] == pytest.approx(0.25)
    np.testing.assert_array_equal(intervals_of_means(values)[0], low)


def test_the_interquartile_mean_is_that_of_the_middle_half() -> None:
    values = np.random.default_rng(3).normal(size=40) ** 3
    found = estimate_statistic(Sample.of_seeds(values), weighted_interquartile_mean)
    assert found.value == pytest.approx(scipy.stats.trim_mean(values, 0.25))
    assert found.interval[0] < found.value < found.interval[1]
    # The middle half of five numbers is 2.5 numbers: the median, and three quarters of each number beside it.
    assert estimate_statistic(
        Sample.of_seeds([0.0, 1.0, 2.0, 4.0, 100.0]), weighted_interquartile_mean
    ).value == pytest.approx((0.75 * 1 + 2 + 0.75 * 4) / 2.5)
    weights = np.array([[1.0, 3.0, 2.0, 2.0]])
    repeated = np.repeat([5.0, 1.0, 2.0, 9.0], [1, 3, 2, 2])
    assert weighted_interquartile_mean(np.array([5.0, 1.0, 2.0, 9.0]), weights)[0] == pytest.approx(
        scipy.stats.trim_mean(repeated, 0.25)
    )


def test_a_difference_of_means_has_the_interval_of_welch() -> None:
    random = np.random.default_rng(4)
    first, second = random.normal(1.0, 1.0, 300), random.normal(0.0, 3.0, 500)
    found = contrast_statistic([(1.0, Sample.of_seeds(first)), (-1.0, Sample.of_seeds(second))])
    assert found.value == pytest.approx(first.mean() - second.mean())
    half = 1.96 * np.sqrt(first.var() / 300 + second.var() / 500)
    assert found.interval == pytest.approx((found.value - half, found.value + half), abs=0.1 * half)


def test_numbers_of_one_seed_are_one_and_not_many() -> None:
    """Ten policies do the same fifty tasks, and only the policies differ. The interval is that of ten numbers."""
    of_policies = np.random.default_rng(5).normal(size=10)
    returns = np.tile(of_policies, (50, 1))
    found = estimate_statistic(Sample.of_tasks(returns, policies=10))
    alone = estimate_statistic(Sample.of_seeds(of_policies))
    assert found.interval == pytest.approx(alone.interval, abs=0.05)
    as_if_independent = estimate_statistic(Sample.of_seeds(returns.ravel()))
    assert np.diff(as_if_independent.interval)[0] < 0.3 * np.diff(found.interval)[0]


def test_methods_are_compared_on_the_same_tasks() -> None:
    """Tasks differ a lot, and methods differ by 0.1 on each task. Only the difference of the methods is certain."""
    hard = np.random.default_rng(6).normal(0.0, 5.0, (50, 1))
    noise = np.random.default_rng(7).normal(0.0, 0.01, (2, 50, 3))
    first, second = (Sample.of_tasks(hard + shift + part, 0) for shift, part in zip((0.1, 0.0), noise, strict=True))
    found = contrast_statistic([(1.0, first), (-1.0, second)])
    assert 0.08 < found.interval[0] < 0.1 < found.interval[1] < 0.12
    assert np.diff(estimate_statistic(first).interval)[0] > 1
    apart = contrast_statistic([(1.0, first), (-1.0, Sample.of_seeds(second.values[::3]))])
    assert np.diff(apart.interval)[0] > 1
    # Ten policies take turns. Tasks that a resample of policies leaves out do not count as a difference.
    turns = [Sample.of_tasks(sample.values.reshape(50, 3), 10) for sample in (first, second)]
    found = contrast_statistic([(1.0, turns[0]), (-1.0, turns[1])])
    assert 0.08 < found.interval[0] < 0.1 < found.interval[1] < 0.12


def test_policies_take_turns_along_tasks_and_repeats() -> None:
    sample = Sample.of_tasks(np.arange(12.0).reshape(4, 3), policies=5)
    np.testing.assert_array_equal(sample.seeds, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1])
    np.testing.assert_array_equal(sample.tasks, np.repeat(range(4), 3))
    np.testing.assert_array_equal(sample.values, np.arange(12.0))
    assert len(set(Sample.of_tasks(np.zeros((4, 3)), policies=0).seeds)) == 12


def test_the_probability_of_improvement_is_that_of_mann_and_whitney() -> None:
    random = np.random.default_rng(8)
    first, second = random.normal(0.5, 1.0, 60).round(1), random.normal(0.0, 1.0, 50).round(1)
    found = probability_of_improvement(Sample.of_seeds(first), Sample.of_seeds(second))
    assert found.value == pytest.approx(scipy.stats.mannwhitneyu(first, second).statistic / (60 * 50))
    assert 0.4 < found.interval[0] < found.value < found.interval[1] < 0.9
    same = probability_of_improvement(Sample.of_seeds(first), Sample.of_seeds(first))
    assert same.value == pytest.approx(0.5)


def test_the_probability_of_improvement_is_within_tasks() -> None:
    """The first method is better on every task, though its worst task is worse than the best of the second method."""
    hard = np.arange(50.0)[:, None]
    first, second = Sample.of_tasks(hard + 0.5, 0), Sample.of_tasks(hard, 0)
    found = probability_of_improvement(first, second)
    assert found.value == 1
    assert found.interval == (1, 1)


def test_numbers_of_one_run_are_resampled_together() -> None:
    """A seed that is good in one sample is bad in the other. Resampling them together keeps each seed's difference."""
    first = np.random.default_rng(9).normal(size=200)
    terms = [(1.0, Sample.of_seeds(first)), (-1.0, Sample.of_seeds(-first))]
    width = np.diff(contrast_statistic(terms, ["run", "run"]).interval)[0]
    assert width == pytest.approx(4 * 1.96 * first.std() / np.sqrt(200), rel=0.05)
    assert np.diff(contrast_statistic(terms).interval)[0] == pytest.approx(width / np.sqrt(2), rel=0.05)


def test_one_number_against_many_decides_nothing() -> None:
    many, one = Sample.of_seeds([1.0, 1.1, 0.9]), Sample.of_seeds([0.0])
    assert contrast_statistic([(1.0, many), (-1.0, one)]).interval is None
    assert probability_of_improvement(many, one) == Estimate(1.0, None)
    # One policy decides nothing either, however many tasks it did.
    assert estimate_statistic(Sample.of_tasks(np.zeros((50, 1)), policies=1)).interval is None
    assert estimate_statistic(Sample.of_tasks(np.zeros((50, 1)), policies=0)).interval is not None


def test_two_numbers_are_shown_instead_of_an_interval() -> None:
    found = estimate_statistic(Sample.of_seeds([3.16, 2.52]))
    assert (found.interval, found.text) == (None, "2.84 (3.16 and 2.52)")
    assert mean_with_bootstrap_interval(np.array([1.0, 2.0])) == {"mean": 1.5, "interval": None}
    assert Estimate(-0.0421, (-1.0, 250.0)).text == "−0.042 [−1.00, 250]"


def test_the_interval_of_one_seed_is_over_its_minibatches() -> None:
    values = np.random.default_rng(0).normal(size=(1, 40))
    found = estimate_of_minibatches(values)
    assert found.interval == pytest.approx([float(end) for end in intervals_of_means(values[0])], abs=0.02)
    several = np.stack([values[0], values[0] + 1, values[0] + 2])
    assert estimate_of_minibatches(several) == estimate_statistic(Sample.of_seeds(several.mean(axis=1)))
    two = estimate_of_minibatches(values[:, :2])
    assert (two.interval, two.values) == (None, ())


def test_one_number_alone_has_no_interval_and_none_at_all_is_refused() -> None:
    one = Sample.of_seeds([3.0])
    assert estimate_statistic(one) == Estimate(3.0, None)
    assert contrast_statistic([(1.0, one), (-1.0, Sample.of_seeds([1.0]))]) == Estimate(2.0, None)
    assert probability_of_improvement(one, Sample.of_seeds([1.0])) == Estimate(1.0, None)
    with pytest.raises(ValueError, match="empty"):
        estimate_statistic(Sample.of_seeds([]))


def test_very_many_numbers_take_no_more_memory(monkeypatch) -> None:
    """Draws are made in parts. Parts change the random numbers, but not the interval beyond its simulation error."""
    rng = np.random.default_rng(0)
    first, second = (Sample.of_tasks(rng.normal(size=(12, 30)) + shift, policies=10) for shift in (0.0, 0.5))
    whole = contrast_statistic([(1.0, first), (-1.0, second)])
    sizes: list[int] = []
    counts = statistics.BootstrapDraws.counts

    def noted(self, units):
        sizes.append(self.resamples * units)
        return counts(self, units)

    monkeypatch.setattr(statistics, "MOST_DRAWS", 24_000)
    monkeypatch.setattr(statistics.BootstrapDraws, "counts", noted)
    parts = contrast_statistic([(1.0, first), (-1.0, second)])
    assert max(sizes) <= 24_000
    assert parts.resamples >= statistics.RESAMPLES
    for one, other, error in zip(parts.interval, whole.interval, whole.simulation_errors, strict=True):
        assert one == pytest.approx(other, abs=2 * error)


def test_a_resample_is_the_mean_with_the_weights_of_its_tasks_and_seeds() -> None:
    rng = np.random.default_rng(1)
    sample = Sample.of_tasks(rng.normal(size=(4, 6)), policies=3)
    tasks, seeds, common = rng.normal(size=(7, 4)) * 0.1, rng.normal(size=(7, 3)) * 0.1, rng.normal(size=4)
    weights = 1 + tasks[:, sample.tasks] + seeds[:, sample.seeds]
    expected = statistics.weighted_mean(sample.values - common[sample.tasks], weights)
    np.testing.assert_allclose(statistics._reweighted_mean(sample, common, tasks, seeds), expected, rtol=1e-12)
