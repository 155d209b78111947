"""Tasks for fine-tuning: a reward and an end condition for a member."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from alphamepol.compute.trees import stack_trees
from alphamepol.environments.cmp import HasCells, Member
from alphamepol.errors import InputError

GOAL_RADIUS = 0.1


class Task(eqx.Module):
    """A task for fine-tuning: the reward of a step, and the condition that ends the episode.

    Subclass `Task` to write a task of your own; it is an `equinox.Module`, and its array fields are its parameters.
    `finetune` stacks its tasks. Therefore all tasks of one call must be of one type, with fields of equal shapes, and
    may differ only in the values of array fields. `RewardFunction` is a shorter way to a single reward.

    A subclass implements these methods. `reward` and `ended` must be traceable by JAX.

    - `reward(member, state, action, reached)`: return the reward of one step, a scalar.
    - `ended(member, reached)`: tell whether the state ends the episode. An episode also ends where the member ends it.
    - `describe()`: return a description of the task that JSON can hold.

    A subclass may override `set_up(member)`, which prepares the member for the task.

    **Example**

    ```python
    import jax
    import jax.numpy as jnp

    import alphamepol as am


    class GoEast(am.Task):
        target: jax.Array

        def reward(self, member, state, action, reached):
            return reached[0] - state[0]

        def ended(self, member, reached):
            return reached[0] >= self.target

        def describe(self):
            return {"target": float(self.target)}


    task, room = GoEast(jnp.array(0.5)), am.Gridworld(".")
    start, end = jnp.array([0.375, 0.0]), jnp.array([0.5, 0.0])
    print(task.reward(room, start, end - start, end), task.ended(room, end))  # 0.125 True
    ```
    """

    def set_up(self, member: Member) -> Member:
        """Return the member in which the agent does the task.

        Most tasks return the given member. A task that the agent can see returns a changed copy: `GoalCell` puts a
        goal into the map. Only members written in JAX are set up.
        """
        return member

    @abstractmethod
    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        """Return the reward of the step from `state` to `reached` by `action`, a scalar."""

    @abstractmethod
    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether the episode ends when it reaches the state `reached`. The result is a scalar."""

    @abstractmethod
    def describe(self) -> Any:
        """Return a description of the task that JSON can hold. Run folders store it."""


class Goal(Task):
    """A goal at a place: reaching it gives the reward 1 and ends the episode.

    The goal is reached if the distance between the particle and the place is at most `radius`. All other steps have
    the reward 0.

    **Arguments**

    - `place`: the place of the goal in the space of particles, of shape (features,).
    - `radius`: the largest distance to the place at which the goal counts as reached. The default is 0.1.

    **Example**

    ```python
    import jax.numpy as jnp

    import alphamepol as am

    task, room = am.Goal((0.5, 0.5), radius=0.1), am.Gridworld(".")
    start, end = jnp.array([0.3, 0.5]), jnp.array([0.45, 0.5])
    print(task.reward(room, start, end - start, end))  # 1.0
    ```
    """

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
    """A half-space of particles as the goal: reaching it gives the reward 1 and ends the episode.

    The goal is reached if normal · particle ≥ offset. All other steps have the reward 0. For example,
    `HalfSpace(normal=(1, 0), offset=3)` is the goal x ≥ 3 in a plane.

    **Arguments**

    - `normal`: the direction that points into the half-space, of shape (features,).
    - `offset`: the value that normal · particle must reach.

    **Example**

    ```python
    import jax.numpy as jnp

    import alphamepol as am

    task, room = am.HalfSpace(normal=(1.0, 0.0), offset=0.5), am.Gridworld(".")
    start, end = jnp.array([0.45, 0.0]), jnp.array([0.55, 0.0])
    print(task.reward(room, start, end - start, end))  # 1.0
    ```
    """

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
    """A goal in a cell of a `MiniGrid`.

    The goal is an object on the map, which the agent sees. Reaching it gives MiniGrid's own reward,
    1 − 0.9 · steps / max_steps, and ends the episode.

    **Arguments**

    - `place`: the column and the row of the cell, counted from 0 in the north-west.

    **Raises**

    - `InputError`: if the column or the row is not a whole number.

    **Example**

    ```python
    import jax
    import jax.numpy as jnp

    import alphamepol as am

    layout = '''
        ####
        #>.#
        ####
    '''
    task = am.GoalCell((2, 1))
    room = task.set_up(am.MiniGrid(layout))
    state = room.reset(key=jax.random.key(0))
    forward = jnp.array(2)
    reached = room.step(state, forward, key=jax.random.key(1))
    print(task.reward(room, state, forward, reached), room.ended(reached))  # 0.9925 True
    ```
    """

    place: Int[Array, "2"]

    def __init__(self, place: Sequence[float | int] | Shaped[Array, "2"]):
        if any(float(number) != int(number) for number in place):
            raise InputError(
                f"place: {' '.join(f'{number:g}' for number in place)} was given; column and row must be whole numbers"
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
        return jnp.array(False)  # the member itself ends the episode at the goal

    def describe(self) -> list[int]:
        return self.place.tolist()


class EnvironmentReward(Task):
    """The reward of the environment itself as a task.

    It is for Gymnasium environments, and for a `MiniGrid` with a goal on its map. The episode ends where the
    environment ends it.

    **Example**

    ```python
    import jax
    import jax.numpy as jnp

    import alphamepol as am

    layout = '''
        ####
        #>G#
        ####
    '''
    task, room = am.EnvironmentReward(), am.MiniGrid(layout)
    state = room.reset(key=jax.random.key(0))
    forward = jnp.array(2)
    reached = room.step(state, forward, key=jax.random.key(1))
    print(task.reward(room, state, forward, reached))  # 0.9925
    ```
    """

    def reward(
        self, member: Member, state: PyTree[Array], action: Shaped[Array, "..."], reached: PyTree[Array]
    ) -> Float[Array, ""]:
        return reached.reward

    def ended(self, member: Member, reached: PyTree[Array]) -> Bool[Array, ""]:
        return jnp.array(False)  # the environment itself ends the episode

    def describe(self) -> str:
        return "the environment's own reward"


class RewardFunction(Task):
    """A task whose reward is a function of your own, written in JAX.

    The functions get states of the member. The state of a `Gridworld` is the position, for example. The state of a
    Gymnasium environment has the fields `observation`, `particle`, `reward` and `over`.

    **Arguments**

    - `function(state, action, reached)`: the function that returns the reward of a step, a scalar.
    - `end(reached)`: the function that tells whether a state ends the episode. By default the task ends no episode.
    - `name`: the name of the task in reports.

    **Example**

    ```python
    import jax.numpy as jnp

    import alphamepol as am

    task = am.RewardFunction(lambda state, action, reached: reached[0] - state[0], name="go east")
    start, end = jnp.array([0.375, 0.0]), jnp.array([0.5, 0.0])
    print(task.reward(am.Gridworld("."), start, end - start, end))  # 0.125
    ```
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


def stack_tasks(tasks: Sequence[Task]) -> Task:
    """Return tasks of one type as one task, whose array fields have a leading axis over the tasks."""
    if not tasks:
        raise InputError("tasks: none was given; at least one is needed")
    if len({type(task) for task in tasks}) > 1:
        raise InputError("tasks: they differ in kind; the tasks of one call must be of one type")
    if len({jax.tree.structure(task) for task in tasks}) > 1:
        raise InputError(
            "tasks: they differ in fields that are not arrays, such as their functions; write a Task of your own whose "
            "array fields hold the difference"
        )
    if len({tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(task)) for task in tasks}) > 1:
        raise InputError("tasks: they differ in the shapes of their fields, which must be equal")
    return stack_trees(list(tasks))
