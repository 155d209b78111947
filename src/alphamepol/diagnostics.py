"""What samples say of a class before anything is trained on it: aliasing, scales, lots, and how different its members'
entropies are.

Functions of arrays; `alphamepol.runs.diagnose` collects the samples, `alphamepol.theory` has the paper's bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

WILD = 10.0
"""Numbers that a network sees should be of order one; from this factor on they are not."""
UNEQUAL = 30.0
"""Components whose deviations differ by such a factor do not count alike."""


@dataclass(frozen=True)
class Aliasing:
    """Particles that are exactly where others are."""

    coinciding: float
    """The share of particles that have a twin in their mini-batch."""
    largest: int
    """The most particles in one place: the smallest k with which no distance is 0."""


def aliasing(
    particles: Shaped[np.ndarray, "minibatches particles features"], valid: Bool[np.ndarray, "minibatches particles"]
) -> Aliasing:
    """Twins within each mini-batch."""
    twins, largest = 0, 1
    for points, of in zip(particles, valid, strict=True):
        counts = np.unique(points[of], axis=0, return_counts=True)[1]
        twins += int(counts[counts > 1].sum())
        largest = max(largest, int(counts.max(initial=1)))
    return Aliasing(twins / max(1, int(valid.sum())), largest)


@dataclass(frozen=True)
class Scale:
    """How large the components of something are, over all samples."""

    mean: Float[np.ndarray, " components"]
    deviation: Float[np.ndarray, " components"]
    low: Float[np.ndarray, " components"]
    high: Float[np.ndarray, " components"]

    @property
    def moving(self) -> Bool[np.ndarray, " components"]:
        """Those that are not constant."""
        return self.deviation > 1e-6 * np.maximum(np.abs(self.mean), 1e-30)

    @property
    def size(self) -> Float[np.ndarray, " components"]:
        """The root mean square of each."""
        return np.hypot(self.mean, self.deviation)

    @property
    def inequality(self) -> float:
        """The largest deviation over the smallest, of those that move."""
        moving = self.deviation[self.moving]
        return float(moving.max() / moving.min()) if moving.size else 1.0


def scale_of(values: Shaped[np.ndarray, "samples components"]) -> Scale:
    values = np.asarray(values, float)
    return Scale(values.mean(axis=0), values.std(axis=0), values.min(axis=0), values.max(axis=0))


def wild_component(scale: Scale) -> int | None:
    """The largest component, if it is too large, or if even it is so small that nothing is seen; small ones beside
    others do little harm. A constant can be too large, but does not make up for what is small."""
    largest = int(np.argmax(scale.size))
    if scale.size[largest] > WILD:
        return largest
    seen = np.where(scale.moving, scale.size, 0.0)
    return int(np.argmax(seen)) if scale.moving.any() and seen.max() < 1 / WILD else None


@dataclass(frozen=True)
class Draws:
    """What an epoch's lot gives a member."""

    expected: float
    """Mini-batches of an epoch that it is met in, on average."""
    absent: float
    """The probability that an epoch does not meet it at all."""


def draws(probability: float, minibatches: int) -> Draws:
    return Draws(minibatches * probability, (1 - probability) ** minibatches)


def tail_shares(
    entropies: Float[np.ndarray, "members minibatches"], probabilities: Sequence[float], alpha: float
) -> Float[np.ndarray, " members"]:
    """What each member is of the worst α-fraction, when its mini-batches share its probability equally."""
    members, minibatches = entropies.shape
    weights = np.repeat(np.asarray(probabilities) / minibatches, minibatches)
    order = np.argsort(entropies.ravel(), kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    taken = np.clip(alpha - before, 0.0, weights[order])
    of_member = order // minibatches
    return np.bincount(of_member, taken, members) / taken.sum()


def share_between(entropies: Float[np.ndarray, "members minibatches"], probabilities: Sequence[float]) -> float:
    """The part of the variance of entropies under p_M that the member explains; the rest is luck within it.

    An unbiased estimate of either variance is taken, so that equal members have a share of about 0.
    """
    weights, means = np.asarray(probabilities), entropies.mean(axis=1)
    within_of = entropies.var(axis=1, ddof=1) if entropies.shape[1] > 1 else np.zeros(len(means))
    within = float(weights @ within_of)
    spread = float(weights @ (means - weights @ means) ** 2)
    # What differences of the means owe to there being few mini-batches.
    chance = float((weights * (1 - weights)) @ within_of) / entropies.shape[1]
    between = max(0.0, spread - chance)
    return between / (between + within) if between + within > 0 else 0.0
