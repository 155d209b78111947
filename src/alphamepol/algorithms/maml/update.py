"""The update of MAML: improve a policy so that one policy-gradient step makes it good at any task.

The inner step adapts the policy to each task. The outer step is a trust-region step of the policy before the inner
step; its derivatives go through the inner step (docs/method.md, "MAML").
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from alphamepol.algorithms.advantages import generalised_advantages, normalise_advantages
from alphamepol.algorithms.maml.baseline import maml_linear_baseline
from alphamepol.algorithms.trust_region import Stepped, TrustRegion, trust_region_step
from alphamepol.compute.mapping import map_rows, mapped_rows_per_product
from alphamepol.environments.cmp import CMP
from alphamepol.environments.tasks import Task
from alphamepol.policies.distributions import Distribution
from alphamepol.policies.policy import Policy
from alphamepol.sampling.rollout import rollout


class MamlSettings(eqx.Module):
    """The settings of the update. Numbers that only scale are traced, so that other values compile nothing anew."""

    inner_rate: Float[Array, ""]
    discount: Float[Array, ""]
    region: TrustRegion
    first_order: bool = eqx.field(static=True, default=False)
    """Ignore that the gradient of the inner step depends on the policy before the step."""


class Experience(eqx.Module):
    """The episodes of one task, one per trajectory. Leading axes stack several tasks."""

    perceived: Shaped[Array, "*tasks trajectories time inputs"]
    actions: Shaped[Array, "..."]
    advantages: Float[Array, "*tasks trajectories time"]
    """The advantages, with mean 0 and standard deviation 1 over the valid steps."""
    valid: Bool[Array, "*tasks trajectories time"]
    """False for the steps after an early end of the episode."""
    mean_return: Float[Array, "*tasks"]
    """The mean of the undiscounted returns."""


def experience_for_maml_update(
    policy: Policy,
    member: CMP,
    task: Task,
    discount: Float[Array, ""],
    *,
    trajectories: int,
    horizon: int,
    key: PRNGKeyArray,
) -> Experience:
    """Collect `trajectories` episodes of a task.

    The advantage of a step is its return minus the return that the linear baseline predicts (A1).
    """
    where = task.set_up(member)
    assert isinstance(where, CMP)
    one = jax.vmap(lambda key: rollout(policy, where, horizon, task, key=key))
    steps = one(jax.random.split(key, trajectories))
    rewards = jnp.where(steps.valid, steps.rewards, 0.0)
    nothing = jnp.zeros(())
    # With values of 0 and λ = 1, generalised advantages are discounted returns.
    returns = jax.vmap(
        lambda rewards, ended: generalised_advantages(
            rewards, ended, jnp.zeros_like(rewards), nothing, discount, jnp.ones(())
        )
    )(rewards, steps.ended)
    # Single pixels say nothing about the return. For images, the baseline uses what memory adds, and the time.
    pixels = 0 if policy.trunk is None else policy.trunk.pixels
    advantages = returns - maml_linear_baseline(steps.perceived[..., pixels:], returns, steps.valid)
    # Only rounding is left where the baseline predicts the whole return. Normalising would magnify this rounding.
    counts = jnp.abs(advantages) > 1e-5 * jnp.max(jnp.abs(returns))
    advantages = jnp.where(steps.valid & counts, advantages, 0.0)
    normalised = normalise_advantages(advantages.ravel(), steps.valid.ravel()).reshape(advantages.shape)
    normalised = jnp.where(steps.valid, normalised, 0.0)
    return Experience(steps.perceived, steps.actions, normalised, steps.valid, jnp.mean(jnp.sum(rewards, axis=-1)))


def adapt_by_maml_inner_step(policy: Policy, samples: Experience, settings: MamlSettings) -> Policy:
    """Return the policy after the inner step (A2), which is one step of policy gradient."""

    def objective(policy: Policy) -> Float[Array, ""]:
        return _mean_in_maml_update(
            log_probs_in_maml_update(behaviour_in_maml_update(policy, samples), samples) * samples.advantages,
            samples.valid,
        )

    gradient = jax.grad(objective)(policy)
    if settings.first_order:
        gradient = jax.lax.stop_gradient(gradient)
    return jax.tree.map(lambda parameter, change: parameter + settings.inner_rate * change, policy, gradient)


def maml_outer_step(
    policy: Policy, before: Experience, after: Experience, settings: MamlSettings
) -> tuple[Policy, Stepped]:
    """Take the outer step (A3).

    **Arguments**

    - `policy`: the policy before the inner step, which is improved.
    - `before`: the experience for the inner step of each task, sampled with `policy` and stacked over tasks.
    - `after`: the experience that the adapted policy of each task sampled, stacked over tasks.
    - `settings`: the settings of the update.
    """

    def adapted_behaviour(policy: Policy) -> Distribution:
        """Return the distribution of actions of each adapted policy at every step of `after`."""
        return jax.vmap(
            lambda before, after: behaviour_in_maml_update(adapt_by_maml_inner_step(policy, before, settings), after)
        )(before, after)

    # The Fisher matrix is the curvature of the mean KL divergence at the old policy. There it only needs the curvature
    # by the distributions and the first derivative of the adapted behaviour. So nothing is differentiated three times.
    old, push = jax.linearize(adapted_behaviour, policy)
    pull = jax.linear_transpose(push, policy)
    old_log_probs = jax.vmap(log_probs_in_maml_update)(old, after)

    def surrogate(new: Distribution) -> Float[Array, ""]:
        ratios = jnp.exp(jax.vmap(log_probs_in_maml_update)(new, after) - old_log_probs)
        return jnp.mean(jax.vmap(_mean_in_maml_update)(ratios * after.advantages, after.valid))

    def mean_kl(new: Distribution) -> Float[Array, ""]:
        divergences = jax.vmap(jax.vmap(jax.vmap(lambda one, other: one.kl(other))))(old, new)
        return jnp.mean(jax.vmap(_mean_in_maml_update)(divergences, after.valid))

    def fisher_product(tangent: Policy) -> Policy:
        return pull(jax.jvp(jax.grad(mean_kl), (old,), (push(tangent),))[1])[0]

    def judge(candidate: Policy) -> tuple[Float[Array, ""], Float[Array, ""]]:
        new = adapted_behaviour(candidate)
        return mean_kl(new), surrogate(new) - start

    start = surrogate(old)
    return trust_region_step(policy, pull(jax.grad(surrogate)(old))[0], fisher_product, judge, settings.region)


def behaviour_in_maml_update(policy: Policy, samples: Experience) -> Distribution:
    """Return the distribution of actions at every step."""
    inputs = jax.vmap(policy.network_inputs)(samples.perceived)
    rows = inputs.reshape(-1, inputs.shape[-1])
    if policy.trunk is None:
        outputs = policy.network_of_rows(rows)
    else:
        # Convolutions need many times the memory of their inputs. So the rows are mapped piece by piece, and hidden
        # values are computed again for derivatives.
        network = jax.checkpoint(lambda rows: policy.network_of_rows(rows), prevent_cse=False)
        outputs = map_rows(network, (rows,), mapped_rows_per_product(policy.trunk.pixels))
    return jax.vmap(jax.vmap(policy.head))(outputs.reshape(*inputs.shape[:-1], -1))


def log_probs_in_maml_update(rows: Distribution, samples: Experience) -> Float[Array, "trajectories time"]:
    return jax.vmap(jax.vmap(lambda one, action: one.log_prob(action)))(rows, samples.actions)


def _mean_in_maml_update(
    values: Float[Array, "trajectories time"], valid: Bool[Array, "trajectories time"]
) -> Float[Array, ""]:
    """Return the mean over the valid steps."""
    return jnp.sum(jnp.where(valid, values, 0.0)) / jnp.maximum(jnp.sum(valid), 1)
