"""Bootstrap intervals over seeds and tasks, and comparisons of methods.

`bootstrap_interval` makes every interval of the package. The other functions say what is resampled.
"""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

RESAMPLES = 10_000
"""The number of resamples of an interval. A verdict whose interval ends near its limit takes more."""
MOST_RESAMPLES = 1024 * RESAMPLES
MOST_DRAWS = 2**24
"""The most numbers that are drawn at once."""
BOOTSTRAP_SEED = 0
ENDS = (0.025, 0.975)
"""The quantiles of the resamples that are the ends of an interval."""
SIMULATION_ERRORS = 3.0
"""The number of standard errors by which the ends of an interval may differ from those of infinitely many resamples."""
FEWEST = 3
"""The fewest seeds, tasks or mini-batches from which an interval is computed.

Two numbers would give an interval of 12.7 standard errors to each side, which says less than the numbers themselves."""

Statistic = Callable[[Float[np.ndarray, " values"], Float[np.ndarray, "resamples values"]], np.ndarray]
"""A function that computes one number from weighted values, for each row of weights; NaN if all weights are 0."""


@dataclass(frozen=True)
class Sample:
    """A set of numbers, each with its seed and its task.

    Numbers that share a seed or a task are not independent, so resampling takes or leaves them together.
    """

    values: Float[np.ndarray, " values"]
    seeds: Int[np.ndarray, " values"]
    """The seed of the policy that gave each number, counted from 0."""
    tasks: Int[np.ndarray, " values"]
    """The task of each number, counted from 0."""

    def __post_init__(self) -> None:
        if not len(self.values):
            raise ValueError("a sample must not be empty")

    @classmethod
    def of_seeds(cls, values: Sequence[float] | Float[np.ndarray, " seeds"]) -> "Sample":
        """Make a sample with one number per seed."""
        array = np.asarray(values, float)
        return cls(array, np.arange(len(array)), np.zeros(len(array), int))

    @classmethod
    def of_tasks(cls, values: Float[np.ndarray, "tasks repeats"], policies: int) -> "Sample":
        """Make a sample of tasks that were each done several times.

        The policies take turns along the rows. With `policies` 0, every number has a seed of its own.
        """
        numbers = np.arange(values.size)
        return cls(values.ravel(), numbers % policies if policies else numbers, numbers // values.shape[1])

    @property
    def task_count(self) -> int:
        return int(self.tasks.max()) + 1

    @property
    def seed_count(self) -> int:
        return int(self.seeds.max()) + 1

    @property
    def crossed(self) -> bool:
        """True if seeds are resampled.

        Seeds are not resampled if there are several tasks and every number has a seed of its own. Resampling the tasks
        is then enough.
        """
        return self.task_count == 1 or self.seed_count < len(self.values)

    @property
    def units(self) -> int:
        """The number of tasks or of seeds that are resampled, whichever is smaller."""
        counts = [self.task_count] if self.task_count > 1 else []
        return min([*counts, self.seed_count] if self.crossed else counts)

    @property
    def task_means(self) -> Float[np.ndarray, " tasks"]:
        return np.bincount(self.tasks, self.values) / np.bincount(self.tasks)


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    interval: tuple[float, float] | None
    """The ends of the interval; None if fewer than three seeds or tasks could be resampled."""
    values: tuple[float, ...] = ()
    """The two numbers behind a mean of two; otherwise empty."""
    simulation_errors: tuple[float, float] | None = None
    """How far each end may be from the end that infinitely many resamples would give; None without an interval."""
    resamples: int = 0
    """The number of resamples behind the interval."""

    @property
    def text(self) -> str:
        """The number with its interval, e.g. `0.50 [0.49, 0.51]`. Instead of an interval, two numbers are shown."""
        value, *ends = map(text_of_statistic, (self.value, *(self.interval or self.values)))
        if not ends:
            return value
        return f"{value} [{', '.join(ends)}]" if self.interval else f"{value} ({' and '.join(ends)})"

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "interval": None if self.interval is None else list(self.interval)}


def text_of_statistic(value: float | np.floating) -> str:
    """Return a number with two decimals; small numbers have three, numbers from 100 on none."""
    small = 0 < abs(value) < 0.095
    text = f"{value:.3f}" if small else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return text.replace("-", "−")


def weighted_mean(
    values: Float[np.ndarray, " values"], weights: Float[np.ndarray, "resamples values"]
) -> Float[np.ndarray, " resamples"]:
    return weights @ values / weights.sum(axis=1)


def weighted_interquartile_mean(
    values: Float[np.ndarray, " values"], weights: Float[np.ndarray, "resamples values"]
) -> Float[np.ndarray, " resamples"]:
    """Return the mean of the middle half. A value that lies across a quartile counts with the part that is inside."""
    order = np.argsort(values)
    upper = np.cumsum(weights[:, order], axis=1)
    total = upper[:, -1:]
    upper = np.divide(upper, total, out=np.full_like(upper, np.nan), where=total > 0)
    inside = np.diff(np.clip(upper, 0.25, 0.75), axis=1, prepend=0.25)
    return inside @ values[order] / 0.5


@dataclass(frozen=True)
class BootstrapDraws:
    """The random draws of some resamples."""

    random: np.random.Generator
    resamples: int

    def counts(self, units: int) -> Float[np.ndarray, "resamples units"]:
        """Draw how often each unit occurs in each resample. Means are then one matrix product."""
        return self.random.multinomial(units, np.full(units, 1 / units), self.resamples).astype(float)

    def deviations(self, units: int) -> Float[np.ndarray, "resamples units"]:
        """Draw how much more or less often than once each unit occurs, times `bootstrap_inflation`."""
        return bootstrap_inflation(units) * (self.counts(units) - 1)


@dataclass(frozen=True)
class BootstrapInterval:
    """The 95 % intervals of a number, or of each number of an array."""

    low: Float[np.ndarray, "*shape"]
    high: Float[np.ndarray, "*shape"]
    errors: Float[np.ndarray, "2 *shape"]
    """How far the ends may be from those of infinitely many resamples: `SIMULATION_ERRORS` standard errors."""
    resamples: int


def bootstrap_interval(
    resample: Callable[[BootstrapDraws], Float[np.ndarray, "resamples *shape"]],
    settled: Callable[[BootstrapInterval], bool] | None = None,
    units: int = 1,
) -> BootstrapInterval:
    """Return the 95 % interval of a number, or of each number of an array. All intervals are made here.

    `resample` computes the number in every resample, from draws that widen the interval (`BootstrapDraws.deviations`),
    or it widens the results (`widened_resamples`). If `settled` is given, resamples are added until it returns True of
    the interval, or until there are `MOST_RESAMPLES`. A resample whose number is NaN does not count. `units` is the
    number of draws of a resample: if there are very many, fewer resamples are made at once.
    """
    at_once = max(1, min(RESAMPLES, MOST_DRAWS // units))
    random, parts = np.random.default_rng(BOOTSTRAP_SEED), []
    while True:
        # The number of resamples grows by a factor of 4. Small parts keep the draws out of memory.
        more = 3 * sum(map(len, parts)) or RESAMPLES
        parts += [resample(BootstrapDraws(random, at_once)) for _ in range(-(-more // at_once))]
        interval = _bootstrap_interval_of_resamples(np.concatenate(parts))
        if settled is None or settled(interval) or interval.resamples >= MOST_RESAMPLES:
            return interval


def _bootstrap_interval_of_resamples(resampled: Float[np.ndarray, "resamples *shape"]) -> BootstrapInterval:
    """Return the interval between two quantiles of the resamples, with the errors of its ends.

    The share of n resamples below the true p-quantile has the standard error √(p (1 − p) / n). So the quantiles at p
    plus and minus a few such errors enclose the true end, whatever the distribution is.
    """
    ends = np.array(ENDS)
    reach = SIMULATION_ERRORS * np.sqrt(ends * (1 - ends) / len(resampled))
    quantile = np.nanquantile if np.isnan(resampled).any() else np.quantile
    found = quantile(resampled, np.concatenate([ends, np.clip([ends - reach, ends + reach], 0, 1).ravel()]), axis=0)
    low, high = found[:2]
    errors = np.maximum(found[:2] - found[2:4], found[4:] - found[:2])
    return BootstrapInterval(np.asarray(low), np.asarray(high), errors, len(resampled))


def bootstrap_inflation(units: int) -> float:
    """Return the factor that widens a 95 % bootstrap interval of a mean of few seeds or tasks.

    The bootstrap alone understates the error: it divides by n instead of n − 1, and ignores Student's t distribution.
    The factor of a single unit is 1: its interval has no width.
    """
    if units == 1:
        return 1.0
    return float(np.sqrt(units / (units - 1)) * stdtrit(units - 1, 0.975) / stdtrit(np.inf, 0.975))


def widened_resamples(
    value: float, resampled: Float[np.ndarray, " resamples"], units: int
) -> Float[np.ndarray, " resamples"]:
    """Widen the results of resamples about the number itself.

    This is for statistics that need weights of at least 0. `BootstrapDraws.counts` gives them, but does not widen.
    """
    return value + bootstrap_inflation(units) * (resampled - value)


def estimate_statistic(sample: Sample, statistic: Statistic = weighted_mean, units: int | None = None) -> Estimate:
    """Estimate a statistic of a sample, with its interval.

    A statistic of a part of the sample needs `units`, the number of seeds or tasks in that part. Its interval is
    widened for so few.
    """
    value, units = float(statistic(sample.values, np.ones((1, len(sample.values))))[0]), units or sample.units
    if units < FEWEST:
        return Estimate(value, None, tuple(sample.values.tolist()) if len(sample.values) == 2 else ())
    if statistic is weighted_mean:
        return dataclasses.replace(contrast_statistic([(1.0, sample)]), value=value)

    def resample(draws: BootstrapDraws) -> Float[np.ndarray, " resamples"]:
        tasks = draws.counts(sample.task_count)[:, sample.tasks]
        seeds = draws.counts(sample.seed_count)[:, sample.seeds] if sample.crossed else 1.0
        return widened_resamples(value, statistic(sample.values, tasks * seeds), units)

    return _estimate_with_interval(value, bootstrap_interval(resample, units=len(sample.values)))


def contrast_statistic(
    terms: Sequence[tuple[float, Sample]],
    together: Sequence[Hashable] | None = None,
    settled: Callable[[Estimate], bool] | None = None,
) -> Estimate:
    """Estimate a sum of the means of samples, each times a factor. The factors 1 and −1 give a difference.

    Seeds are resampled separately in each sample. They are resampled together in samples of one run, to which
    `together` gives the same name. Samples with the same number of tasks are taken to have the same tasks, which
    are resampled together. If the factors of such samples cancel, the mean of each task is subtracted first, so that
    methods are compared on the same tasks.

    If `settled` is given, resamples are added until it returns True of the estimate (`bootstrap_interval`).
    """
    value = sum(factor * float(sample.values.mean()) for factor, sample in terms)
    if any(sample.units < FEWEST for _, sample in terms):
        return Estimate(value, None)
    names = list(together or range(len(terms)))
    groups: dict[int, list[tuple[float, Sample, Hashable]]] = {}
    for (factor, sample), name in zip(terms, names, strict=True):
        groups.setdefault(sample.task_count, []).append((factor, sample, name))

    def resample(draws: BootstrapDraws) -> Float[np.ndarray, " resamples"]:
        resampled = np.zeros(draws.resamples)
        seeds: dict[tuple[Hashable, int], Float[np.ndarray, "resamples seeds"]] = {}
        for count, alike in sorted(groups.items()):
            common = np.zeros(count)
            if abs(sum(factor for factor, _, _ in alike)) < 1e-9:
                common = np.mean([sample.task_means for _, sample, _ in alike], axis=0)
            tasks = draws.deviations(count)
            for factor, sample, name in alike:
                drawn = seeds.setdefault((name, sample.seed_count), draws.deviations(sample.seed_count))
                resampled += factor * _reweighted_mean(sample, common, tasks, drawn if sample.crossed else None)
        return resampled

    enough = None if settled is None else lambda interval: settled(_estimate_with_interval(value, interval))
    most = max(max(sample.task_count, sample.seed_count) for _, sample in terms)
    return _estimate_with_interval(value, bootstrap_interval(resample, enough, units=most))


def _reweighted_mean(
    sample: Sample,
    common: Float[np.ndarray, " tasks"],
    tasks: Float[np.ndarray, "resamples tasks"],
    seeds: Float[np.ndarray, "resamples seeds"] | None,
) -> Float[np.ndarray, " resamples"]:
    """Return the mean of each resample, in which a number weighs 1 plus the deviations of its task and its seed.

    The sums over numbers are taken per task and per seed first, so that no weight of a single number is needed.
    """
    values = sample.values - common[sample.tasks]
    total, weight = np.full(len(tasks), values.sum()), np.full(len(tasks), float(len(values)))
    for drawn, groups in ((tasks, sample.tasks), (seeds, sample.seeds)):
        if drawn is not None:
            total += drawn @ np.bincount(groups, values, minlength=drawn.shape[1])
            weight += drawn @ np.bincount(groups, minlength=drawn.shape[1])
    return total / weight


def probability_of_improvement(first: Sample, second: Sample) -> Estimate:
    """Estimate the probability that a number of `first` is above one of `second` in the same task; ties count half."""
    samples, task_count = (first, second), first.task_count

    def improved_share(
        tasks: Float[np.ndarray, "rows tasks"], *seeds: Float[np.ndarray, "rows _"]
    ) -> Float[np.ndarray, " rows"]:
        """Return the share of pairs in which the first number is larger, for each row of weights."""
        wins, pairs = np.zeros(len(tasks)), np.zeros(len(tasks))
        for task in range(task_count):
            mine, other = first.tasks == task, second.tasks == task
            won = (np.sign(first.values[mine][:, None] - second.values[other][None]) + 1) / 2
            weights = seeds[0][:, mine], seeds[1][:, other]
            wins += tasks[:, task] * np.einsum("ri,ij,rj->r", weights[0], won, weights[1])
            pairs += tasks[:, task] * weights[0].sum(axis=1) * weights[1].sum(axis=1)
        return np.divide(wins, pairs, out=np.full(len(tasks), np.nan), where=pairs > 0)

    value = float(improved_share(np.ones((1, task_count)), *(np.ones((1, len(one.values))) for one in samples))[0])
    units = min(first.units, second.units)
    if units < FEWEST:
        return Estimate(value, None)

    def resample(draws: BootstrapDraws) -> Float[np.ndarray, " resamples"]:
        tasks = draws.counts(task_count)
        seeds = (
            draws.counts(one.seed_count)[:, one.seeds] if one.crossed else np.ones((draws.resamples, len(one.values)))
            for one in samples
        )
        return np.clip(widened_resamples(value, improved_share(tasks, *seeds), units), 0.0, 1.0)

    most = max(len(one.values) for one in samples)
    return _estimate_with_interval(value, bootstrap_interval(resample, units=most))


def _estimate_with_interval(value: float, interval: BootstrapInterval) -> Estimate:
    ends, errors = (float(interval.low), float(interval.high)), (float(interval.errors[0]), float(interval.errors[1]))
    return Estimate(value, ends, simulation_errors=errors, resamples=interval.resamples)


def estimate_of_minibatches(values: Float[np.ndarray, "seeds minibatches"]) -> Estimate:
    """Estimate a mean over seeds and mini-batches, with its interval over seeds, or over the batches of one seed."""
    if len(values) > 1:
        return estimate_statistic(Sample.of_seeds(values.mean(axis=1)))
    return dataclasses.replace(estimate_statistic(Sample.of_seeds(values[0])), values=())


def mean_with_bootstrap_interval(values: Float[np.ndarray, " samples"]) -> dict[str, Any]:
    """Return the mean and its 95 % bootstrap interval, for JSON. The interval of fewer than three values is None."""
    found = estimate_statistic(Sample.of_seeds(values))
    return {"mean": float(values.mean()), "interval": found.to_dict()["interval"]}


def intervals_of_means(
    values: Float[np.ndarray, "samples *rest"],
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Return the ends of the 95 % bootstrap intervals of the means over the first axis.

    The interval of a single value, or of equal values, has width 0.
    """
    samples, flat = len(values), values.reshape(len(values), -1)
    found = bootstrap_interval(
        lambda draws: flat.mean(axis=0) + draws.deviations(samples) @ flat / samples, units=samples
    )
    return found.low.reshape(values.shape[1:]), found.high.reshape(values.shape[1:])
