"""How sure a number is: bootstrap over seeds and tasks, and comparisons of methods."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

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
    def seed_count(self) -> int:
        return int(self.seeds.max()) + 1

    @property
    def crossed(self) -> bool:
        """Whether seeds are resampled, too; where each number of several tasks has its own, resampling tasks is all."""
        return self.task_count == 1 or self.seed_count < len(self.values)

    @property
    def units(self) -> int:
        """The fewest things that are resampled."""
        counts = [self.task_count] if self.task_count > 1 else []
        return min([*counts, self.seed_count] if self.crossed else counts)

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
    return weights @ values / weights.sum(axis=1)


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


def estimate_statistic(sample: Sample, statistic: Statistic = weighted_mean) -> Estimate:
    """A statistic of a sample."""
    value = float(statistic(sample.values, np.ones((1, len(sample.values))))[0])
    if sample.units == 1:
        return Estimate(value, None)
    random = np.random.default_rng(0)
    if statistic is weighted_mean:
        return Estimate(
            value, _bootstrap_interval_ends(weighted_mean(sample.values, _bootstrap_weights(sample, random)))
        )
    # Weights must not be negative here: what few units understate is made up for afterwards.
    tasks = _bootstrap_draws(sample.task_count, random)[:, sample.tasks]
    seeds = _bootstrap_draws(sample.seed_count, random)[:, sample.seeds] if sample.crossed else 1.0
    resampled = statistic(sample.values, tasks * seeds)
    return Estimate(value, _bootstrap_interval_ends(value + bootstrap_inflation(sample.units) * (resampled - value)))


def contrast_statistic(terms: Sequence[tuple[float, Sample]], together: Sequence[Hashable] | None = None) -> Estimate:
    """A sum of means of samples, each times a factor: with 1 and −1, a difference.

    Seeds are resampled apart in each sample, but together in samples that `together` gives the same name: those of one
    run. Tasks that samples have in common are resampled together, and where their factors cancel what is common to a
    task is taken out first: methods are compared on the same tasks.
    """
    random = np.random.default_rng(0)
    names = list(together or range(len(terms)))
    value = sum(factor * float(sample.values.mean()) for factor, sample in terms)
    if any(sample.units == 1 for _, sample in terms):
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
    """How probable it is that a number of the first is above one of the second in the same task; ties count half."""
    random = np.random.default_rng(0)
    tasks = _bootstrap_draws(first.task_count, random)
    seeds = [
        _bootstrap_draws(sample.seed_count, random)[:, sample.seeds]
        if sample.crossed
        else np.ones((RESAMPLES, len(sample.values)))
        for sample in (first, second)
    ]
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
    value, units = float(shares[0]), min(first.units, second.units)
    if units == 1:
        return Estimate(value, None)
    low, high = _bootstrap_interval_ends(value + bootstrap_inflation(units) * (shares[1:] - value))
    return Estimate(value, (max(0.0, low), min(1.0, high)))


def bootstrap_inflation(units: int) -> float:
    """By how much a bootstrap of few units understates how far a mean may be off: it divides by n where n − 1 is
    right, and knows nothing of Student's t.
    """
    return float(np.sqrt(units / (units - 1)) * stdtrit(units - 1, 0.975) / stdtrit(np.inf, 0.975))


def bootstrap_interval(
    values: Float[np.ndarray, "samples *rest"],
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """95 % bootstrap interval of the mean over the first axis; one value, or equal ones, have one of no width."""
    samples, flat = len(values), values.reshape(len(values), -1)
    mean, factor = flat.mean(axis=0), bootstrap_inflation(samples) if samples > 1 else 1.0
    means = mean + factor * (_bootstrap_draws(samples, np.random.default_rng(0)) @ flat / samples - mean)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


def _bootstrap_draws(count: int, random: np.random.Generator) -> Float[np.ndarray, "resamples count"]:
    """How often each of `count` things is drawn in each resample: means are then one matrix product."""
    return random.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(float)


def _bootstrap_weights(
    sample: Sample,
    random: np.random.Generator,
    tasks: Float[np.ndarray, "resamples tasks"] | None = None,
    seeds: Float[np.ndarray, "resamples seeds"] | None = None,
) -> Float[np.ndarray, "resamples values"]:
    """What each number counts in each resample: 1, and what its task and its seed are drawn more or less often."""
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
    """Mean and 95 % bootstrap interval, for JSON; one value has no interval."""
    interval = [float(end) for end in bootstrap_interval(values)] if len(values) > 1 else None
    return {"mean": float(values.mean()), "interval": interval}
