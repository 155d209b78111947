"""Environments stepped one action at a time, for learners that learn after every few steps.

Each is in an episode of its own, in a member drawn from p_M and with a skill drawn uniformly, both anew for every
episode. A skill is a number that the policy is told of; with one skill it is told nothing.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import draw_members_of_class
from alphamepol.policies.memory import ActionRange
from alphamepol.policies.policy import Policy


class World(eqx.Module):
    """A class of environments, and for how long and with how many skills they are acted in."""

    members: CMP
    """Stacked."""
    probabilities: tuple[float, ...] = eqx.field(static=True)
    actions: ActionRange = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    skills: int = eqx.field(static=True)

    def member(self, number: Int[Array, ""]) -> CMP:
        return jax.tree.map(lambda leaf: leaf[number], self.members)


class Episode(eqx.Module):
    """Where one environment stands; with a leading axis, several."""

    member: Int[Array, "*environments"]
    state: PyTree[Array]
    skill: Int[Array, "*environments"]
    age: Int[Array, "*environments"]


class Transitions(eqx.Module):
    """One step; with a leading axis, several."""

    observation: Shaped[Array, "*rows observation"]
    skill: Int[Array, "*rows"]
    action: Float[Array, "*rows numbers"]
    """In units of half its range, from its middle; one-hot if it is a choice."""
    reached: Shaped[Array, "*rows observation"]
    """What is observed after it."""
    ended: Bool[Array, "*rows"]
    """Whether nothing can follow; at the horizon an episode is only cut."""


def begin_stream_episode(world: World, *, key: PRNGKeyArray) -> Episode:
    """A new episode."""
    member_key, skill_key, reset_key = jax.random.split(key, 3)
    member = draw_members_of_class(world.probabilities, 1, key=member_key)[0]
    skill = jax.random.randint(skill_key, (), 0, world.skills)
    return Episode(member, world.member(member).reset(key=reset_key), skill, jnp.zeros((), jnp.int32))


def step_stream(world: World, actor: Policy, episode: Episode, *, key: PRNGKeyArray) -> tuple[Episode, Transitions]:
    """One action in one environment; a new episode takes the place of one that is over."""
    action_key, step_key, begin_key = jax.random.split(key, 3)
    member = world.member(episode.member)
    observation = member.observe(episode.state).ravel()
    outputs = actor.network(stream_observation_with_skill(observation, episode.skill, world.skills))
    action = actor.head(outputs).sample(key=action_key)
    state = member.step(episode.state, action, key=step_key)
    ended, age = member.ended(state), episode.age + 1
    within = world.actions.apply(action) / jnp.array(world.actions.half_ranges)
    seen = Transitions(observation, episode.skill, within, member.observe(state).ravel(), ended)
    goes_on = Episode(episode.member, state, episode.skill, age)
    over = ended | (age >= world.horizon)
    fresh = begin_stream_episode(world, key=begin_key)
    return jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, goes_on), seen


def stream_observation_with_skill(
    observation: Shaped[Array, " observation"], skill: Int[Array, ""], skills: int
) -> Shaped[Array, " inputs"]:
    """An observation and the skill, one-hot, after it; nothing is told of the only skill."""
    if skills == 1:
        return observation
    return jnp.concatenate([observation, jax.nn.one_hot(skill, skills)])
