"""αMEPOL: what one epoch's samples of one seed do to its policy, off-policy (Algorithm 2) or on-policy (Algorithm 1).

MEPOL is the same with α = 1: every mini-batch is in the tail, or, to learn from no more samples than αMEPOL does, a
random part of them.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from alphamepol.devices import share
from alphamepol.estimation.entropy import entropy_of_masses, kl_of_masses, neighbour_masses, particle_entropy
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.learning.log_probabilities import log_probabilities, log_probabilities_of_rows, score_sum
from alphamepol.mapping import largest_divisor, map_leading_axis, rows_per_product
from alphamepol.policies import Policy
from alphamepol.sampling.trajectories import Trajectories

MAX_TRIES = 10
"""How often a step is tried that leaves the trust region, each time with half the learning rate."""

ADAM = optax.scale_by_adam()


class Learner(eqx.Module):
    """What lives on from epoch to epoch."""

    policy: Policy
    moments: optax.OptState

    @classmethod
    def start(cls, policy: Policy) -> "Learner":
        return cls(policy, ADAM.init(policy))  # pyright: ignore[reportArgumentType] (Optax does not know modules)


class EpochReport(eqx.Module):
    """What an epoch did. Entropies and tail are of the policy that sampled, the rest of the one that came out."""

    entropies: Float[Array, " minibatches"]
    tail: Bool[Array, " minibatches"]
    objective: Float[Array, ""]
    objective_after: Float[Array, ""]
    kl: Float[Array, ""]
    effective_shares: Float[Array, " minibatches"]
    """Of the samples, how many as good as unweighted ones the importance weights leave: (Σŵ)²/Σŵ² over their number."""
    iterations: Int[Array, ""]
    backtracks: Int[Array, ""]


class Judged(eqx.Module):
    """What one pass over all samples says of a policy."""

    log_ratios: Float[Array, "minibatches batch time"]
    entropies: Float[Array, " minibatches"]
    kl: Float[Array, ""]
    gradient: Policy | None = None
    """Of the mean of all entropies, where the tail is everything and the pass went back as well."""


class Iterate(eqx.Module):
    """θ_h of the off-policy loop."""

    learner: Learner
    judged: Judged
    iterations: Int[Array, ""]
    backtracks: Int[Array, ""]
    finished: Bool[Array, ""]


def improve_off_policy(
    learner: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    learning_rate: Float[Array, ""],
    trust_region: Float[Array, ""],
    *,
    tail_size: int,
    max_iterations: int,
    subset_size: int | None = None,
    key: PRNGKeyArray | None = None,
) -> tuple[Learner, EpochReport]:
    """Climb the importance-weighted entropy of the tail until the trust region or `max_iterations` ends the epoch.

    `tail_size` is ⌈αM⌉ (E7), `trust_region` is δ, the largest KL (E6) from the policy that sampled. With a smaller
    `subset_size` each gradient is of so many mini-batches of the tail, drawn anew with `key` (matched-sample MEPOL).
    """
    subset_size = tail_size if subset_size is None else min(subset_size, tail_size)
    minibatches, particles = neighbourhood.valid.shape
    fits = particles <= 4 * rows_per_product() and _is_memoryless(learner.policy)
    everything = fits and subset_size == minibatches
    sampling_log_probs = log_probabilities(learner.policy, trajectories.perceived, trajectories.actions)

    def judge(policy: Policy) -> Judged:
        if everything:
            return judge_and_differentiate(policy, trajectories, neighbourhood, sampling_log_probs)
        log_probs = log_probabilities(policy, trajectories.perceived, trajectories.actions)
        log_ratios = log_probs - sampling_log_probs
        return Judged(log_ratios, *estimate(log_ratios, trajectories, neighbourhood))

    def gradient_at(current: Iterate) -> Policy:
        if current.judged.gradient is not None:
            return current.judged.gradient
        tail = jnp.argsort(current.judged.entropies)[:tail_size]
        if subset_size < tail_size:
            tail = jax.random.choice(_iteration_key(key, current), tail, (subset_size,), replace=False)
        return tail_gradient(current, trajectories, neighbourhood, tail)

    def step(current: Iterate) -> Iterate:
        rate = learning_rate * 0.5**current.backtracks
        candidate = ascend(current.learner, gradient_at(current), rate)
        judged = judge(candidate.policy)
        inside = judged.kl <= trust_region
        accepted = Iterate(candidate, judged, current.iterations + 1, current.backtracks, current.backtracks > 0)
        backtracks = current.backtracks + 1
        undone = eqx.tree_at(
            lambda iterate: (iterate.backtracks, iterate.finished), current, (backtracks, backtracks >= MAX_TRIES)
        )
        return jax.tree.map(lambda new, old: jnp.where(inside, new, old), accepted, undone)

    entropies = jax.vmap(particle_entropy)(neighbourhood)
    if everything:
        judged = judge(learner.policy)
    else:
        judged = Judged(jnp.zeros_like(sampling_log_probs), entropies, jnp.array(0.0))
    start = Iterate(learner, judged, iterations=jnp.array(0), backtracks=jnp.array(0), finished=jnp.array(False))
    end = jax.lax.while_loop(lambda i: ~i.finished & (i.iterations < max_iterations), step, start)
    return end.learner, _report(entropies, end, tail_size, trajectories)


def improve_on_policy(
    learner: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    learning_rate: Float[Array, ""],
    *,
    tail_size: int,
    baseline: bool,
) -> tuple[Learner, EpochReport]:
    """One REINFORCE step: (E8') with the baseline b = −VaR_α, (E9) without it."""
    entropies = jax.vmap(particle_entropy)(neighbourhood)
    gradient = on_policy_gradient(learner.policy, trajectories, entropies, tail_size=tail_size, baseline=baseline)
    improved = ascend(learner, gradient, learning_rate)

    samples = trajectories.perceived, trajectories.actions
    log_ratios = log_probabilities(improved.policy, *samples) - log_probabilities(learner.policy, *samples)
    judged = Judged(log_ratios, *estimate(log_ratios, trajectories, neighbourhood))
    end = Iterate(improved, judged, jnp.array(1), jnp.array(0), jnp.array(True))
    return improved, _report(entropies, end, tail_size, trajectories)


def _is_memoryless(policy: Policy) -> bool:
    """Whether its network takes what was perceived, one step at a time, and no image, of which too much is kept."""
    return policy.trunk is None and (policy.memory is None or policy.memory.recurrence is None)


def _iteration_key(key: PRNGKeyArray | None, iterate: Iterate) -> PRNGKeyArray:
    if key is None:
        raise ValueError("key: random subsets need one")
    return jax.random.fold_in(key, iterate.iterations)


def tail_gradient(
    iterate: Iterate, trajectories: Trajectories, neighbourhood: Neighbourhood, tail: Int[Array, " tail"]
) -> Policy:
    """(E8): the gradient of the mean of the tail's importance-weighted entropies; `tail` are numbers of mini-batches.

    Only the tail is differentiated. By the chain rule over ln π: first the few numbers ∂H/∂ ln π(a_t|s_t), then
    one backward pass through the network.
    """
    samples, neighbours, log_ratios = jax.tree.map(
        lambda leaf: leaf[tail], (trajectories, neighbourhood, iterate.judged.log_ratios)
    )

    def of_some(_, log_ratios, samples, neighbours):
        return jax.grad(lambda ratios: jnp.sum(estimate(ratios, samples, neighbours)[0]) / len(tail))(log_ratios)

    coefficients = share(of_some, None, log_ratios, samples, neighbours)
    return score_sum(iterate.learner.policy, samples.perceived, samples.actions, coefficients)


def judge_and_differentiate(
    policy: Policy,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    sampling_log_probs: Float[Array, "minibatches batch time"],
) -> Judged:
    """Judge a policy without memory of its own, and take the gradient (E8) of all mini-batches in the same pass.

    An entropy needs its mini-batch alone, so some mini-batches at a time go forward and, as long as what the layers
    gave is at hand, back: three quarters of the work of a forward pass followed by `tail_gradient` of all.
    """
    minibatches = len(neighbourhood.valid)

    def of_some(policy: Policy, *some) -> tuple[Policy, tuple[Array, ...]]:
        """The gradient of some mini-batches, stacked with those of other devices, and more of each of them."""
        count = len(some[-1])
        together = largest_divisor(count, rows_per_product() // neighbourhood.valid[0].size)
        groups = jax.tree.map(lambda leaf: leaf.reshape(-1, together, *leaf.shape[1:]), some)
        gradient, parts = jax.lax.scan(partial(one, policy), jax.tree.map(jnp.zeros_like, policy), groups)
        parts = jax.tree.map(lambda part: part.reshape(count, *part.shape[2:]), parts)
        return jax.tree.map(lambda leaf: leaf[None], gradient), parts

    def one(policy: Policy, total: Policy, group) -> tuple[Policy, tuple[Array, ...]]:
        samples, neighbours, before = group
        rows = tuple(leaf.reshape(-1, *leaf.shape[3:]) for leaf in (samples.perceived, samples.actions))
        log_probs, pull = jax.vjp(lambda policy: log_probabilities_of_rows(policy, *rows), policy)
        log_ratios = log_probs.reshape(before.shape) - before
        coefficients, (log_weights, masses, entropies) = jax.grad(summed, has_aux=True)(log_ratios, samples, neighbours)
        gradient = pull(coefficients.ravel() / minibatches)[0]
        return jax.tree.map(jnp.add, total, gradient), (log_ratios, log_weights, masses, entropies)

    def summed(log_ratios, samples, neighbours):
        log_weights, masses = weigh(log_ratios, samples, neighbours)
        entropies = jax.vmap(entropy_of_masses)(neighbours, masses)
        return jnp.sum(entropies), (log_weights, masses, entropies)

    gradients, parts = share(of_some, policy, trajectories, neighbourhood, sampling_log_probs)
    log_ratios, log_weights, masses, entropies = parts
    gradient = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), gradients)
    return Judged(log_ratios, entropies, kl_of_masses(neighbourhood, log_weights, masses), gradient)


def on_policy_gradient(
    policy: Policy,
    trajectories: Trajectories,
    entropies: Float[Array, " minibatches"],
    *,
    tail_size: int,
    baseline: bool,
) -> Policy:
    """(E8') with the baseline, (E9) without: the scores of the tail's steps, times entropy or entropy minus VaR."""
    tail = jnp.argsort(entropies)[:tail_size]
    samples = jax.tree.map(lambda leaf: leaf[tail], trajectories)
    worth = entropies[tail] if baseline else entropies[tail] - entropies[tail[-1]]
    coefficients = jnp.where(samples.valid, worth[:, None, None] / tail_size, 0.0)
    return score_sum(policy, samples.perceived, samples.actions, coefficients)


def ascend(learner: Learner, gradient: Policy, rate: Float[Array, ""]) -> Learner:
    """One Adam step uphill."""
    direction, moments = ADAM.update(gradient, learner.moments)  # pyright: ignore[reportArgumentType]
    policy = jax.tree.map(lambda parameter, change: parameter + rate * change, learner.policy, direction)
    return Learner(policy, moments)


def estimate(
    log_ratios: Float[Array, "minibatches batch time"], trajectories: Trajectories, neighbourhood: Neighbourhood
) -> tuple[Float[Array, " minibatches"], Float[Array, ""]]:
    """Entropy of every mini-batch (E5) and KL of the epoch (E6) under a policy with these ln π_θ'/π_θ (E4)."""
    log_weights, masses = weigh(log_ratios, trajectories, neighbourhood)
    return jax.vmap(entropy_of_masses)(neighbourhood, masses), kl_of_masses(neighbourhood, log_weights, masses)


def weigh(
    log_ratios: Float[Array, "minibatches batch time"], trajectories: Trajectories, neighbourhood: Neighbourhood
) -> tuple[Float[Array, "minibatches particles"], Float[Array, "minibatches particles"]]:
    """ln ŵ (E4) of every particle, and W_t of (E5)."""
    log_weights = _log_weights(log_ratios, trajectories)
    return log_weights, map_leading_axis(neighbour_masses)(neighbourhood, log_weights)


def _log_weights(
    log_ratios: Float[Array, "minibatches batch time"], trajectories: Trajectories
) -> Float[Array, "minibatches particles"]:
    log_weights = jnp.where(trajectories.valid, jnp.cumsum(log_ratios, axis=-1), -jnp.inf)
    return log_weights.reshape(len(log_weights), -1)


def _report(
    entropies: Float[Array, " minibatches"], end: Iterate, tail_size: int, trajectories: Trajectories
) -> EpochReport:
    tail = jnp.argsort(entropies)[:tail_size]
    log_weights = _log_weights(end.judged.log_ratios, trajectories)
    counts = jnp.sum(trajectories.valid, axis=(-1, -2))
    return EpochReport(
        entropies=entropies,
        tail=jnp.zeros(entropies.shape, bool).at[tail].set(True),
        objective=jnp.mean(entropies[tail]),
        objective_after=jnp.mean(jnp.sort(end.judged.entropies)[:tail_size]),
        kl=end.judged.kl,
        effective_shares=jnp.exp(2 * logsumexp(log_weights, axis=-1) - logsumexp(2 * log_weights, axis=-1)) / counts,
        iterations=end.iterations,
        backtracks=end.backtracks,
    )
