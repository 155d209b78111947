"""TRPO: what one iteration's episodes of one task do to its policy and its critic.

Generalised advantages, a natural-gradient step within a trust region, then the critic (docs/method.md, "Fine-tuning").
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from alphamepol.learning.critic import Critic, evaluate_critic, fit_critic
from alphamepol.learning.linearised import linearise
from alphamepol.learning.trust_region import Stepped, TrustRegion, trust_region_step
from alphamepol.mapping import map_rows, rows_per_product
from alphamepol.policies import Policy
from alphamepol.sampling.trajectories import Episodes


class TrpoSettings(eqx.Module):
    """Numbers that only scale something are traced: changing them compiles nothing anew."""

    discount: Float[Array, ""]
    gae_lambda: Float[Array, ""]
    critic_rate: Float[Array, ""]
    region: TrustRegion
    critic_passes: int = eqx.field(static=True, default=5)
    critic_batch: int = eqx.field(static=True, default=512)


class TrpoState(eqx.Module):
    """What lives on from iteration to iteration."""

    policy: Policy
    critic: Critic
    rewarded: Bool[Array, ""]
    """Whether any reward was ever met."""


class TrpoReport(eqx.Module):
    """What an iteration did. The return is of the policy that sampled, the rest of what came of it."""

    mean_return: Float[Array, ""]
    stepped: Stepped
    critic_loss: Float[Array, ""]


def improve(
    state: TrpoState, episodes: Episodes, settings: TrpoSettings, *, key: PRNGKeyArray
) -> tuple[TrpoState, TrpoReport]:
    """One iteration of one task, (T1) to (T5)."""
    values = evaluate_critic(state.critic, episodes.perceived)
    last_values = jax.vmap(state.critic)(episodes.last_perceived)
    advantages = jax.vmap(generalised_advantages, in_axes=(0, 0, 0, 0, None, None))(
        episodes.rewards, episodes.ended, values, last_values, settings.discount, settings.gae_lambda
    )
    # Until the first reward there is nothing to learn, only the fresh critic's noise, which normalising would blow up.
    rewarded = state.rewarded | jnp.any(episodes.rewards != 0)
    policy, stepped = jax.lax.cond(
        rewarded,
        lambda: natural_step(state.policy, episodes, normalise(advantages.ravel()), settings.region),
        lambda: (state.policy, Stepped(*(jnp.array(0.0),) * 3)),
    )
    critic, critic_loss = fit_critic(
        state.critic,
        _flatten(episodes.perceived),
        (advantages + values).ravel(),
        settings.critic_rate,
        passes=settings.critic_passes,
        batch=settings.critic_batch,
        key=key,
    )
    report = TrpoReport(episodes.mean_return, stepped, critic_loss)
    return TrpoState(policy, critic, rewarded), report


def generalised_advantages(
    rewards: Float[Array, " time"],
    ended: Bool[Array, " time"],
    values: Float[Array, " time"],
    last_value: Float[Array, ""],
    discount: Float[Array, ""],
    gae_lambda: Float[Array, ""],
) -> Float[Array, " time"]:
    """(T1) along one trajectory: nothing follows an ended episode, a cut one goes on from `last_value`."""
    goes_on = jnp.where(ended, 0.0, discount)
    surprises = rewards + goes_on * jnp.append(values[1:], last_value) - values

    def then(later, earlier):
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    return jax.lax.associative_scan(then, (goes_on * gae_lambda, surprises), reverse=True)[1]


def normalise(advantages: Float[Array, " rows"], valid: Bool[Array, " rows"] | None = None) -> Float[Array, " rows"]:
    """Mean 0 and deviation 1 over the valid ones; all zero if they are the same up to rounding."""
    deviation = jnp.std(advantages, where=valid)
    largest = jnp.max(jnp.abs(advantages), where=valid, initial=0.0)
    differ = deviation > 1e-6 * largest
    return jnp.where(differ, (advantages - jnp.mean(advantages, where=valid)) / jnp.where(differ, deviation, 1.0), 0.0)


def natural_step(
    policy: Policy, episodes: Episodes, advantages: Float[Array, " rows"], region: TrustRegion
) -> tuple[Policy, Stepped]:
    """(T2) to (T4)."""
    actions = _flatten(episodes.actions)
    network = linearise_policy(policy, episodes)
    old = jax.vmap(policy.head)(network.outputs)
    old_log_probs = jax.vmap(lambda one, action: one.log_prob(action))(old, actions)

    def surrogate(outputs: Float[Array, "rows outputs"], policy: Policy) -> Float[Array, ""]:
        log_probs = jax.vmap(lambda output, action: policy.head(output).log_prob(action))(outputs, actions)
        return jnp.mean(jnp.exp(log_probs - old_log_probs) * advantages)

    def mean_kl(outputs: Float[Array, "rows outputs"], policy: Policy) -> Float[Array, ""]:
        return jnp.mean(jax.vmap(lambda one, output: one.kl(policy.head(output)))(old, outputs))

    here = network.outputs, policy

    def to_gradient(by_outputs: Float[Array, "rows outputs"], by_policy: Policy) -> Policy:
        """The whole gradient, from that by the outputs and that by what the head uses."""
        return jax.tree.map(jnp.add, by_policy, network.pull(by_outputs))

    def fisher_product(tangent: Policy) -> Policy:
        """F v: the Jacobian, the Hessian of the KL by the few outputs, the Jacobian transposed."""
        along = network.push(tangent), tangent
        _, bent = jax.jvp(jax.grad(mean_kl, argnums=(0, 1)), here, along)
        return to_gradient(*bent)

    def judge(candidate: Policy) -> tuple[Float[Array, ""], Float[Array, ""]]:
        outputs = network_outputs(candidate, episodes)
        return mean_kl(outputs, candidate), surrogate(outputs, candidate) - start

    start = surrogate(*here)
    gradient = to_gradient(*jax.grad(surrogate, argnums=(0, 1))(*here))
    return trust_region_step(policy, gradient, fisher_product, judge, region)


class LinearisedPolicy(NamedTuple):
    """A policy's network on all rows of some episodes, around its parameters."""

    outputs: Float[Array, "rows outputs"]
    push: Callable[[Policy], Float[Array, "rows outputs"]]
    """J·v: how the outputs change along a change of the policy."""
    pull: Callable[[Float[Array, "rows outputs"]], Policy]
    """Jᵀ·u: the gradient by the policy of Σ u · outputs."""


def linearise_policy(policy: Policy, episodes: Episodes) -> LinearisedPolicy:
    """With the kept derivatives of `linearise`; what they do not cover, recurrence and images, by differentiation."""
    if policy.trunk is not None or (policy.memory is not None and policy.memory.recurrence is not None):
        outputs, push = jax.linearize(lambda policy: network_outputs(policy, episodes), policy)
        transposed = jax.linear_transpose(push, policy)
        return LinearisedPolicy(outputs, push, lambda cotangent: transposed(cotangent)[0])
    network = linearise(policy.layers, _flatten(episodes.perceived))
    nothing = jax.tree.map(jnp.zeros_like, policy)
    return LinearisedPolicy(
        network.outputs,
        lambda tangent: network.push(tangent.layers),
        lambda cotangent: eqx.tree_at(lambda policy: policy.layers, nothing, network.pull(cotangent)),
    )


def network_outputs(policy: Policy, episodes: Episodes) -> Float[Array, "rows outputs"]:
    """What the head takes at every step, the trajectories one after the other."""
    inputs = _flatten(jax.vmap(policy.network_inputs)(episodes.perceived, episodes.starts))
    return map_rows(policy.network_of_rows, (inputs,), rows_per_product(policy.trunk.pixels if policy.trunk else 0))


def _flatten(leaf: Shaped[Array, "trajectories time ..."]) -> Shaped[Array, "rows ..."]:
    return leaf.reshape(-1, *leaf.shape[2:])
