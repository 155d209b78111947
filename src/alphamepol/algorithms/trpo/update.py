"""The update of TRPO: improve the policy and the critic of one task with the episodes of one iteration.

The update computes generalised advantages, takes a natural-gradient step within a trust region, and then fits the
critic (docs/method.md, "Fine-tuning").
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from alphamepol.algorithms.advantages import generalised_advantages, normalise_advantages
from alphamepol.algorithms.trpo.critic import Critic, evaluate_critic, fit_critic
from alphamepol.algorithms.trpo.linearised import (
    flatten_steps_to_linearise,
    linearise_policy,
    network_outputs_to_linearise,
)
from alphamepol.algorithms.trust_region import Stepped, TrustRegion, trust_region_step
from alphamepol.policies.policy import Policy
from alphamepol.sampling.trajectories import Episodes


class TrpoSettings(eqx.Module):
    """The settings of the update. Fields that are arrays are traced: other values need no new compilation."""

    discount: Float[Array, ""]
    gae_lambda: Float[Array, ""]
    critic_rate: Float[Array, ""]
    region: TrustRegion
    critic_passes: int = eqx.field(static=True, default=5)
    critic_batch: int = eqx.field(static=True, default=512)
    fit_returns: bool = eqx.field(static=True, default=False)
    """True if the critic is fitted to discounted returns, otherwise to advantages plus values."""


class TrpoState(eqx.Module):
    """The state of one task between iterations."""

    policy: Policy
    critic: Critic
    rewarded: Bool[Array, ""]
    """True if the task has given a reward other than 0 in this or an earlier iteration."""


class TrpoReport(NamedTuple):
    """The report of one iteration."""

    kl: Float[Array, ""]
    improvement: Float[Array, ""]
    """The improvement of the surrogate objective."""
    step: Float[Array, ""]
    """The fraction of the full step that was taken."""
    critic_loss: Float[Array, ""]


def improve_by_trpo(
    state: TrpoState, episodes: Episodes, settings: TrpoSettings, *, key: PRNGKeyArray
) -> tuple[TrpoState, TrpoReport]:
    """Improve the policy and the critic of one task by one iteration, (T1) to (T5)."""
    values = evaluate_critic(state.critic, episodes.perceived)
    last_values = jax.vmap(state.critic)(episodes.last_perceived)
    advantages_of = jax.vmap(generalised_advantages, in_axes=(0, 0, 0, 0, None, None))
    steps = episodes.rewards, episodes.ended, values, last_values, settings.discount
    advantages = advantages_of(*steps, settings.gae_lambda)
    # With λ = 1, the advantage plus the value is the discounted return.
    fitted = advantages_of(*steps, jnp.array(1.0)) if settings.fit_returns else advantages
    # Before the first reward the policy stays as it is. The advantages are then only the noise of the fresh critic, and
    # normalising would amplify this noise.
    rewarded = state.rewarded | jnp.any(episodes.rewards != 0)
    policy, stepped = jax.lax.cond(
        rewarded,
        lambda: natural_step_of_trpo(state.policy, episodes, normalise_advantages(advantages.ravel()), settings.region),
        lambda: (state.policy, Stepped(*(jnp.array(0.0),) * 3)),
    )
    critic, critic_loss = fit_critic(
        state.critic,
        flatten_steps_to_linearise(episodes.perceived),
        (fitted + values).ravel(),
        settings.critic_rate,
        passes=settings.critic_passes,
        batch=settings.critic_batch,
        key=key,
    )
    return TrpoState(policy, critic, rewarded), TrpoReport(
        stepped.kl, stepped.improvement, stepped.fraction, critic_loss
    )


def natural_step_of_trpo(
    policy: Policy, episodes: Episodes, advantages: Float[Array, " rows"], region: TrustRegion
) -> tuple[Policy, Stepped]:
    """Take a natural-gradient step within the trust region, (T2) to (T4)."""
    actions = flatten_steps_to_linearise(episodes.actions)
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
        """Return the whole gradient by the policy: through the network's outputs, and through the head directly."""
        return jax.tree.map(jnp.add, by_policy, network.pull(by_outputs))

    def fisher_product(tangent: Policy) -> Policy:
        """Return F v: apply the Jacobian, the Hessian of the KL by the few outputs, and the transposed Jacobian."""
        along = network.push(tangent), tangent
        _, bent = jax.jvp(jax.grad(mean_kl, argnums=(0, 1)), here, along)
        return to_gradient(*bent)

    def judge(candidate: Policy) -> tuple[Float[Array, ""], Float[Array, ""]]:
        outputs = network_outputs_to_linearise(candidate, episodes)
        return mean_kl(outputs, candidate), surrogate(outputs, candidate) - start

    start = surrogate(*here)
    gradient = to_gradient(*jax.grad(surrogate, argnums=(0, 1))(*here))
    return trust_region_step(policy, gradient, fisher_product, judge, region)
