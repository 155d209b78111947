"""The estimates by importance weights, (E4) to (E6), and the gradients of the objective, (E8), (E8') and (E9).

The estimates are the entropies and the KL of an epoch under a policy that did not sample it.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities_of_rows, score_sum_of_log_probabilities
from alphamepol.compute.devices import share_among_devices
from alphamepol.compute.mapping import largest_divisor_for_mapping, map_leading_axis, mapped_rows_per_product
from alphamepol.estimation.entropy import entropy_of_masses, kl_of_masses, neighbour_masses_for_entropy
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories


class Estimates(eqx.Module):
    """The estimates for one policy, from one pass over all samples of an epoch."""

    log_ratios: Float[Array, "minibatches batch time"]
    entropies: Float[Array, " minibatches"]
    kl: Float[Array, ""]
    gradient: Policy | None = None
    """The gradient of the mean of all entropies, from `estimate_with_gradient`; None if it is computed separately."""


def estimate_entropies_and_kl(
    log_ratios: Float[Array, "minibatches batch time"], trajectories: Trajectories, neighbourhood: Neighbourhood
) -> tuple[Float[Array, " minibatches"], Float[Array, ""]]:
    """Estimate the entropy of every mini-batch (E5) and the KL of the epoch (E6) under a policy θ'.

    `log_ratios` are ln π_θ'/π_θ of every action (E4), where θ sampled the epoch.
    """
    log_weights, masses = estimated_weights_and_masses(log_ratios, trajectories, neighbourhood)
    return jax.vmap(entropy_of_masses)(neighbourhood, masses), kl_of_masses(neighbourhood, log_weights, masses)


def estimated_weights_and_masses(
    log_ratios: Float[Array, "minibatches batch time"], trajectories: Trajectories, neighbourhood: Neighbourhood
) -> tuple[Float[Array, "minibatches particles"], Float[Array, "minibatches particles"]]:
    """Return ln ŵ (E4) and W_t (E5) of every particle."""
    log_weights = estimated_log_weights(log_ratios, trajectories)
    return log_weights, map_leading_axis(neighbour_masses_for_entropy)(neighbourhood, log_weights)


def estimated_log_weights(
    log_ratios: Float[Array, "minibatches batch time"], trajectories: Trajectories
) -> Float[Array, "minibatches particles"]:
    """Return ln ŵ (E4) of every particle, not normalised.

    This is the sum of the log-ratios up to the action that reached the particle, and −∞ if the step is not valid. (E5)
    normalises the weights over a mini-batch. (E6) normalises them over the epoch, in which each mini-batch has a share.
    """
    log_weights = jnp.where(trajectories.valid, jnp.cumsum(log_ratios, axis=-1), -jnp.inf)
    return log_weights.reshape(len(log_weights), -1)


def estimate_with_gradient(
    policy: Policy,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    sampling_log_probs: Float[Array, "minibatches batch time"],
) -> Estimates:
    """Estimate the entropies and the KL, and compute the gradient (E8) in the same pass.

    The policy must have no recurrence. The entropy of a mini-batch depends on that mini-batch alone. So a group of
    mini-batches goes forward through the network, and back at once, while its hidden values are still in memory. This
    takes three quarters of the work of a forward pass over all mini-batches followed by `tail_gradient` of all.
    """
    minibatches = len(neighbourhood.valid)

    def summed(log_ratios, samples, neighbours):
        """Return the sum of the entropies, which is differentiated, and the log-weights, masses and entropies."""
        log_weights, masses = estimated_weights_and_masses(log_ratios, samples, neighbours)
        entropies = jax.vmap(entropy_of_masses)(neighbours, masses)
        return jnp.sum(entropies), (log_weights, masses, entropies)

    def add_group(policy: Policy, total: Policy, group) -> tuple[Policy, tuple[Array, ...]]:
        """Add the gradient of a group of mini-batches to the total. Return also the group's weights and entropies."""
        samples, neighbours, sampled = group
        # `network_inputs` is not needed: without recurrence the network takes what was perceived as it is.
        rows = tuple(leaf.reshape(-1, *leaf.shape[3:]) for leaf in (samples.perceived, samples.actions))
        log_probs, vjp = jax.vjp(lambda policy: log_probabilities_of_rows(policy, *rows), policy)
        log_ratios = log_probs.reshape(sampled.shape) - sampled
        coefficients, (log_weights, masses, entropies) = jax.grad(summed, has_aux=True)(log_ratios, samples, neighbours)
        gradient = vjp(coefficients.ravel() / minibatches)[0]
        return jax.tree.map(jnp.add, total, gradient), (log_ratios, log_weights, masses, entropies)

    def of_device(policy: Policy, *some) -> tuple[Policy, tuple[Array, ...]]:
        """Return the gradient of a device's mini-batches, with an axis over devices, and the estimates of each."""
        count = len(some[-1])
        together = largest_divisor_for_mapping(count, mapped_rows_per_product() // neighbourhood.valid[0].size)
        groups = jax.tree.map(lambda leaf: leaf.reshape(-1, together, *leaf.shape[1:]), some)
        gradient, parts = jax.lax.scan(partial(add_group, policy), jax.tree.map(jnp.zeros_like, policy), groups)
        parts = jax.tree.map(lambda part: part.reshape(count, *part.shape[2:]), parts)
        return jax.tree.map(lambda leaf: leaf[None], gradient), parts

    gradients, parts = share_among_devices(of_device, policy, trajectories, neighbourhood, sampling_log_probs)
    log_ratios, log_weights, masses, entropies = parts
    gradient = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), gradients)
    return Estimates(log_ratios, entropies, kl_of_masses(neighbourhood, log_weights, masses), gradient)


def tail_gradient(
    policy: Policy,
    log_ratios: Float[Array, "minibatches batch time"],
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    chosen: Int[Array, " chosen"],
) -> Policy:
    """Return (E8), the gradient of the mean importance-weighted entropy of the chosen mini-batches.

    `chosen` holds the indices of the tail, or of a random subset of the tail. `log_ratios` are those of `policy`. Only
    the chosen mini-batches are differentiated, by the chain rule over ln π: first the few numbers ∂H/∂ ln π(a_t|s_t),
    then one backward pass through the network.
    """
    samples, neighbours, log_ratios = jax.tree.map(lambda leaf: leaf[chosen], (trajectories, neighbourhood, log_ratios))

    def of_some(_, log_ratios, samples, neighbours):
        return jax.grad(
            lambda ratios: jnp.sum(estimate_entropies_and_kl(ratios, samples, neighbours)[0]) / len(chosen)
        )(log_ratios)

    coefficients = share_among_devices(of_some, None, log_ratios, samples, neighbours)
    return score_sum_of_log_probabilities(policy, samples.perceived, samples.actions, coefficients)


def on_policy_gradient(
    policy: Policy,
    trajectories: Trajectories,
    entropies: Float[Array, " minibatches"],
    *,
    tail_size: int,
    baseline: bool,
) -> Policy:
    """Return the REINFORCE gradient of the tail: (E8') with the baseline b = −VaR, (E9) without it.

    (E9) weights the scores of a mini-batch by H − VaR. Subtracting b adds VaR to this weight and leaves H, as in (E8').
    """
    tail = jnp.argsort(entropies)[:tail_size]
    samples = jax.tree.map(lambda leaf: leaf[tail], trajectories)
    value_at_risk = entropies[tail[-1]]
    weights = entropies[tail] if baseline else entropies[tail] - value_at_risk
    coefficients = jnp.where(samples.valid, weights[:, None, None] / tail_size, 0.0)
    return score_sum_of_log_probabilities(policy, samples.perceived, samples.actions, coefficients)
