"""What an epoch's draw of members gives each of them, and what each is of the tail."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Draws:
    """What an epoch's lot gives a member."""

    expected: float
    """Mini-batches of an epoch that it is met in, on average."""
    absent: float
    """The probability that an epoch does not meet it at all."""


def member_share_of_draws(probability: float, minibatches: int) -> Draws:
    return Draws(minibatches * probability, (1 - probability) ** minibatches)


def member_shares_of_tail(
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


def member_share_of_variance(
    entropies: Float[np.ndarray, "members minibatches"], probabilities: Sequence[float]
) -> float:
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
