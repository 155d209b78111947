"""The share of each member in the draws of an epoch, in the tail, and in the variance of entropies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Draws:
    """The chances of a member to be drawn in an epoch."""

    expected: float
    """The mean number of mini-batches of an epoch that are in the member."""
    absent: float
    """The probability that an epoch has no mini-batch in the member."""


def member_share_of_draws(probability: float, minibatches: int) -> Draws:
    return Draws(minibatches * probability, (1 - probability) ** minibatches)


def member_shares_of_tail(
    entropies: Float[np.ndarray, "members minibatches"], probabilities: Sequence[float], alpha: float
) -> Float[np.ndarray, " members"]:
    """Return the share of each member in the tail. The mini-batches of a member share its probability equally."""
    members, minibatches = entropies.shape
    weights = np.repeat(np.asarray(probabilities) / minibatches, minibatches)
    order = np.argsort(entropies.ravel(), kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    taken = np.clip(alpha - before, 0.0, weights[order])
    of_member = order // minibatches
    return np.bincount(of_member, taken, members) / taken.sum()


def member_share_of_variance(
    entropies: Float[np.ndarray, "members minibatches"], probabilities: Sequence[float]
) -> float:
    """Return the share of the variance of entropies under p_M that is between members; the rest is chance within them.

    Both variances are estimated without bias, so that equal members have a share of about 0.
    """
    weights, means = np.asarray(probabilities), entropies.mean(axis=1)
    within_of = entropies.var(axis=1, ddof=1) if entropies.shape[1] > 1 else np.zeros(len(means))
    within = float(weights @ within_of)
    spread = float(weights @ (means - weights @ means) ** 2)
    # The means of members also differ by chance, because there are few mini-batches.
    chance = float((weights * (1 - weights)) @ within_of) / entropies.shape[1]
    between = max(0.0, spread - chance)
    return between / (between + within) if between + within > 0 else 0.0
