"""How sure a number is: bootstrap over seeds and tasks, and comparisons of methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

RESAMPLES = 10_000

Statistic = Callable[[Float[np.ndarray, " values"], Float[np.ndarray, "resamples values"]], np.ndarray]
"""A number of weighted values, for each row of weights; NaN where all weights are 0."""


@dataclass(frozen=True)
class Sample:
    """Numbers, and for each the seed (whose policy) and the task that it is of, numbered from 0 on.

    Numbers that share a seed or a task are not independent: resampling takes or leaves them together.
    """

    values: Float[np.ndarray, " values"]
    seeds: Int[np.ndarray, " values"]
    tasks: Int[np.ndarray, " values"]

    def __post_init__(self) -> None:
        if not len(self.values):
            raise ValueError("a sample must not be empty")

    @classmethod
    def of_seeds(cls, values: Sequence[float] | Float[np.ndarray, " seeds"]) -> "Sample":
        """One number per seed."""
        array = np.asarray(values, float)
        return cls(array, np.arange(len(array)), np.zeros(len(array), int))

    @classmethod
    def of_tasks(cls, values: Float[np.ndarray, "tasks repeats"], policies: int) -> "Sample":
        """Each task done some times, `policies` taking turns along the rows; 0 if every number is of its own."""
        numbers = np.arange(values.size)
        return cls(values.ravel(), numbers % policies if policies else numbers, numbers // values.shape[1])

    @property
    def task_count(self) -> int:
        return int(self.tasks.max()) + 1

    @property
    def task_means(self) -> Float[np.ndarray, " tasks"]:
        return np.bincount(self.tasks, self.values) / np.bincount(self.tasks)


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, or without: one number alone has none."""

    value: float
    interval: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "interval": None if self.interval is None else list(self.interval)}


def weighted_mean(
    values: Float[np.ndarray, " values"], weights: Float[np.ndarray, "resamples values"]
) -> Float[np.ndarray, " resamples"]:
    total = weights.sum(axis=1)
    return np.divide(weights @ values, total, out=np.full(len(weights), np.nan), where=total > 0)


def weighted_interquartile_mean(
    values: Float[np.ndarray, " values"], weights: Float[np.ndarray, "resamples values"]
) -> Float[np.ndarray, " resamples"]:
    """The mean of the middle half; a value across a quartile counts with the part that is inside."""
    order = np.argsort(values)
    upper = np.cumsum(weights[:, order], axis=1)
    total = upper[:, -1:]
    upper = np.divide(upper, total, out=np.full_like(upper, np.nan), where=total > 0)
    inside = np.diff(np.clip(upper, 0.25, 0.75), axis=1, prepend=0.25)
    return inside @ values[order] / 0.5


def estimate(sample: Sample, statistic: Statistic = weighted_mean) -> Estimate:
    """A statistic of a sample."""
    random = np.random.default_rng(0)
    weights = _draws(sample.task_count, random)[:, sample.tasks] * _seed_weights(sample, random)
    value = float(statistic(sample.values, np.ones((1, len(sample.values))))[0])
    return Estimate(value, None if len(sample.values) == 1 else _interval(statistic(sample.values, weights)))


def contrast(terms: Sequence[tuple[float, Sample]]) -> Estimate:
    """A sum of means of samples, each times a factor: with 1 and −1, a difference.

    Seeds are resampled apart in each sample. Tasks that samples have in common are resampled together, and where their
    factors cancel what is common to a task is taken out first: methods are compared on the same tasks.
    """
    random = np.random.default_rng(0)
    value = sum(factor * float(sample.values.mean()) for factor, sample in terms)
    resampled = np.zeros(RESAMPLES)
    for count in sorted({sample.task_count for _, sample in terms}):
        alike = [(factor, sample) for factor, sample in terms if sample.task_count == count]
        common = np.zeros(count)
        if abs(sum(factor for factor, _ in alike)) < 1e-9:
            common = np.mean([sample.task_means for _, sample in alike], axis=0)
        tasks = _draws(count, random)
        for factor, sample in alike:
            weights = tasks[:, sample.tasks] * _seed_weights(sample, random)
            resampled += factor * weighted_mean(sample.values - common[sample.tasks], weights)
    alone = all(len(sample.values) == 1 for _, sample in terms)
    return Estimate(value, None if alone else _interval(resampled))


def probability_of_improvement(first: Sample, second: Sample) -> Estimate:
    """How probable it is that a number of the first is above one of the second in the same task; ties count half."""
    random = np.random.default_rng(0)
    tasks = _draws(first.task_count, random)
    seeds = [_seed_weights(sample, random) for sample in (first, second)]
    # The first row is the samples themselves.
    tasks, *seeds = (np.concatenate([np.ones((1, part.shape[1])), part]) for part in (tasks, *seeds))
    wins, pairs = np.zeros(len(tasks)), np.zeros(len(tasks))
    for task in range(first.task_count):
        mine, other = first.tasks == task, second.tasks == task
        won = (np.sign(first.values[mine][:, None] - second.values[other][None]) + 1) / 2
        weights = seeds[0][:, mine], seeds[1][:, other]
        wins += tasks[:, task] * np.einsum("ri,ij,rj->r", weights[0], won, weights[1])
        pairs += tasks[:, task] * weights[0].sum(axis=1) * weights[1].sum(axis=1)
    shares = np.divide(wins, pairs, out=np.full(len(tasks), np.nan), where=pairs > 0)
    alone = len(first.values) == len(second.values) == 1
    return Estimate(float(shares[0]), None if alone else _interval(shares[1:]))


def bootstrap_interval(
    values: Float[np.ndarray, "samples *rest"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Percentile bootstrap interval of the mean over the first axis; equal values give equal intervals."""
    means = _draws(len(values), np.random.default_rng(0)) @ values.reshape(len(values), -1) / len(values)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


def _draws(count: int, random: np.random.Generator) -> Float[np.ndarray, "resamples count"]:
    """How often each of `count` things is drawn in each resample: means are then one matrix product."""
    return random.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(float)


def _seed_weights(sample: Sample, random: np.random.Generator) -> Float[np.ndarray, "resamples values"]:
    """How often each number's seed is drawn; once where each number has its own: resampling tasks does it all then."""
    seeds = int(sample.seeds.max()) + 1
    if seeds == len(sample.values) and sample.task_count > 1:
        return np.ones((RESAMPLES, seeds))
    return _draws(seeds, random)[:, sample.seeds]


def _interval(resampled: Float[np.ndarray, " resamples"]) -> tuple[float, float]:
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return float(low), float(high)
