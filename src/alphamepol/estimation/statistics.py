"""Bootstrap intervals over seeds and tasks, and comparisons of methods."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

RESAMPLES = 10_000
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


def estimate_statistic(sample: Sample, statistic: Statistic = weighted_mean) -> Estimate:
    """Estimate a statistic of a sample, with its interval."""
    value = float(statistic(sample.values, np.ones((1, len(sample.values))))[0])
    if sample.units < FEWEST:
        return Estimate(value, None, tuple(sample.values.tolist()) if len(sample.values) == 2 else ())
    random = np.random.default_rng(0)
    if statistic is weighted_mean:
        return Estimate(
            value, _bootstrap_interval_ends(weighted_mean(sample.values, _bootstrap_weights(sample, random)))
        )
    # Weights must not be negative here, so the correction for few units is made afterwards.
    tasks = _bootstrap_draws(sample.task_count, random)[:, sample.tasks]
    seeds = _bootstrap_draws(sample.seed_count, random)[:, sample.seeds] if sample.crossed else 1.0
    resampled = statistic(sample.values, tasks * seeds)
    return Estimate(value, _bootstrap_interval_ends(value + bootstrap_inflation(sample.units) * (resampled - value)))


def contrast_statistic(terms: Sequence[tuple[float, Sample]], together: Sequence[Hashable] | None = None) -> Estimate:
    """Estimate a sum of the means of samples, each times a factor. The factors 1 and −1 give a difference.

    Seeds are resampled separately in each sample. They are resampled together in samples of one run, to which
    `together` gives the same name. Samples with the same number of tasks are taken to have the same tasks, which
    are resampled together. If the factors of such samples cancel, the mean of each task is subtracted first, so that
    methods are compared on the same tasks.
    """
    random = np.random.default_rng(0)
    names = list(together or range(len(terms)))
    value = sum(factor * float(sample.values.mean()) for factor, sample in terms)
    if any(sample.units < FEWEST for _, sample in terms):
        return Estimate(value, None)
    resampled = np.zeros(RESAMPLES)
    seeds: dict[tuple[Hashable, int], Float[np.ndarray, "resamples seeds"]] = {}
    for count in sorted({sample.task_count for _, sample in terms}):
        alike = [(factor, sample, name) for (factor, sample), name in zip(terms, names, strict=True)]
        alike = [(factor, sample, name) for factor, sample, name in alike if sample.task_count == count]
        common = np.zeros(count)
        if abs(sum(factor for factor, _, _ in alike)) < 1e-9:
            common = np.mean([sample.task_means for _, sample, _ in alike], axis=0)
        tasks = _bootstrap_draws(count, random)
        for factor, sample, name in alike:
            drawn = seeds.setdefault((name, sample.seed_count), _bootstrap_draws(sample.seed_count, random))
            weights = _bootstrap_weights(sample, random, tasks, drawn)
            resampled += factor * weighted_mean(sample.values - common[sample.tasks], weights)
    return Estimate(value, _bootstrap_interval_ends(resampled))


def probability_of_improvement(first: Sample, second: Sample) -> Estimate:
    """Estimate the probability that a number of `first` is above one of `second` in the same task; ties count half."""
    random = np.random.default_rng(0)
    tasks = _bootstrap_draws(first.task_count, random)
    seeds = [
        _bootstrap_draws(sample.seed_count, random)[:, sample.seeds]
        if sample.crossed
        else np.ones((RESAMPLES, len(sample.values)))
        for sample in (first, second)
    ]
    # The first row of weights is 1 everywhere, which stands for the samples themselves.
    tasks, *seeds = (np.concatenate([np.ones((1, part.shape[1])), part]) for part in (tasks, *seeds))
    wins, pairs = np.zeros(len(tasks)), np.zeros(len(tasks))
    for task in range(first.task_count):
        mine, other = first.tasks == task, second.tasks == task
        won = (np.sign(first.values[mine][:, None] - second.values[other][None]) + 1) / 2
        weights = seeds[0][:, mine], seeds[1][:, other]
        wins += tasks[:, task] * np.einsum("ri,ij,rj->r", weights[0], won, weights[1])
        pairs += tasks[:, task] * weights[0].sum(axis=1) * weights[1].sum(axis=1)
    shares = np.divide(wins, pairs, out=np.full(len(tasks), np.nan), where=pairs > 0)
    value, units = float(shares[0]), min(first.units, second.units)
    if units < FEWEST:
        return Estimate(value, None)
    low, high = _bootstrap_interval_ends(value + bootstrap_inflation(units) * (shares[1:] - value))
    return Estimate(value, (max(0.0, low), min(1.0, high)))


def estimate_of_minibatches(values: Float[np.ndarray, "seeds minibatches"]) -> Estimate:
    """Estimate a mean over seeds and mini-batches, with its interval over seeds, or over the batches of one seed."""
    if len(values) > 1:
        return estimate_statistic(Sample.of_seeds(values.mean(axis=1)))
    return dataclasses.replace(estimate_statistic(Sample.of_seeds(values[0])), values=())


def bootstrap_inflation(units: int) -> float:
    """Return the factor, above 1, that widens a 95 % bootstrap interval of a mean of few seeds or tasks.

    The bootstrap alone understates the error: it divides by n instead of n − 1, and ignores Student's t distribution.
    """
    return float(np.sqrt(units / (units - 1)) * stdtrit(units - 1, 0.975) / stdtrit(np.inf, 0.975))


def bootstrap_interval(
    values: Float[np.ndarray, "samples *rest"],
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Return the ends of the 95 % bootstrap interval of the mean over the first axis.

    The interval of a single value, or of equal values, has width 0.
    """
    samples, flat = len(values), values.reshape(len(values), -1)
    mean, factor = flat.mean(axis=0), bootstrap_inflation(samples) if samples > 1 else 1.0
    means = mean + factor * (_bootstrap_draws(samples, np.random.default_rng(0)) @ flat / samples - mean)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


def _bootstrap_draws(count: int, random: np.random.Generator) -> Float[np.ndarray, "resamples count"]:
    """Draw how often each of `count` units occurs in each resample. Means are then one matrix product."""
    return random.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(float)


def _bootstrap_weights(
    sample: Sample,
    random: np.random.Generator,
    tasks: Float[np.ndarray, "resamples tasks"] | None = None,
    seeds: Float[np.ndarray, "resamples seeds"] | None = None,
) -> Float[np.ndarray, "resamples values"]:
    """Return the weight of each number in each resample.

    The weight is 1 plus a term for its task and a term for its seed. A term says how much more or less often than once
    the task or seed was drawn, times `bootstrap_inflation`.
    """
    weights = np.ones((RESAMPLES, len(sample.values)))
    if sample.task_count > 1:
        tasks = _bootstrap_draws(sample.task_count, random) if tasks is None else tasks
        weights += bootstrap_inflation(sample.task_count) * (tasks - 1)[:, sample.tasks]
    if sample.crossed and sample.seed_count > 1:
        seeds = _bootstrap_draws(sample.seed_count, random) if seeds is None else seeds
        weights += bootstrap_inflation(sample.seed_count) * (seeds - 1)[:, sample.seeds]
    return weights


def _bootstrap_interval_ends(resampled: Float[np.ndarray, " resamples"]) -> tuple[float, float]:
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return float(low), float(high)


def mean_with_bootstrap_interval(values: Float[np.ndarray, " samples"]) -> dict[str, Any]:
    """Return the mean and its 95 % bootstrap interval, for JSON. The interval of fewer than three values is None."""
    interval = [float(end) for end in bootstrap_interval(values)] if len(values) >= FEWEST else None
    return {"mean": float(values.mean()), "interval": interval}
