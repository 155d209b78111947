"""MAML: a policy from which one step of policy gradient leads to a good one, whatever the task.

An inner step per task, then a trust-region step of the policy before it, through it (docs/method.md, "MAML").
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
    """Numbers that only scale something are traced: changing them compiles nothing anew."""

    inner_rate: Float[Array, ""]
    discount: Float[Array, ""]
    region: TrustRegion
    first_order: bool = eqx.field(static=True, default=False)
    """Leave out how the inner step depends on where it starts."""


class Experience(eqx.Module):
    """Episodes of one task, one per trajectory; with leading axes, of several."""

    perceived: Shaped[Array, "*tasks trajectories time inputs"]
    actions: Shaped[Array, "..."]
    advantages: Float[Array, "*tasks trajectories time"]
    """Of mean 0 and deviation 1 over the valid steps."""
    valid: Bool[Array, "*tasks trajectories time"]
    """Steps after an early end are not."""
    mean_return: Float[Array, "*tasks"]
    """Undiscounted."""


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
    """Do a task some times; the advantage of a step is its return less what the linear baseline expects (A1)."""
    where = task.set_up(member)
    assert isinstance(where, CMP)
    one = jax.vmap(lambda key: rollout(policy, where, horizon, task, key=key))
    steps = one(jax.random.split(key, trajectories))
    rewards = jnp.where(steps.valid, steps.rewards, 0.0)
    nothing = jnp.zeros(())
    # With values of 0 and λ = 1 these are the discounted returns.
    returns = jax.vmap(
        lambda rewards, ended: generalised_advantages(
            rewards, ended, jnp.zeros_like(rewards), nothing, discount, jnp.ones(())
        )
    )(rewards, steps.ended)
    # Pixels are no measure of anything: of an image the baseline takes what memory adds, and the time.
    pixels = 0 if policy.trunk is None else policy.trunk.pixels
    advantages = returns - maml_linear_baseline(steps.perceived[..., pixels:], returns, steps.valid)
    # Where the baseline expects everything, what is left is rounding, which normalising would blow up.
    counts = jnp.abs(advantages) > 1e-5 * jnp.max(jnp.abs(returns))
    advantages = jnp.where(steps.valid & counts, advantages, 0.0)
    normalised = normalise_advantages(advantages.ravel(), steps.valid.ravel()).reshape(advantages.shape)
    normalised = jnp.where(steps.valid, normalised, 0.0)
    return Experience(steps.perceived, steps.actions, normalised, steps.valid, jnp.mean(jnp.sum(rewards, axis=-1)))


def adapt_by_maml_inner_step(policy: Policy, samples: Experience, settings: MamlSettings) -> Policy:
    """(A2): the inner step, one of policy gradient."""

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
    """(A3): the outer step.

    **Arguments**

    - `before`: what each task's inner step is made of, sampled with `policy`.
    - `after`: what each adapted policy then sampled. Both are stacked over tasks.
    """

    def adapted_behaviour(policy: Policy) -> Distribution:
        """At every step of `after`: the actions of the policy that was adapted to the task."""
        return jax.vmap(
            lambda before, after: behaviour_in_maml_update(adapt_by_maml_inner_step(policy, before, settings), after)
        )(before, after)

    # Of the tasks' KL divergences only the curvature at 0 counts, and there it is that of the distributions, seen
    # through the derivative of the adapted behaviour: nothing is differentiated a third time.
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
    """The distribution of actions at every step."""
    inputs = jax.vmap(policy.network_inputs)(samples.perceived)
    rows = inputs.reshape(-1, inputs.shape[-1])
    if policy.trunk is None:
        outputs = policy.network_of_rows(rows)
    else:
        # Convolutions keep many times what they are given: piece by piece, and computed again for derivatives.
        network = jax.checkpoint(lambda rows: policy.network_of_rows(rows), prevent_cse=False)
        outputs = map_rows(network, (rows,), mapped_rows_per_product(policy.trunk.pixels))
    return jax.vmap(jax.vmap(policy.head))(outputs.reshape(*inputs.shape[:-1], -1))


def log_probs_in_maml_update(rows: Distribution, samples: Experience) -> Float[Array, "trajectories time"]:
    return jax.vmap(jax.vmap(lambda one, action: one.log_prob(action)))(rows, samples.actions)


def _mean_in_maml_update(
    values: Float[Array, "trajectories time"], valid: Bool[Array, "trajectories time"]
) -> Float[Array, ""]:
    """Over the valid steps."""
    return jnp.sum(jnp.where(valid, values, 0.0)) / jnp.maximum(jnp.sum(valid), 1)
