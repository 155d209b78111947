"""The trade-off of the baseline b of the on-policy gradient between bias and variance: (D6) and (D7) of one epoch."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from alphamepol.algorithms.alphamepol.estimates import on_policy_gradient
from alphamepol.algorithms.alphamepol.log_probabilities import log_probability_scores_along
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories

FEWEST_IN_TAIL = 3
"""The smallest number of mini-batches in the tail for which the baseline is judged. The mini-batch at the VaR has
weight 0 in (E9)."""


@dataclass(frozen=True)
class BaselineTradeOff:
    """The number of samples from which on the gradient without the baseline b is better, and what it depends on.

    All numbers are measured along one direction u of the parameters. The scores are f·u, one for each mini-batch.
    """

    value_at_risk: float
    largest_score: float
    """U, the largest |f·u|."""
    range: float
    """1/η, the difference between the largest and the smallest sample of the gradient without b. A sample is
    f·u (H − VaR) in the tail, and 0 outside of it."""
    bias_bound: float
    """U α |b|, an upper bound of the bias."""
    bias: float
    """The absolute change of the mean gradient that b causes, as measured, noise included."""
    samples: float
    """n* of (D6), a number of samples; infinite if the bound of the bias is 0."""
    crossing: float
    """(D7), the number of samples at which the mean squared errors of the two gradients are equal. It is 0 if the
    error without b is always smaller, and infinite if no bias was found beyond chance."""


def measure_baseline_trade_off(
    policy: Policy, trajectories: Trajectories, entropies: Float[Array, " minibatches"], alpha: float
) -> BaselineTradeOff | None:
    """Measure (D6) and (D7) for one seed's epoch, along one direction of the parameters.

    The direction is the gradient of the first half of the mini-batches. The gradients of the second half are projected
    on this direction. Return None if there are too few mini-batches in the tail.
    """
    half = len(entropies) // 2
    if half == 0 or risk_tail_count(alpha, len(entropies) - half) < FEWEST_IN_TAIL:
        return None
    scores = _scores_for_baseline(policy, trajectories, entropies, half, risk_tail_count(alpha, half))
    judged = np.asarray(scores, float), np.asarray(entropies[half:], float)
    return baseline_trade_off_of_scores(*judged, risk_tail_count(alpha, len(entropies) - half))


@partial(jax.jit, static_argnums=(3, 4))
def _scores_for_baseline(policy, trajectories, entropies, half: int, tail: int) -> Float[Array, " minibatches"]:
    """Return the scores of the later mini-batches along the gradient of the earlier ones, scaled to length 1."""
    earlier, later = (
        jax.tree.map(lambda leaf, of=of: leaf[of], trajectories) for of in (slice(half), slice(half, None))
    )
    gradient = on_policy_gradient(policy, earlier, entropies[:half], tail_size=tail, baseline=False)
    flat, unravel = ravel_pytree(gradient)
    # The gradient without b is zero if the tail has one mini-batch. Then any direction can be used.
    length = jnp.linalg.norm(flat)
    direction = unravel(jnp.where(length > 0, flat / jnp.where(length > 0, length, 1.0), flat.size**-0.5))
    scores = log_probability_scores_along(policy, direction, later.perceived, later.actions)
    return jnp.sum(jnp.where(later.valid, scores, 0.0), axis=(-1, -2))


def baseline_trade_off_of_scores(
    scores: Float[np.ndarray, " samples"],
    entropies: Float[np.ndarray, " samples"],
    tail: int,
    *,
    confidence: float = 0.05,
    accuracy: float = math.inf,
) -> BaselineTradeOff:
    """Compute (D6) and (D7) from the scores f·u and the entropies of mini-batches, of which `tail` are in the tail.

    `confidence` is δ. `accuracy` is Δ, the wanted accuracy of the gradient; it counts if it is less than the bound of
    the bias.
    """
    alpha = tail / len(entropies)
    order = np.argsort(entropies, kind="stable")
    value_at_risk = float(entropies[order[tail - 1]])
    inside = np.zeros(len(entropies))
    inside[order[:tail]] = 1.0
    without, with_baseline = scores * (entropies - value_at_risk) * inside, scores * entropies * inside
    largest, range_ = float(np.abs(scores).max()), float(np.ptp(without))
    bias_bound = largest * alpha * abs(value_at_risk)
    bias = abs(value_at_risk * float(np.mean(scores * inside)))
    wanted = min(bias_bound, accuracy)
    gained = float(without.var(ddof=1) - with_baseline.var(ddof=1))
    chance = value_at_risk**2 * float((scores * inside).var(ddof=1)) / len(scores)
    squared_bias = max(0.0, bias**2 - chance)
    crossing = 0.0 if gained <= 0 else gained / squared_bias if squared_bias > 0 else math.inf
    return BaselineTradeOff(
        value_at_risk=value_at_risk,
        largest_score=largest,
        range=range_,
        bias_bound=bias_bound,
        bias=bias,
        samples=samples_needed_without_baseline(confidence, range_, wanted),
        crossing=crossing,
    )


def samples_needed_without_baseline(confidence: float, range_: float, accuracy: float) -> float:
    """Return n of Hoeffding's inequality: the mean of n samples is within `accuracy` with probability 1 − δ.

    `confidence` is δ.
    """
    if range_ == 0:
        return 0.0
    return math.inf if accuracy == 0 else math.log(2 / confidence) * range_**2 / (2 * accuracy**2)
