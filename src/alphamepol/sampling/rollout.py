"""The rollout of one trajectory in a member of a compiled class."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.cmp import CMP, HasPlace
from alphamepol.environments.tasks import Task
from alphamepol.policies.policy import Policy


class Rollout(eqx.Module):
    """The steps of a trajectory, with a leading axis for time; or a single step, without this axis.

    Particles, places and `ended` belong to the state that the action reached.
    """

    perceived: Shaped[Array, "*time inputs"]
    actions: Shaped[Array, "..."]
    particles: Float[Array, "*time features"]
    places: Float[Array, "*time 2"] | None
    rewards: Float[Array, "*time"]
    ended: Bool[Array, "*time"]
    """True if the state that was reached ends the episode."""
    valid: Bool[Array, "*time"]
    states: PyTree[Array] | None = None
    """The states in which the policy acted; None if they were not asked for."""


def rollout(policy: Policy, member: CMP, horizon: int, task: Task | None = None, *, key: PRNGKeyArray) -> Rollout:
    """Act for `horizon` steps in one member. After an early end the state stays the same, and steps are not valid."""
    return _act_in_rollout(policy, member, horizon, task, restart=False, key=key)[0]


def rollout_states(
    policy: Policy, member: CMP, horizon: int, task: Task | None = None, *, key: PRNGKeyArray
) -> Rollout:
    """Act as in `rollout`, and keep the states in which the policy acted."""
    return _act_in_rollout(policy, member, horizon, task, restart=False, keep=True, key=key)[0]


def rollout_episodes(
    policy: Policy, member: CMP, horizon: int, task: Task, *, key: PRNGKeyArray
) -> tuple[Rollout, Shaped[Array, " inputs"]]:
    """Act for `horizon` steps. A new episode follows each one that ends, so every step is valid.

    Returns the steps, and the input of the policy after the last step. If the last step cuts an episode, the value of
    this input stands for the rewards that would have followed.
    """
    return _act_in_rollout(policy, member, horizon, task, restart=True, key=key)


def _act_in_rollout(
    policy: Policy,
    member: CMP,
    horizon: int,
    task: Task | None,
    *,
    restart: bool,
    keep: bool = False,
    key: PRNGKeyArray,
) -> tuple[Rollout, Shaped[Array, " inputs"]]:
    reset_key, steps_key = jax.random.split(key)
    start = member.reset(key=reset_key)

    def act(carry, step_key):
        state, recollection, alive = carry
        action_key, environment_key = jax.random.split(step_key)
        observation = member.observe(state)
        action, remembered = policy.act(observation, recollection, key=action_key)
        moved = member.step(state, action, key=environment_key)
        reached = _choose_in_rollout(alive, moved, state)
        ended, reward = member.ended(reached), jnp.array(0.0)
        if task is not None:
            ended |= task.ended(member, reached)
            reward = jnp.where(alive, task.reward(member, state, action, reached), 0.0)
        perceived = policy.perceive(observation, recollection)
        place = member.place(reached) if isinstance(member, HasPlace) else None
        step = Rollout(
            perceived, action, member.features(reached), place, reward, ended, alive, state if keep else None
        )
        if restart:
            fresh = member.reset(key=jax.random.fold_in(step_key, 2))
            reached, remembered = _choose_in_rollout(ended, (fresh, policy.begin()), (reached, remembered))
        else:
            alive &= ~ended
        return (reached, remembered, alive), step

    alive = jnp.array(True) if restart else ~member.ended(start)
    steps_keys = jax.random.split(steps_key, horizon)
    (end, recollection, _), steps = jax.lax.scan(act, (start, policy.begin(), alive), steps_keys)
    return steps, policy.perceive(member.observe(end), recollection)


def _choose_in_rollout(condition: Bool[Array, ""], one, other):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
