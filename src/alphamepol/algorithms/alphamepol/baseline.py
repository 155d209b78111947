"""When the baseline b of the on-policy gradient pays: (D6) and (D7) of one epoch."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from alphamepol.algorithms.alphamepol.gradients import on_policy_gradient
from alphamepol.algorithms.alphamepol.log_probabilities import log_probability_scores_along
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories

FEWEST_IN_TAIL = 3
"""The fewest mini-batches in the tail for which the baseline is judged; the one at the VaR has weight 0 in (E9)."""


@dataclass(frozen=True)
class BaselineTradeOff:
    """How many samples it takes before the gradient without the baseline b is the better one.

    All is of one direction u of the parameters: the samples are f·u, one for each mini-batch.
    """

    value_at_risk: float
    largest_score: float
    """U: of |f·u|."""
    range: float
    """1/η: between the largest and the smallest sample of the gradient without b, f·u (H − VaR) in the tail, else 0."""
    bias_bound: float
    """U α |b|."""
    bias: float
    """The absolute change of the mean gradient that b was measured to cause, noise included."""
    samples: float
    """n* (D6); infinite if nothing is to be gained by more."""
    crossing: float
    """(D7): where the mean squared errors of the two cross; 0 if that without b is smaller always, infinite if no bias
    was found beyond chance."""


def measure_baseline_trade_off(
    policy: Policy, trajectories: Trajectories, entropies: Float[Array, " minibatches"], alpha: float
) -> BaselineTradeOff | None:
    """(D6) and (D7) of one seed's epoch, along one direction.

    The first half of the mini-batches gives the direction, its gradient; the gradients of the second half are projected
    on it. None if there are too few mini-batches in the tail.
    """
    half = len(entropies) // 2
    if half == 0 or risk_tail_count(alpha, len(entropies) - half) < FEWEST_IN_TAIL:
        return None
    scores = _scores_for_baseline(policy, trajectories, entropies, half, risk_tail_count(alpha, half))
    judged = np.asarray(scores, float), np.asarray(entropies[half:], float)
    return baseline_trade_off_of_scores(*judged, risk_tail_count(alpha, len(entropies) - half))


@partial(jax.jit, static_argnums=(3, 4))
def _scores_for_baseline(policy, trajectories, entropies, half: int, tail: int) -> Float[Array, " minibatches"]:
    """The scores of the later mini-batches along the gradient of the earlier ones, scaled to length 1."""
    earlier, later = (
        jax.tree.map(lambda leaf, of=of: leaf[of], trajectories) for of in (slice(half), slice(half, None))
    )
    gradient = on_policy_gradient(policy, earlier, entropies[:half], tail_size=tail, baseline=False)
    flat, unravel = ravel_pytree(gradient)
    # With a tail of one, the gradient without b is zero: any direction will do.
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
    """(D6) and (D7), from the scores f·u and entropies of mini-batches, of which `tail` are the worst.

    `confidence` is δ; `accuracy` is Δ, what the gradient is to be known to if that is less than the bias.
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
    """n of Hoeffding's inequality: the mean of so many samples is within `accuracy` with probability 1 − δ."""
    if range_ == 0:
        return 0.0
    return math.inf if accuracy == 0 else math.log(2 / confidence) * range_**2 / (2 * accuracy**2)
