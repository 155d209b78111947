"""Tasks: a reward and an end condition over a CMP, which has neither."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from alphamepol.compute.trees import stack_trees
from alphamepol.environments.cmp import CMP, HasCells, HasFreeSpace, Member
from alphamepol.environments.host import HostMember
from alphamepol.errors import InputError

GOAL_RADIUS = 0.1


class Task(eqx.Module):
    """What one step is worth, and whether it ends the episode. Array fields are parameters, as in a CMP."""

    def set_up(self, member: Member) -> Member:
        """The member in which the task is done: another than the given one if the task can be seen in it.

        For members in JAX; host environments show what they show.
        """
        return member

    @abstractmethod
    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        """The reward of going from `state` to `reached` by `action`."""

    @abstractmethod
    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        """Whether the episode is over once `reached` is reached."""

    @abstractmethod
    def describe(self) -> Any:
        """The task as JSON can hold it."""


class Goal(Task):
    """1 for coming within `radius` of a place in feature space, and the episode ends."""

    place: Float[Array, " features"]
    radius: Float[Array, ""]

    def __init__(self, place: Sequence[float | int] | Float[Array, " features"], radius: float = GOAL_RADIUS):
        self.place = jnp.array(place, float)
        self.radius = jnp.array(radius, float)

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        return self.ended(member, reached).astype(float)

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.sum((member.features(reached) - self.place) ** 2) <= self.radius**2

    def describe(self) -> list[float]:
        return self.place.tolist()


class HalfSpace(Task):
    """1 for reaching normal · features ≥ offset, and the episode ends. `normal=(1, 0), offset=3` is x ≥ 3."""

    normal: Float[Array, " features"]
    offset: Float[Array, ""]

    def __init__(self, normal: Sequence[float] | Float[Array, " features"], offset: float):
        self.normal = jnp.array(normal, float)
        self.offset = jnp.array(offset, float)

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        return self.ended(member, reached).astype(float)

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.sum(self.normal * member.features(reached)) >= self.offset

    def describe(self) -> dict[str, Any]:
        return {"normal": self.normal.tolist(), "offset": float(self.offset)}


class GoalCell(Task):
    """A goal in a cell (column, row) of a MiniGrid, where the agent sees it: MiniGrid's own reward, and its end."""

    place: Int[Array, "2"]

    def __init__(self, place: Sequence[float | int] | Shaped[Array, "2"]):
        if any(float(number) != int(number) for number in place):
            raise InputError(
                f"place: {' '.join(f'{number:g}' for number in place)} was given; a cell has whole numbers"
            )
        self.place = jnp.array(place, jnp.int32)

    def set_up(self, member: Member) -> Member:
        assert isinstance(member, HasCells)
        return member.with_goal(self.place)

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        return reached.reward

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.array(False)  # beside the ends of the member

    def describe(self) -> list[int]:
        return self.place.tolist()


class EnvironmentReward(Task):
    """The reward that an environment gives itself: one of Gymnasium, or a MiniGrid with a goal on its map."""

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        return reached.reward

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.array(False)  # beside the ends of the environment

    def describe(self) -> str:
        return "the environment's own reward"


class RewardFunction(Task):
    """Any reward of one's own, written in JAX.

    **Arguments**

    - `function(state, action, reached)`: the reward of a step; states are those of the member; of a Gymnasium
      environment they have the fields `observation` and `particle`.
    - `end(reached)`: whether the episode is over; never, if not given.
    - `name`: what reports call it.
    """

    function: Callable[..., Any] = eqx.field(static=True)
    end: Callable[..., Any] | None = eqx.field(static=True, default=None)
    name: str = eqx.field(static=True, default="reward function")

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, "..."]:
        return jnp.asarray(self.function(state, action, reached), float)

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, "..."]:
        return jnp.array(False) if self.end is None else jnp.asarray(self.end(reached), bool)

    def describe(self) -> str:
        return self.name


def random_goal_tasks(member: Member, count: int, *, key: PRNGKeyArray, radius: float = GOAL_RADIUS) -> list[Task]:
    """Goals uniform over the member's free space; the same key gives the same goals."""
    if not isinstance(member, HasFreeSpace):
        raise InputError("task: this member has no tasks of its own, and no goals can be drawn in it; give --goals")
    places = jax.vmap(lambda key: member.draw_place(key=key))(jax.random.split(key, count))
    return [goal_task_at(member, place.tolist(), radius) for place in places]


class GoalTasks(eqx.Module):
    """Draws tasks: a goal uniform over the free space of the member at hand. For members in JAX; can be compiled."""

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
    """A goal at a place: in a cell where the member has cells, else within a radius in feature space.

    Refuses a place where nothing can ever be.
    """
    reason = member.explain_no_place(place) if isinstance(member, HasFreeSpace) else None
    if reason is not None:
        raise InputError(f"goal: {' '.join(f'{value:g}' for value in place)} was given, {reason}")
    if not (math.isfinite(radius) and radius > 0):
        raise InputError(f"radius: {radius:g} was given; it must be above 0 and finite")
    return GoalCell(place) if isinstance(member, HasCells) else Goal(place, radius)


def goal_place_size(member: Member) -> int:
    """How many numbers say where a goal is."""
    return 2 if isinstance(member, HasCells) else feature_size_of_member(member)


def check_tasks(tasks: Sequence[Task], member: Member) -> None:
    """Refuse tasks that make no sense in a member: numbers that do not fit, or a goal where nothing can ever be."""
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
    # The tasks have the same structure and shapes, so that one of them stands for all.
    one = tasks[0]
    for field, size in (("place", goal_place_size(member)), ("normal", feature_size_of_member(member))):
        if hasattr(one, field) and getattr(one, field).shape != (size,):
            given = getattr(one, field).size
            raise InputError(f"{field}: {given} numbers were given, but {size} are needed")
    for name, shape in jax.eval_shape(partial(_try_out_task, one, member), jax.random.key(0)).items():
        if shape.shape != ():
            raise InputError(f"task: its {name} has the shape {shape.shape}; it must be one number")


def feature_size_of_member(member: Member) -> int:
    """How many numbers a particle of the member has."""
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


def stack_tasks(tasks: Sequence[Task]) -> Task:
    """Tasks of one kind as one task whose array fields have a leading axis."""
    if not tasks:
        raise InputError("tasks: none was given; at least one is needed")
    if len({type(task) for task in tasks}) > 1:
        raise InputError("tasks: they differ in kind; the tasks of one call must be of one type")
    if len({jax.tree.structure(task) for task in tasks}) > 1:
        raise InputError(
            "tasks: they differ in what is no array, such as their functions; write a Task of your own whose array "
            "fields are what differs"
        )
    if len({tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(task)) for task in tasks}) > 1:
        raise InputError("tasks: they differ in the shapes of their fields, which must be equal")
    return stack_trees(list(tasks))
