"""Log-probabilities of many trajectories, and their gradient, in pieces that fit the machine."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.mapping import rows_per_product
from alphamepol.policies import Policy


def log_probabilities(
    policy: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
) -> Float[Array, "*batch time"]:
    """ln π of every action, trajectory by trajectory."""
    *batch, time = perceived.shape[:-1]
    perceived, actions = (leaf.reshape(-1, *leaf.shape[len(batch) :]) for leaf in (perceived, actions))
    # A recurrent memory goes through all trajectories side by side, step by step; the rest goes piece by piece.
    inputs = jax.vmap(policy.network_inputs)(perceived)

    def one_step(inputs: Shaped[Array, " inputs"], action: Shaped[Array, "..."]) -> Float[Array, ""]:
        return policy.head(policy.network(inputs)).log_prob(action)

    # What happens inside a trajectory is computed again for the gradient, so that memory stays that of one piece.
    one = jax.checkpoint(lambda pair: jax.vmap(one_step)(*pair), prevent_cse=False)
    pieces = max(1, rows_per_product(policy.trunk.pixels if policy.trunk else 0) // time)
    return jax.lax.map(one, (inputs, actions), batch_size=pieces).reshape(*batch, time)


def score_sum(
    policy: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
    coefficients: Float[Array, "*batch time"],
) -> Policy:
    """Σ c_t ∇ ln π(a_t|s_t) over all steps."""
    return jax.grad(lambda policy: jnp.sum(coefficients * log_probabilities(policy, perceived, actions)))(policy)
