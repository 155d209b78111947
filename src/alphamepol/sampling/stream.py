"""Environments that are stepped one action at a time, for algorithms that learn after every few steps.

Each environment has its own episode. Every episode has a member, drawn from p_M, and a skill, drawn uniformly. A skill
is a number that the policy gets as an input; if there is only one skill, the policy does not get it.
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
    """A class of environments, with the horizon of an episode and the number of skills."""

    members: CMP
    """The members, stacked along a leading axis."""
    probabilities: tuple[float, ...] = eqx.field(static=True)
    actions: ActionRange = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    skills: int = eqx.field(static=True)

    def member(self, number: Int[Array, ""]) -> CMP:
        return jax.tree.map(lambda leaf: leaf[number], self.members)


class Episode(eqx.Module):
    """The current episode of one environment; with a leading axis, of several."""

    member: Int[Array, "*environments"]
    state: PyTree[Array]
    skill: Int[Array, "*environments"]
    age: Int[Array, "*environments"]
    """The number of steps since the episode began."""


class Transitions(eqx.Module):
    """One step of an environment; with a leading axis, several steps."""

    observation: Shaped[Array, "*rows observation"]
    skill: Int[Array, "*rows"]
    action: Float[Array, "*rows numbers"]
    """The action from the middle of its range, in units of half the range; one-hot if it is a choice."""
    reached: Shaped[Array, "*rows observation"]
    """The observation after the step."""
    ended: Bool[Array, "*rows"]
    """True if the step ended the episode. An episode that is cut at the horizon has not ended."""


def begin_stream_episode(world: World, *, key: PRNGKeyArray) -> Episode:
    """Begin a new episode: draw its member, its skill and its initial state."""
    member_key, skill_key, reset_key = jax.random.split(key, 3)
    member = draw_members_of_class(world.probabilities, 1, key=member_key)[0]
    skill = jax.random.randint(skill_key, (), 0, world.skills)
    return Episode(member, world.member(member).reset(key=reset_key), skill, jnp.zeros((), jnp.int32))


def step_stream(world: World, actor: Policy, episode: Episode, *, key: PRNGKeyArray) -> tuple[Episode, Transitions]:
    """Take one action in one environment. A new episode follows one that is over."""
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
    """Append the skill to an observation as a one-hot vector. If there is only one skill, nothing is appended."""
    if skills == 1:
        return observation
    return jnp.concatenate([observation, jax.nn.one_hot(skill, skills)])
