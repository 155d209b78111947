"""The tasks of a member: goals in its free space, and the check that tasks fit it."""

import math
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from alphamepol.environments.cmp import CMP, HasCells, HasFreeSpace, Member
from alphamepol.environments.host import HostMember
from alphamepol.environments.tasks import GOAL_RADIUS, EnvironmentReward, Goal, GoalCell, Task, stack_tasks
from alphamepol.errors import InputError


def random_goal_tasks(member: Member, count: int, *, key: PRNGKeyArray, radius: float = GOAL_RADIUS) -> list[Task]:
    """Draw goals uniformly from the member's free space. The same key gives the same goals."""
    if not isinstance(member, HasFreeSpace):
        raise InputError("task: this member has no tasks of its own, and no goals can be drawn in it; give --goals")
    places = jax.vmap(lambda key: member.draw_place(key=key))(jax.random.split(key, count))
    return [goal_task_at(member, place.tolist(), radius) for place in places]


class GoalTasks(eqx.Module):
    """A function that draws a random task: a goal that is uniform over the free space of a member.

    It is for members written in JAX, and can be compiled.
    """

    example: Goal | GoalCell

    def __init__(self, member: Member, radius: float = GOAL_RADIUS):
        (example,) = random_goal_tasks(member, 1, key=jax.random.key(0), radius=radius)
        assert isinstance(example, Goal | GoalCell)
        self.example = example

    def __call__(self, member: Member, *, key: PRNGKeyArray) -> Task:
        assert isinstance(member, HasFreeSpace)
        place = member.draw_place(key=key).astype(self.example.place.dtype)
        return eqx.tree_at(lambda task: task.place, self.example, place)


def goal_task_at(member: Member, place: Sequence[float | int], radius: float = GOAL_RADIUS) -> Task:
    """Return the task of reaching a place.

    The task is a `GoalCell` if the member has cells, else a `Goal` with a radius. Raises an `InputError` if there can
    be no goal at this place, or if the radius is not positive and finite.
    """
    reason = member.explain_no_place(place) if isinstance(member, HasFreeSpace) else None
    if reason is not None:
        raise InputError(f"goal: {' '.join(f'{value:g}' for value in place)} was given, {reason}")
    if not (math.isfinite(radius) and radius > 0):
        raise InputError(f"radius: {radius:g} was given; it must be above 0 and finite")
    return GoalCell(place) if isinstance(member, HasCells) else Goal(place, radius)


def goal_place_size(member: Member) -> int:
    """Return how many coordinates the place of a goal has in a member."""
    return 2 if isinstance(member, HasCells) else feature_size_of_member(member)


def check_tasks(tasks: Sequence[Task], member: Member) -> None:
    """Raise an `InputError` if tasks do not fit a member.

    Examples are arrays of a wrong size, and a goal at a place where no goal can be.
    """
    stack_tasks(tasks)
    for task in tasks:
        if isinstance(task, Goal) and isinstance(member, HasCells):
            raise InputError("task: goals of this member are cells (column, row); give GoalCell instead of Goal")
        if isinstance(task, GoalCell) and not isinstance(member, HasCells):
            raise InputError(
                f"task: {type(member).__name__} has no cells that a goal could be in; give goals as places"
            )
        if isinstance(task, Goal | GoalCell):
            goal_task_at(member, task.describe(), float(task.radius) if isinstance(task, Goal) else GOAL_RADIUS)
        if isinstance(task, EnvironmentReward) and not member.gives_reward:
            raise InputError(
                f"task: this {type(member).__name__} gives no reward of its own; give goals or another task"
            )
    # All tasks have the same structure and shapes, so that it is enough to check the first.
    one = tasks[0]
    for field, size in (("place", goal_place_size(member)), ("normal", feature_size_of_member(member))):
        if hasattr(one, field) and getattr(one, field).shape != (size,):
            given = getattr(one, field).size
            raise InputError(f"{field}: {given} numbers were given, but {size} are needed")
    for name, shape in jax.eval_shape(partial(_try_out_task, one, member), jax.random.key(0)).items():
        if shape.shape != ():
            raise InputError(f"task: its {name} has the shape {shape.shape}; it must be a scalar")


def feature_size_of_member(member: Member) -> int:
    """Return how many components a particle of the member has."""
    return jax.eval_shape(lambda key: member.features(_any_state_for_task(member, key)), jax.random.key(0)).size


def _try_out_task(task: Task, member: Member, key: PRNGKeyArray) -> dict[str, Array]:
    state = _any_state_for_task(member, key)
    space = member.action_space
    action = jnp.zeros(space.shape or (), jax.dtypes.canonicalize_dtype(space.dtype))
    reached = member.step(state, action, key=key) if isinstance(member, CMP) else state
    return {"reward": task.reward(member, state, action, reached), "end": task.ended(member, reached)}


def _any_state_for_task(member: Member, key: PRNGKeyArray) -> PyTree[Array]:
    if isinstance(member, HostMember):
        return member.blank_state()
    assert isinstance(member, CMP)
    return member.reset(key=key)
