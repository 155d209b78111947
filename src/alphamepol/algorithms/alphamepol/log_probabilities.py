"""The log-probabilities of many trajectories, and their gradient, computed in pieces that fit the machine."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from alphamepol.compute.devices import share_among_devices
from alphamepol.compute.mapping import map_rows, mapped_rows_per_product
from alphamepol.policies.policy import Policy


def log_probabilities(
    policy: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
) -> Float[Array, "*batch time"]:
    """Return ln π of every action."""
    *batch, time, _ = perceived.shape
    trajectories = (
        _flat_rows_of_log_probabilities(perceived, len(batch)),
        _flat_rows_of_log_probabilities(actions, len(batch)),
    )
    return share_among_devices(_log_probabilities_of_trajectories, policy, *trajectories).reshape(*batch, time)


def _log_probabilities_of_trajectories(
    policy: Policy, perceived: Shaped[Array, "batch time inputs"], actions: Shaped[Array, "batch time ..."]
) -> Float[Array, "batch time"]:
    # A recurrent memory processes all trajectories side by side, step by step. The rest is computed piece by piece.
    inputs = jax.vmap(policy.network_inputs)(perceived)
    # The gradient computes the hidden values of a piece again, so that it needs the memory of one piece only.
    of_rows = jax.checkpoint(lambda *rows: log_probabilities_of_rows(policy, *rows), prevent_cse=False)
    most = mapped_rows_per_product(policy.trunk.pixels if policy.trunk else 0)
    return map_rows(
        of_rows, (_flat_rows_of_log_probabilities(inputs, 2), _flat_rows_of_log_probabilities(actions, 2)), most
    ).reshape(perceived.shape[:2])


def log_probabilities_of_rows(
    policy: Policy, inputs: Shaped[Array, "rows network_inputs"], actions: Shaped[Array, "rows ..."]
) -> Float[Array, " rows"]:
    """Return ln π of every action, computed for all rows at once."""
    outputs = policy.network_of_rows(inputs)
    return jax.vmap(lambda output, action: policy.head(output).log_prob(action))(outputs, actions)


def score_sum_of_log_probabilities(
    policy: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
    coefficients: Float[Array, "*batch time"],
) -> Policy:
    """Return Σ c_t ∇ ln π(a_t|s_t) over all steps, where c are the coefficients."""

    def of_some(policy, perceived, actions, coefficients) -> Policy:
        """Return the sum over one device's steps, with a leading axis over devices."""
        summed = jax.grad(
            lambda policy: jnp.sum(coefficients * _log_probabilities_of_trajectories(policy, perceived, actions))
        )(policy)
        return jax.tree.map(lambda leaf: leaf[None], summed)

    axes = coefficients.ndim - 1
    summed = share_among_devices(
        of_some,
        policy,
        _flat_rows_of_log_probabilities(perceived, axes),
        _flat_rows_of_log_probabilities(actions, axes),
        _flat_rows_of_log_probabilities(coefficients, axes),
    )
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), summed)


def _flat_rows_of_log_probabilities(leaf: Shaped[Array, "..."], axes: int) -> Shaped[Array, "rows ..."]:
    """Merge the first axes into one."""
    return leaf.reshape(-1, *leaf.shape[axes:])


def log_probability_scores_along(
    policy: Policy,
    direction: Policy,
    perceived: Shaped[Array, "*batch time inputs"],
    actions: Shaped[Array, "..."],
) -> Float[Array, "*batch time"]:
    """Return the derivative of ln π of every action along one direction of the parameters."""
    return jax.jvp(lambda policy: log_probabilities(policy, perceived, actions), (policy,), (direction,))[1]
