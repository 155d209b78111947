"""Test tasks: their rewards, their ends, and the places where goals may be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol import InputError, make
from alphamepol.environments.member_tasks import goal_task_at, random_goal_tasks
from alphamepol.environments.tasks import Goal, HalfSpace, RewardFunction, stack_tasks

NOWHERE = jnp.zeros(2)


@pytest.fixture(scope="module")
def member():
    return make("gridworld-slope")["GWN"]


@pytest.mark.parametrize(
    ("place", "inside"), [((0.5, 0.5), True), ((0.59, 0.5), True), ((0.57, 0.57), True), ((0.61, 0.5), False)]
)
def test_a_goal_is_a_ball(member, place, inside) -> None:
    task = Goal((0.5, 0.5), radius=0.1)
    reached = jnp.array(place)
    assert bool(task.ended(member, reached)) is inside
    assert float(task.reward(member, NOWHERE, NOWHERE, reached)) == float(inside)


@pytest.mark.parametrize(("x", "beyond"), [(0.31, True), (0.3, True), (0.29, False)])
def test_a_half_space_is_what_lies_beyond_a_line(member, x, beyond) -> None:
    task = HalfSpace((2.0, 0.0), 0.6)
    reached = jnp.array([x, -0.9])
    assert bool(task.ended(member, reached)) is beyond
    assert float(task.reward(member, NOWHERE, NOWHERE, reached)) == float(beyond)


def test_a_function_of_ones_own_sees_the_step(member) -> None:
    task = RewardFunction(lambda state, action, reached: reached[0] - state[0] - action[1])
    reward = task.reward(member, jnp.array([0.1, 0.0]), jnp.array([0.0, 0.2]), jnp.array([0.4, 0.0]))
    assert float(reward) == pytest.approx(0.1)
    assert not task.ended(member, NOWHERE)
    ending = RewardFunction(lambda *_: 1.0, end=lambda reached: reached[1] < 0)
    assert ending.ended(member, jnp.array([0.0, -0.1]))
    assert not ending.ended(member, jnp.array([0.0, 0.1]))


def test_random_goals_are_uniform_over_free_space(member) -> None:
    places = np.stack([goal.place for goal in random_goal_tasks(member, 2000, key=jax.random.key(0))])
    assert not jax.vmap(member.is_wall)(jnp.array(places)).any()
    assert np.abs(places).max() <= 1
    cells = np.floor((places + 1) / 0.2).astype(int)
    counts = np.zeros((10, 10))
    np.add.at(counts, (9 - cells[:, 1], cells[:, 0]), 1)
    free = ~np.asarray(member.walls)
    assert counts[~free].sum() == 0
    # Each of the 72 free cells has 27.8 goals on average. This is a chi-square test with 71 degrees of freedom.
    expected = 2000 / free.sum()
    assert np.sum((counts[free] - expected) ** 2 / expected) < 71 + 4 * np.sqrt(2 * 71)


def test_the_same_key_gives_the_same_goals_in_members_of_the_same_map() -> None:
    environment_class = make("gridworld-slope")
    first, second = (
        [goal.describe() for goal in random_goal_tasks(environment_class[name], 5, key=jax.random.key(7))]
        for name in ("GWS", "GWN")
    )
    assert first == second
    assert first != [goal.describe() for goal in random_goal_tasks(environment_class["GWS"], 5, key=jax.random.key(8))]


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ((0.0, 0.0), "goal: 0 0 was given, which is inside a wall"),
        ((1.5, 0.0), "goal: 1.5 0 was given, which is outside the square"),
        ((float("nan"), 0.0), "outside the square"),
        ((0.1, 0.2, 0.3), "which has 3 coordinates; a place in a gridworld has 2"),
    ],
)
def test_impossible_goals_are_refused(member, place, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        goal_task_at(member, place)


def test_tasks_of_different_kinds_are_refused() -> None:
    with pytest.raises(InputError, match="differ in kind"):
        stack_tasks([Goal((0.0, 0.0)), HalfSpace((1.0, 0.0), 0.5)])
    with pytest.raises(InputError, match="such as their functions"):
        stack_tasks([RewardFunction(lambda *_: 0.0), RewardFunction(lambda *_: 1.0)])
    with pytest.raises(InputError, match="differ in the shapes"):
        stack_tasks([Goal((0.0, 0.0)), Goal((0.0, 0.0, 0.0))])
    with pytest.raises(InputError, match="none was given"):
        stack_tasks([])
