"""Log-probabilities of many trajectories, and their gradient, in pieces that fit the machine."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.mapping import rows_per_product
from alphamepol.policies import Policy


def log_probabilities(
    policy: Policy,
    observations: Shaped[Array, "*batch time observation"],
    actions: Shaped[Array, "..."],
) -> Float[Array, "*batch time"]:
    """ln π of every action, trajectory by trajectory."""
    *batch, time = observations.shape[:-1]
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(batch) :]), (observations, actions))
    # What happens inside a trajectory is computed again for the gradient, so that memory stays that of one piece.
    one = jax.checkpoint(lambda pair: jax.vmap(policy.log_prob)(*pair), prevent_cse=False)
    return jax.lax.map(one, flat, batch_size=max(1, rows_per_product() // time)).reshape(*batch, time)


def score_sum(
    policy: Policy,
    observations: Shaped[Array, "*batch time observation"],
    actions: Shaped[Array, "..."],
    coefficients: Float[Array, "*batch time"],
) -> Policy:
    """Σ c_t ∇ ln π(a_t|s_t) over all steps."""
    return jax.grad(lambda policy: jnp.sum(coefficients * log_probabilities(policy, observations, actions)))(policy)
