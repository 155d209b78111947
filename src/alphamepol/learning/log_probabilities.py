"""Log-probabilities of many trajectories, and their gradient, in pieces that fit the machine."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.mapping import map_rows, rows_per_product
from alphamepol.policies import Policy


def log_probabilities(
    policy: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
) -> Float[Array, "*batch time"]:
    """ln π of every action."""
    *batch, time, _ = perceived.shape
    # A recurrent memory goes through all trajectories side by side, step by step; the rest goes piece by piece.
    inputs = jax.vmap(policy.network_inputs)(perceived.reshape(-1, time, perceived.shape[-1]))
    rows = inputs.reshape(-1, inputs.shape[-1]), actions.reshape(-1, *actions.shape[len(batch) + 1 :])
    # What happens inside a piece is computed again for the gradient, so that memory stays that of one piece.
    of_rows = jax.checkpoint(lambda *rows: log_probabilities_of_rows(policy, *rows), prevent_cse=False)
    most = rows_per_product(policy.trunk.pixels if policy.trunk else 0)
    return map_rows(of_rows, rows, most).reshape(*batch, time)


def log_probabilities_of_rows(
    policy: Policy, inputs: Shaped[Array, "rows network_inputs"], actions: Shaped[Array, "rows ..."]
) -> Float[Array, " rows"]:
    """ln π of every action, all at once."""
    outputs = policy.network_of_rows(inputs)
    return jax.vmap(lambda output, action: policy.head(output).log_prob(action))(outputs, actions)


def score_sum(
    policy: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
    coefficients: Float[Array, "*batch time"],
) -> Policy:
    """Σ c_t ∇ ln π(a_t|s_t) over all steps."""
    return jax.grad(lambda policy: jnp.sum(coefficients * log_probabilities(policy, perceived, actions)))(policy)
