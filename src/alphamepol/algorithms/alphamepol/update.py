"""The update of αMEPOL: improve the policy of one seed with the samples of one epoch.

The update is off-policy (Algorithm 2) or on-policy (Algorithm 1). Before it, the caller (`epoch.py`) has drawn a member
for each mini-batch, and has collected trajectories there with the learner's policy θ. It has also found the neighbours
of every particle, which stay the same within the epoch. MEPOL is the same update with α = 1: every mini-batch is in the
tail. `__init__.py` explains the words, docs/method.md the equations.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from alphamepol.algorithms.alphamepol.estimates import (
    Estimates,
    estimate_entropies_and_kl,
    estimate_with_gradient,
    estimated_log_weights,
    on_policy_gradient,
    tail_gradient,
)
from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities
from alphamepol.compute.mapping import mapped_rows_per_product
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Trajectories

MAX_TRIES = 10
"""The largest number of tries of a step. The first try has the whole learning rate. As long as the step leaves the
trust region, the next try has half the rate."""

ADAM = optax.scale_by_adam()


class Learner(eqx.Module):
    """The state of one seed between epochs: the policy, and Adam's moments, which are kept from epoch to epoch."""

    policy: Policy
    moments: optax.OptState

    @classmethod
    def start(cls, policy: Policy) -> "Learner":
        return cls(policy, ADAM.init(policy))  # pyright: ignore[reportArgumentType] (Optax does not know modules)


class OffPolicySettings(eqx.Module):
    """The inputs of Algorithm 2. Those that are not static are traced: other values need no new compilation."""

    learning_rate: Float[Array, ""]
    """β."""
    trust_region: Float[Array, ""]
    """δ, the largest KL divergence (E6) from the policy that sampled the epoch."""
    tail_size: int = eqx.field(static=True)
    """The number of mini-batches in the tail: ⌈αM⌉ (E7), or m ⌈αM/m⌉ (E7')."""
    max_iterations: int | Int[Array, ""]
    subset_size: int = eqx.field(static=True)
    """The number of mini-batches of the tail that the gradient of an iteration uses. If it is less than `tail_size`,
    every iteration draws a random subset of this size, so that MEPOL learns from as many samples as αMEPOL."""
    ranked_together: int = eqx.field(static=True, default=1)
    """The number of mini-batches in a row that are in the tail together: those of one member, if the risk is over
    members, else 1. The tail is then that of their mean entropies."""


class OnPolicySettings(eqx.Module):
    """The inputs of Algorithm 1."""

    learning_rate: Float[Array, ""]
    """β."""
    tail_size: int = eqx.field(static=True)
    """⌈αM⌉, the number of mini-batches in the tail (E7)."""
    baseline: bool = eqx.field(static=True)
    """True if the baseline b = −VaR_α is used."""


class EpochReport(eqx.Module):
    """The report of one epoch.

    `entropies`, `tail` and `objective` describe the policy that sampled the epoch. `objective_after`, `kl` and
    `effective_shares` describe the policy after the update, before its scales are measured again (`epoch.py`).
    """

    entropies: Float[Array, " minibatches"]
    tail: Bool[Array, " minibatches"]
    objective: Float[Array, ""]
    """The mean entropy of the tail."""
    objective_after: Float[Array, ""]
    """The mean entropy of the tail of the new policy, estimated with importance weights."""
    kl: Float[Array, ""]
    effective_shares: Float[Array, " minibatches"]
    """(Σŵ)²/Σŵ² divided by the number of samples: the effective sample size under importance weights, as a share."""
    iterations: Int[Array, ""]
    """The number of steps that were accepted."""
    backtracks: Int[Array, ""]
    """The number of steps that left the trust region and were undone."""
    lost: Bool[Array, ""]
    """True if the last step that was tried, the smallest one, had a KL that is not a finite number, and was undone."""


class Iterate(eqx.Module):
    """The iterate θ_h of the off-policy loop, with its estimates."""

    learner: Learner
    estimates: Estimates
    iterations: Int[Array, ""]
    """h, the number of steps that were accepted."""
    backtracks: Int[Array, ""]
    """The number of steps that left the trust region and were undone."""
    finished: Bool[Array, ""]
    lost: Bool[Array, ""]
    """True if the step that was tried last was undone because its KL was not a finite number."""


def improve_off_policy(
    learner: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    settings: OffPolicySettings,
    *,
    key: PRNGKeyArray | None = None,
) -> tuple[Learner, EpochReport]:
    """Improve the policy by Algorithm 2: several steps along (E8), all with the same samples.

        θ_0 = θ, h = 0, rate = β
        while h < max_iterations:
            Ĥ^IW of every mini-batch under θ_h, by importance weights; the tail is the ⌈αM⌉ lowest
            try θ' = θ_h + an Adam step of this rate along the gradient of the tail's mean entropy
            if D̂_KL(θ') ≤ δ: θ_{h+1} = θ', h = h + 1; stop if the rate was halved
            else: rate = rate / 2, the Adam moments as before; stop after MAX_TRIES tries

    The function `step` below is one pass through the loop. `key` is needed only if the settings ask for random subsets
    of the tail.
    """
    sampling_log_probs = log_probabilities(learner.policy, trajectories.perceived, trajectories.actions)
    # One pass computes the entropies and the gradient together, also at θ_0, if the gradient uses every mini-batch.
    # `Estimates.gradient` is then set. This makes an epoch faster and does not change its result.
    in_one_pass = _update_goes_in_one_pass(learner.policy, neighbourhood, settings)

    def estimates_of(policy: Policy) -> Estimates:
        """Estimate Ĥ^IW of every mini-batch (E5) and D̂_KL of the epoch (E6); in one pass also the gradient (E8)."""
        if in_one_pass:
            return estimate_with_gradient(policy, trajectories, neighbourhood, sampling_log_probs)
        log_probs = log_probabilities(policy, trajectories.perceived, trajectories.actions)
        log_ratios = log_probs - sampling_log_probs
        return Estimates(log_ratios, *estimate_entropies_and_kl(log_ratios, trajectories, neighbourhood))

    def gradient_at(current: Iterate) -> Policy:
        """Return the gradient (E8) over the tail, or over a random subset of the tail."""
        if current.estimates.gradient is not None:
            return current.estimates.gradient
        tail = tail_of_entropies(current.estimates.entropies, settings.tail_size, settings.ranked_together)
        if settings.subset_size < settings.tail_size:
            tail = _draw_subset_for_update(tail, settings.subset_size, current, key)
        log_ratios = current.estimates.log_ratios
        return tail_gradient(current.learner.policy, log_ratios, trajectories, neighbourhood, tail)

    def step(current: Iterate) -> Iterate:
        """Try one step from θ_h.

        A step inside the trust region is accepted as θ_{h+1}; it ends the epoch if the rate had to be halved before.
        After a step outside, the policy and Adam's moments stay as they were, and the next pass tries half the rate.
        There are at most `MAX_TRIES` tries.
        """
        rate = settings.learning_rate * 0.5**current.backtracks
        candidate = ascend_with_adam(current.learner, gradient_at(current), rate)
        estimates = estimates_of(candidate.policy)
        inside = estimates.kl <= settings.trust_region
        accepted = Iterate(
            candidate,
            estimates,
            iterations=current.iterations + 1,
            backtracks=current.backtracks,
            finished=current.backtracks > 0,
            lost=jnp.array(False),
        )
        backtracks = current.backtracks + 1
        undone = eqx.tree_at(
            lambda iterate: (iterate.backtracks, iterate.finished, iterate.lost),
            current,
            (backtracks, backtracks >= MAX_TRIES, ~jnp.isfinite(estimates.kl)),
        )
        return jax.tree.map(lambda new, old: jnp.where(inside, new, old), accepted, undone)

    entropies = jax.vmap(particle_entropy)(neighbourhood)
    if in_one_pass:
        estimates = estimates_of(learner.policy)
    else:
        estimates = Estimates(jnp.zeros_like(sampling_log_probs), entropies, jnp.array(0.0))
    none, false = jnp.array(0), jnp.array(False)
    start = Iterate(learner, estimates, iterations=none, backtracks=none, finished=false, lost=false)
    # The condition D̂_KL(θ_h) ≤ δ of Algorithm 2 always holds, because `step` undoes all other steps.
    end = jax.lax.while_loop(lambda i: ~i.finished & (i.iterations < settings.max_iterations), step, start)
    tail = partial(tail_of_entropies, tail_size=settings.tail_size, ranked_together=settings.ranked_together)
    return end.learner, _report_of_update(entropies, end, tail, trajectories)


def improve_on_policy(
    learner: Learner, trajectories: Trajectories, neighbourhood: Neighbourhood, settings: OnPolicySettings
) -> tuple[Learner, EpochReport]:
    """Improve the policy by Algorithm 1: one REINFORCE step.

    The step is along (E8') with the baseline b = −VaR_α, and along (E9) without it.
    """
    entropies = jax.vmap(particle_entropy)(neighbourhood)
    gradient = on_policy_gradient(
        learner.policy, trajectories, entropies, tail_size=settings.tail_size, baseline=settings.baseline
    )
    improved = ascend_with_adam(learner, gradient, settings.learning_rate)

    samples = trajectories.perceived, trajectories.actions
    log_ratios = log_probabilities(improved.policy, *samples) - log_probabilities(learner.policy, *samples)
    estimates = Estimates(log_ratios, *estimate_entropies_and_kl(log_ratios, trajectories, neighbourhood))
    end = Iterate(improved, estimates, jnp.array(1), jnp.array(0), finished=jnp.array(True), lost=jnp.array(False))
    return improved, _report_of_update(
        entropies, end, partial(tail_of_entropies, tail_size=settings.tail_size), trajectories
    )


def tail_of_entropies(
    entropies: Float[Array, " minibatches"], tail_size: int, ranked_together: int = 1
) -> Int[Array, " tail"]:
    """Return the numbers of the mini-batches in the tail: the `tail_size` lowest entropies (E7).

    If several mini-batches in a row are ranked together, those with the lowest mean entropies are in the tail (E7').
    """
    if ranked_together == 1:
        return jnp.argsort(entropies)[:tail_size]
    means = entropies.reshape(-1, ranked_together).mean(axis=1)
    lowest = jnp.argsort(means)[: tail_size // ranked_together]
    return (lowest[:, None] * ranked_together + jnp.arange(ranked_together)).ravel()


def ascend_with_adam(learner: Learner, gradient: Policy, rate: Float[Array, ""]) -> Learner:
    """Take one Adam step along the gradient."""
    direction, moments = ADAM.update(gradient, learner.moments)  # pyright: ignore[reportArgumentType]
    policy = jax.tree.map(lambda parameter, change: parameter + rate * change, learner.policy, direction)
    return Learner(policy, moments)


def _update_goes_in_one_pass(policy: Policy, neighbourhood: Neighbourhood, settings: OffPolicySettings) -> bool:
    """Return True if one pass computes the entropies and the gradient together, which must be over all mini-batches."""
    minibatches, particles = neighbourhood.valid.shape
    return settings.subset_size == minibatches and update_may_go_in_one_pass(policy, particles)


def update_may_go_in_one_pass(policy: Policy, particles: int) -> bool:
    """Return True if one pass can compute the entropies and the gradient of mini-batches of this many particles.

    This needs a policy without recurrence or images. The mini-batches must not be much larger than the piece of rows
    that the network processes at once.
    """
    return particles <= 4 * mapped_rows_per_product() and policy.acts_on_rows


def _draw_subset_for_update(
    tail: Int[Array, " tail"], size: int, iterate: Iterate, key: PRNGKeyArray | None
) -> Int[Array, " subset"]:
    if key is None:
        raise ValueError("key: None was given; random subsets of the tail need a random key")
    return jax.random.choice(jax.random.fold_in(key, iterate.iterations), tail, (size,), replace=False)


def _report_of_update(
    entropies: Float[Array, " minibatches"],
    end: Iterate,
    tail_of: Callable[[Float[Array, " minibatches"]], Int[Array, " tail"]],
    trajectories: Trajectories,
) -> EpochReport:
    tail = tail_of(entropies)
    log_weights = estimated_log_weights(end.estimates.log_ratios, trajectories)
    counts = jnp.sum(trajectories.valid, axis=(-1, -2))
    return EpochReport(
        entropies=entropies,
        tail=jnp.zeros(entropies.shape, bool).at[tail].set(True),
        objective=jnp.mean(entropies[tail]),
        objective_after=jnp.mean(end.estimates.entropies[tail_of(end.estimates.entropies)]),
        kl=end.estimates.kl,
        effective_shares=jnp.exp(2 * logsumexp(log_weights, axis=-1) - logsumexp(2 * log_weights, axis=-1)) / counts,
        iterations=end.iterations,
        backtracks=end.backtracks,
        lost=end.lost,
    )
