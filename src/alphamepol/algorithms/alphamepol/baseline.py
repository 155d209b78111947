"""When the baseline b of the on-policy gradient pays: (D6) and (D7) of one epoch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from alphamepol.algorithms.alphamepol.gradients import on_policy_gradient
from alphamepol.algorithms.alphamepol.log_probabilities import scores_along
from alphamepol.estimation.risk import tail_count
from alphamepol.estimation.theory import BaselineTradeOff, baseline_trade_off
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories

FEWEST_IN_TAIL = 3
"""The fewest mini-batches in the tail for which the baseline is judged; the one at the VaR has weight 0 in (E9)."""


def measure_trade_off(
    policy: Policy, trajectories: Trajectories, entropies: Float[Array, " minibatches"], alpha: float
) -> BaselineTradeOff | None:
    """(D6) and (D7) of one seed's epoch, along one direction.

    The first half of the mini-batches gives the direction, its gradient; the gradients of the second half are projected
    on it. None if there are too few mini-batches in the tail.
    """
    half = len(entropies) // 2
    if half == 0 or tail_count(alpha, len(entropies) - half) < FEWEST_IN_TAIL:
        return None
    scores = _scores(policy, trajectories, entropies, half, tail_count(alpha, half))
    judged = np.asarray(scores, float), np.asarray(entropies[half:], float)
    return baseline_trade_off(*judged, tail_count(alpha, len(entropies) - half))


@partial(jax.jit, static_argnums=(3, 4))
def _scores(policy, trajectories, entropies, half: int, tail: int) -> Float[Array, " minibatches"]:
    """The scores of the later mini-batches along the gradient of the earlier ones, scaled to length 1."""
    earlier, later = (
        jax.tree.map(lambda leaf, of=of: leaf[of], trajectories) for of in (slice(half), slice(half, None))
    )
    gradient = on_policy_gradient(policy, earlier, entropies[:half], tail_size=tail, baseline=False)
    flat, unravel = ravel_pytree(gradient)
    # With a tail of one, the gradient without b is zero: any direction will do.
    length = jnp.linalg.norm(flat)
    direction = unravel(jnp.where(length > 0, flat / jnp.where(length > 0, length, 1.0), flat.size**-0.5))
    scores = scores_along(policy, direction, later.perceived, later.actions)
    return jnp.sum(jnp.where(later.valid, scores, 0.0), axis=(-1, -2))
