"""Test environments that are stepped one action at a time: the transitions, and the ends of episodes."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from alphamepol import CMP, EnvironmentClass, GaussianPolicy, make
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, SquashedPolicy
from alphamepol.policies.shape import PolicyShape
from alphamepol.sampling.stream import (
    Episode,
    Transitions,
    World,
    begin_stream_episode,
    step_stream,
    stream_observation_with_skill,
)


class Fuse(CMP):
    """An environment that ends after `fuse` steps.

    It shows the number of steps so far, a number drawn at the start, and the last action.
    """

    fuse: Array
    choices: int = eqx.field(static=True, default=0)
    """The number of discrete actions. If it is 0, an action is a number from −0.2 to 0.6."""

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    @property
    def action_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(self.choices) if self.choices else gymnasium.spaces.Box(-0.2, 0.6, (1,))

    @property
    def entropy_ceiling(self) -> float:
        return np.inf

    def reset(self, *, key):
        return jnp.zeros(3).at[1].set(jax.random.uniform(key))

    def step(self, state, action, *, key):
        return jnp.stack([state[0] + 1, state[1], action.astype(float).reshape(())])

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return state[0] >= self.fuse


def class_of(*fuses: int, probabilities=None, choices: int = 0) -> EnvironmentClass:
    members = {f"after {fuse}": Fuse(jnp.array(fuse), choices) for fuse in fuses}
    return EnvironmentClass(members, probabilities)


def world_of(environment_class: EnvironmentClass, horizon: int, skills: int) -> World:
    member = environment_class[0]
    actions = PolicyShape.of_spaces(member.observation_space, member.action_space).actions
    return World(environment_class.members, environment_class.probabilities, actions, horizon, skills)


@eqx.filter_jit
def stream(world: World, actor: Policy, environments: int, steps: int) -> tuple[Episode, Transitions]:
    """Return the episodes before every step, and the transitions, with axes over environments and steps."""

    def one(key):
        def advance(episode, key):
            after, seen = step_stream(world, actor, episode, key=key)
            return after, (episode, seen)

        begin_key, steps_key = jax.random.split(key)
        return jax.lax.scan(advance, begin_stream_episode(world, key=begin_key), jax.random.split(steps_key, steps))[1]

    return jax.vmap(one)(jax.random.split(jax.random.key(0), environments))


def actor_of(world: World) -> SquashedPolicy:
    return SquashedPolicy(3 + world.skills, world.actions, (8,), key=jax.random.key(1))


@pytest.fixture(scope="module")
def cut() -> tuple[Episode, Transitions]:
    """Return the steps of 3000 environments over three horizons of 4 steps. No episode ends by itself."""
    world = world_of(class_of(100, 200, probabilities=[0.8, 0.2]), horizon=4, skills=3)
    return stream(world, actor_of(world), 3000, 12)


def test_a_step_is_one_of_the_member_with_an_action_of_the_actor_told_of_the_skill() -> None:
    environment_class = make("gridworld-slope")
    world = world_of(environment_class, horizon=50, skills=3)
    actor = SquashedPolicy(2 + 3, world.actions, (8,), key=jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), (12, 2))

    @jax.jit
    @jax.vmap
    def first_step(keys):
        episode = begin_stream_episode(world, key=keys[0])
        return episode, *step_stream(world, actor, episode, key=keys[1])

    episodes, after, seen = first_step(keys)
    assert set(episodes.member.tolist()) == {0, 1}
    assert set(episodes.skill.tolist()) == {0, 1, 2}

    @jax.jit
    def by_hand(member, state, skill, key):
        action_key, step_key, _ = jax.random.split(key, 3)
        action, _ = actor.act(jnp.append(state, jnp.eye(3)[skill]), key=action_key)
        return action, member.step(state, action, key=step_key)

    for i in range(12):
        member, state, skill = environment_class[episodes.member[i]], episodes.state[i], episodes.skill[i]
        action, reached = by_hand(member, state, skill, keys[i, 1])
        np.testing.assert_array_equal(seen.observation[i], state)
        np.testing.assert_allclose(seen.reached[i], reached, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(seen.action[i], action / 0.2, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(seen.skill, episodes.skill)
    np.testing.assert_array_equal(after.state, seen.reached)
    np.testing.assert_array_equal(after.member, episodes.member)
    np.testing.assert_array_equal(after.skill, episodes.skill)
    np.testing.assert_array_equal(after.age, 1)
    assert not seen.ended.any()


def test_an_episode_is_cut_at_the_horizon_and_another_begins(cut: tuple[Episode, Transitions]) -> None:
    episodes, seen = cut
    assert not seen.ended.any()
    np.testing.assert_array_equal(episodes.age, np.broadcast_to(np.tile(np.arange(4), 3), (3000, 12)))
    # The steps that the environment counts equal the age, before and after a step. Each episode has a start of its own.
    np.testing.assert_array_equal(seen.observation[..., 0], episodes.age)
    np.testing.assert_array_equal(seen.reached[..., 0], episodes.age + 1)
    starts = np.asarray(seen.observation[..., 1]).reshape(3000, 3, 4)
    assert np.all(starts == starts[..., :1])
    assert np.all(np.diff(starts[..., 0], axis=1) != 0)
    np.testing.assert_array_equal(seen.reached[:, :3], seen.observation[:, 1:4])


def test_member_and_skill_stay_for_an_episode_and_are_drawn_anew_for_the_next(cut: tuple[Episode, Transitions]) -> None:
    episodes, seen = cut
    np.testing.assert_array_equal(seen.skill, episodes.skill)
    members, skills = (np.asarray(part).reshape(3000, 3, 4) for part in (episodes.member, episodes.skill))
    for part in (members, skills):
        assert np.all(part == part[..., :1])
    member, skill = members[..., 0], skills[..., 0]
    # Frequencies of 9000 episodes and of 6000 pairs of an episode and the next one, to six standard deviations.
    assert np.mean(member == 0) == pytest.approx(0.8, abs=6 * np.sqrt(0.16 / 9000))
    counts = np.bincount(skill.ravel(), minlength=3) / 9000
    np.testing.assert_allclose(counts, 1 / 3, atol=6 * np.sqrt(2 / 9 / 9000))
    for part, probabilities in ((member, np.array([0.8, 0.2])), (skill, np.full(3, 1 / 3))):
        size = len(probabilities)
        pairs = np.bincount((size * part[:, :-1] + part[:, 1:]).ravel(), minlength=size**2).reshape(size, size) / 6000
        np.testing.assert_allclose(pairs, np.outer(probabilities, probabilities), atol=6 * np.sqrt(0.25 / 6000))
    # Member and skill are independent of each other, and of the start of the episode.
    both = np.bincount((3 * member + skill).ravel(), minlength=6).reshape(2, 3) / 9000
    np.testing.assert_allclose(both, np.outer([0.8, 0.2], np.full(3, 1 / 3)), atol=6 * np.sqrt(0.2 / 9000))
    start = np.asarray(seen.observation[..., 1])[:, ::4]
    for part in (member, skill):
        assert abs(np.corrcoef(part.ravel(), start.ravel())[0, 1]) < 6 / np.sqrt(9000)


def test_an_episode_that_ends_is_marked_and_another_begins() -> None:
    """One member ends after two steps, and one exactly at the horizon. The third is only cut at the horizon."""
    world = world_of(class_of(2, 5, 100), horizon=5, skills=2)
    episodes, seen = stream(world, actor_of(world), 20, 40)
    member, age = np.asarray(episodes.member), np.asarray(episodes.age)
    ended = ((member == 0) & (age == 1)) | ((member == 1) & (age == 4))
    np.testing.assert_array_equal(seen.ended, ended)
    over = ended | (age == 4)
    np.testing.assert_array_equal(age[:, 1:], np.where(over[:, :-1], 0, age[:, :-1] + 1))
    np.testing.assert_array_equal(seen.observation[..., 0], age)
    assert [set(age[member == number].tolist()) for number in range(3)] == [{0, 1}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}]
    # The last transition of an episode has the state that was reached, not the start of the next episode.
    np.testing.assert_array_equal(seen.reached[..., 0], age + 1)
    np.testing.assert_array_equal(seen.reached[..., 1], seen.observation[..., 1])


def test_actions_are_seen_as_applied_in_units_of_half_their_range() -> None:
    """The actor is not squashed, so it draws actions beyond −0.2 and 0.6. Transitions hold the clipped actions."""
    world = world_of(class_of(100), horizon=50, skills=1)
    _, seen = stream(world, GaussianPolicy(3, 1, (8,), -0.5, key=jax.random.key(1)), 10, 20)
    drawn = np.asarray(seen.reached[..., 2:], float)
    assert drawn.min() < -0.2
    assert drawn.max() > 0.6
    np.testing.assert_allclose(seen.action, (np.clip(drawn, -0.2, 0.6) - 0.2) / 0.4, atol=1e-5)
    assert float(seen.action.min()) == pytest.approx(-1.0)
    assert float(seen.action.max()) == pytest.approx(1.0)


def test_choices_are_seen_one_hot() -> None:
    world = world_of(class_of(100, choices=4), horizon=50, skills=2)
    _, seen = stream(world, CategoricalPolicy(3 + 2, 4, (8,), key=jax.random.key(1)), 10, 20)
    chosen = np.asarray(seen.reached[..., 2]).astype(int)
    assert set(chosen.ravel().tolist()) == {0, 1, 2, 3}
    np.testing.assert_array_equal(seen.action, np.eye(4)[chosen])


def test_a_skill_is_told_one_hot_after_the_observation_unless_it_is_the_only_one() -> None:
    observation = jnp.array([0.5, -2.0])
    np.testing.assert_array_equal(stream_observation_with_skill(observation, jnp.array(2), 4), [0.5, -2.0, 0, 0, 1, 0])
    np.testing.assert_array_equal(stream_observation_with_skill(observation, jnp.array(0), 1), observation)
    pixels = jnp.array([0, 255], jnp.uint8)
    np.testing.assert_array_equal(stream_observation_with_skill(pixels, jnp.array(0), 2), [0, 255, 1, 0])
