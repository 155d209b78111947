"""The gradients of the objective: (E8) off-policy, (E8') and (E9) on-policy."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from alphamepol.algorithms.alphamepol.estimates import estimate_entropies_and_kl
from alphamepol.algorithms.alphamepol.log_probabilities import score_sum_of_log_probabilities
from alphamepol.compute.devices import share_among_devices
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories


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
