"""Test trajectories: their contents, early ends, and the same bits for the same key."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from alphamepol import CMP, EnvironmentClass, GaussianPolicy, make
from alphamepol.environments.tasks import Goal, RewardFunction, stack_tasks
from alphamepol.sampling.compiled_sampler import collect_compiled, collect_compiled_episodes
from alphamepol.sampling.rollout import rollout, rollout_episodes

pytestmark = pytest.mark.quick


class Countdown(CMP):
    """A walk by the action, which ends after `fuse` steps."""

    fuse: Array

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    @property
    def entropy_ceiling(self) -> float:
        return np.inf

    def reset(self, *, key):
        return jnp.zeros(2), jnp.array(0)

    def step(self, state, action, *, key):
        return state[0] + action, state[1] + 1

    def observe(self, state):
        return state[0]

    def features(self, state):
        return state[0]

    def ended(self, state):
        return state[1] >= self.fuse


@pytest.fixture(scope="module")
def policy() -> GaussianPolicy:
    return GaussianPolicy(2, 2, (8,), key=jax.random.key(0))


def test_particles_are_the_states_reached(policy: GaussianPolicy) -> None:
    steps = rollout(policy, Countdown(jnp.array(100)), 20, key=jax.random.key(1))
    np.testing.assert_allclose(steps.perceived[0], 0.0)
    np.testing.assert_allclose(steps.particles, steps.perceived + steps.actions, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(steps.particles[:-1], steps.perceived[1:])
    assert steps.valid.all()


def test_after_an_early_end_the_state_stands_still_and_steps_are_not_valid(policy: GaussianPolicy) -> None:
    steps = rollout(policy, Countdown(jnp.array(7)), 20, key=jax.random.key(1))
    assert steps.valid.tolist() == [True] * 7 + [False] * 13
    np.testing.assert_array_equal(steps.particles[7:], np.broadcast_to(steps.particles[6], (13, 2)))


def test_collect_stacks_what_single_rollouts_give(policy: GaussianPolicy) -> None:
    environment_class = EnvironmentClass({"short": Countdown(jnp.array(3)), "long": Countdown(jnp.array(9))})
    policies = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), policy)
    members = jnp.array([[0, 1, 1], [1, 0, 0]])
    keys = jax.random.split(jax.random.key(2), 2)
    found = collect_compiled(policies, environment_class, members, batch=4, horizon=12, keys=keys)
    assert found.particles.shape == (2, 3, 4, 12, 2)
    assert found.valid.sum(axis=-1).tolist() == [[[3] * 4, [9] * 4, [9] * 4], [[9] * 4, [3] * 4, [3] * 4]]
    np.testing.assert_array_equal(found.members, members)
    key = jax.random.split(keys[1], (3, 4))[0, 2]
    alone = rollout(jax.tree.map(lambda leaf: leaf[1], policies), environment_class[1], 12, key=key)
    np.testing.assert_allclose(found.particles[1, 0, 2], alone.particles, rtol=1e-5, atol=1e-6)


def test_same_key_same_bits_other_key_other_bits(policy: GaussianPolicy) -> None:
    environment_class = make("gridworld-slope")
    policies = jax.tree.map(lambda leaf: leaf[None], policy)
    members = jnp.zeros((1, 2), int)
    keys = jax.random.split(jax.random.key(3), (2, 1))
    first, again, other = (
        collect_compiled(policies, environment_class, members, batch=2, horizon=10, keys=key)
        for key in (keys[0], keys[0], keys[1])
    )
    np.testing.assert_array_equal(first.particles, again.particles)
    assert not np.array_equal(first.particles, other.particles)


def test_an_ended_episode_is_replaced_so_that_every_step_counts(policy: GaussianPolicy) -> None:
    """In 20 steps, two episodes of 7 steps end. The third is cut, and would go on from the last observation."""
    nothing = RewardFunction(lambda *_: 0.0)
    steps, last = rollout_episodes(policy, Countdown(jnp.array(7)), 20, nothing, key=jax.random.key(1))
    assert steps.valid.all()
    assert np.flatnonzero(steps.ended).tolist() == [6, 13]
    starts = np.flatnonzero(np.all(steps.perceived == 0, axis=1)).tolist()
    assert starts == [0, 7, 14]
    within = ~np.asarray(steps.ended)[:-1]
    np.testing.assert_array_equal(steps.particles[:-1][within], steps.perceived[1:][within])
    np.testing.assert_array_equal(last, steps.particles[-1])


def test_a_task_rewards_and_ends_beside_the_member(policy: GaussianPolicy) -> None:
    task = RewardFunction(lambda state, action, reached: reached[1] + 0.5, end=lambda reached: reached[1] == 3)
    steps, _ = rollout_episodes(policy, Countdown(jnp.array(100)), 8, task, key=jax.random.key(1))
    np.testing.assert_allclose(steps.rewards, [1.5, 2.5, 3.5, 1.5, 2.5, 3.5, 1.5, 2.5])
    assert np.flatnonzero(steps.ended).tolist() == [2, 5]
    alone = rollout(policy, Countdown(jnp.array(100)), 8, task, key=jax.random.key(1))
    np.testing.assert_allclose(alone.rewards, [1.5, 2.5, 3.5, 0, 0, 0, 0, 0])
    assert alone.valid.tolist() == [True] * 3 + [False] * 5


def test_collected_episodes_are_those_of_each_task(policy: GaussianPolicy) -> None:
    member = make("gridworld-slope")["GWS"]
    tasks = stack_tasks([Goal((-0.7, 0.7), 0.4), Goal((0.9, -0.9), 0.01)])
    policies = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), policy)
    keys = jax.random.split(jax.random.key(4), 2)
    found = collect_compiled_episodes(policies, member, tasks, trajectories=5, horizon=30, keys=keys)
    assert found.perceived.shape == (2, 5, 30, 2)
    assert found.ended[0].any()
    assert not found.ended[1].any()
    np.testing.assert_array_equal(found.rewards, found.ended.astype(float))
    one = jax.tree.map(lambda leaf: leaf[0], tasks)
    alone, last = rollout_episodes(policy, member, 30, one, key=jax.random.split(keys[0], 5)[3])
    np.testing.assert_allclose(found.perceived[0, 3], alone.perceived, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.last_perceived[0, 3], last, rtol=1e-5, atol=1e-6)
