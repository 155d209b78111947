"""MiniGrid in JAX, for maps given as text."""

import math
from collections.abc import Mapping, Sequence

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8, UInt16

from alphamepol.environments.cmp import CMP
from alphamepol.environments.maps import Map, MapPatch, PatchKind
from alphamepol.environments.minigrid.drawing import draw_minigrid
from alphamepol.environments.minigrid.map import (
    DOOR,
    GOAL,
    GREEN_GOAL,
    GREY_WALL,
    LAVA,
    NOTHING,
    WALL,
    parse_minigrid_map,
)
from alphamepol.environments.minigrid.rules import (
    VIEW,
    MiniGridState,
    begin_minigrid,
    kind_of_minigrid_thing,
    observe_minigrid,
    step_minigrid,
)
from alphamepol.environments.tasks import EnvironmentReward, GoalCell, Task
from alphamepol.errors import InputError


class MiniGrid(CMP):
    """A MiniGrid: an agent that turns, walks and handles objects on a grid.

    The agent sees the 7 × 7 cells in front of it, except for those that walls or closed doors hide. The actions 0 to 6
    are those of MiniGrid: left, right, forward, pickup, drop, toggle, done. The observation is MiniGrid's `image`, of
    shape (7, 7, 3) and type uint8. The particle is the observation as a vector of shape (147,).

    A trajectory ends on a goal or on lava. Reaching a goal gives MiniGrid's reward 1 − 0.9 · steps / max_steps.

    **Arguments**

    - `layout`: the map as text. `.` is a free cell, `#` a wall, `D` a closed yellow door, and `G` a goal. One of
      `>v<^` is the agent and its direction. There must be walls all around.
    - `legend`: the objects that other characters stand for, e.g. `{"L": "locked red door", "k": "red key"}`.
    - `backward`: False (the default) for the usual MiniGrid. If True, the agent walks to the cell behind it and
      handles objects in that cell, but still looks ahead.
    - `goals`: the cells (column, row) of goals. Each goal is one of the member's tasks for fine-tuning.
    - `max_steps`: the number of steps in MiniGrid's reward. The default is 10 · columns · rows.
    - `size`: the numbers of columns and rows to which walls pad the map. Give the same size to maps of different sizes
      that make one class. The default is no padding.

    **Raises**

    - `InputError`: if the map or the legend is malformed; if a goal is given twice, at the start, or not in a free
      cell; if `max_steps` is not a whole number from 1 to a million; or if `size` is smaller than the map.

    **Example**

    ```python
    import jax

    import alphamepol as am

    layout = '''
        #######
        #>..L.#
        #k..#.#
        #######
    '''
    rooms = am.MiniGrid(layout, legend={"L": "locked red door", "k": "red key"}, goals=[(5, 2)])
    state = rooms.reset(key=jax.random.key(0))
    print(rooms.observe(state).shape, rooms.tasks[0].describe())  # (7, 7, 3) [5, 2]
    ```
    """

    cells: UInt16[Array, "rows columns"]
    """The code of the object in each cell at the start of an episode (`minigrid_map_code`)."""
    start: Int[Array, "2"]
    """The column and row where the agent starts."""
    heading: Int[Array, ""]
    """The direction in which the agent looks at the start."""
    backward: Bool[Array, ""]
    max_steps: Int[Array, ""]
    goal_numbers: Int[Array, "rows columns"]
    """The number of the task, from 1 on, in each cell that is the goal of a task; 0 in all other cells."""
    size: Int[Array, "2"]
    """The numbers of columns and rows of the map without padding."""

    def __init__(
        self,
        layout: str,
        *,
        legend: Mapping[str, str] | None = None,
        backward: bool = False,
        goals: Sequence[Sequence[int]] = (),
        max_steps: int | None = None,
        size: tuple[int, int] | None = None,
    ):
        read = parse_minigrid_map(layout, legend)
        rows, columns = read.cells.shape
        columns_wanted, rows_wanted = size or (columns, rows)
        if columns_wanted < columns or rows_wanted < rows:
            raise InputError(
                f"size: {columns_wanted} x {rows_wanted} was given; the map has {columns} columns and {rows} rows"
            )
        if max_steps is not None and not (int(max_steps) == max_steps and 1 <= max_steps <= 10**6):
            raise InputError(f"max_steps: {max_steps} was given; it must be a whole number from 1 to a million")
        filled = (0, rows_wanted - rows), (0, columns_wanted - columns)
        self.cells = jnp.asarray(np.pad(read.cells, filled, constant_values=GREY_WALL))
        self.start = jnp.array(read.start, jnp.int32)
        self.heading = jnp.array(read.heading, jnp.int32)
        self.backward = jnp.array(backward)
        self.max_steps = jnp.array(max_steps or 10 * rows * columns, jnp.int32)
        self.size = jnp.array((columns, rows), jnp.int32)
        numbers = np.zeros(self.cells.shape, np.int32)
        for number, goal in enumerate(goals, 1):
            reason = self.explain_no_place(goal)
            if reason is not None:
                raise InputError(f"goals: {' '.join(map(str, goal))} was given, {reason}")
            column, row = map(int, goal)
            if numbers[row, column]:
                raise InputError(f"goals: {column} {row} was given twice")
            numbers[row, column] = number
        self.goal_numbers = jnp.asarray(numbers)

    @classmethod
    def of_cells(
        cls,
        cells: UInt16[Array, "rows columns"],
        start: Int[Array, "2"],
        heading: Int[Array, ""],
        *,
        backward: Bool[Array, ""],
    ) -> "MiniGrid":
        """Return a MiniGrid from arrays, which may be traced by JAX. Nothing is checked, and no goals are tasks."""
        made = object.__new__(cls)
        rows, columns = cells.shape
        for name, value in (
            ("cells", cells),
            ("start", start),
            ("heading", heading),
            ("backward", backward),
            ("max_steps", jnp.array(10 * rows * columns, jnp.int32)),
            ("goal_numbers", jnp.zeros(cells.shape, jnp.int32)),
            ("size", jnp.array((columns, rows), jnp.int32)),
        ):
            object.__setattr__(made, name, value)
        return made

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0, 255, (VIEW, VIEW, 3), np.uint8)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(7)

    @property
    def entropy_ceiling(self) -> float:
        return math.inf

    def reset(self, *, key: PRNGKeyArray) -> MiniGridState:
        """Return the initial state, which is always the same."""
        return begin_minigrid(self.cells, self.start, self.heading)

    def step(self, state: MiniGridState, action: Int[Array, ""], *, key: PRNGKeyArray) -> MiniGridState:
        """Turn, walk, or act on the cell in front of the agent, or behind it if the member is `backward`."""
        return step_minigrid(state, action, backward=self.backward, max_steps=self.max_steps)

    def observe(self, state: MiniGridState) -> UInt8[Array, "7 7 3"]:
        """Return the agent's view: the kind, colour and state of the object in each cell, of shape (7, 7, 3)."""
        return observe_minigrid(state)

    def features(self, state: MiniGridState) -> Float[Array, "147"]:
        return self.observe(state).ravel().astype(float)

    def ended(self, state: MiniGridState) -> Bool[Array, ""]:
        column, row = state.position
        here = kind_of_minigrid_thing(state.cells[row, column])
        return (here == GOAL) | (here == LAVA)

    def place(self, state: MiniGridState) -> Float[Array, "2"]:
        """Return the cell (column, row) of the agent."""
        return state.position.astype(float)

    def render(self, state: MiniGridState) -> UInt8[np.ndarray, "height width 3"]:
        """Return a picture of a state, which looks as in Farama's package."""
        return draw_minigrid(self.size, state)

    @property
    def map(self) -> Map:
        """The walls, doors and goals of the map, including the goals of tasks. A goal covers the middle of its cell."""
        columns, rows = self.size.tolist()
        kinds = np.asarray(kind_of_minigrid_thing(self.cells))

        def patches(places: list[list[int]], drawn: PatchKind, side: float = 1.0) -> list[MapPatch]:
            return [MapPatch((column - side / 2, row - side / 2), (side, side), drawn) for row, column in places]

        def cells(which: int) -> list[list[int]]:
            return np.argwhere(kinds[:rows, :columns] == which).tolist()

        goals = cells(GOAL) + [[row, column] for column, row in self.goals]
        there = patches(cells(WALL), "wall") + patches(cells(DOOR), "door") + patches(goals, "goal", side=0.4)
        return Map((-0.5, columns - 0.5, rows - 0.5, -0.5), tuple(there), (kinds.shape[1], kinds.shape[0]))

    @property
    def goals(self) -> tuple[tuple[int, int], ...]:
        """The cells (column, row) of the goals of the member's tasks, in the order in which they were given."""
        numbers = np.asarray(self.goal_numbers)
        rows, columns = np.nonzero(numbers)
        order = np.argsort(numbers[rows, columns])
        return tuple(zip(columns[order].tolist(), rows[order].tolist(), strict=True))

    @property
    def gives_reward(self) -> bool:
        """Tell whether there is a goal on the map."""
        return bool(np.any(np.asarray(kind_of_minigrid_thing(self.cells)) == GOAL))

    @property
    def reward_lasts(self) -> float:
        return float(self.max_steps)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The member's tasks: one `GoalCell` for each of its `goals`.

        If there are no `goals`, but a goal is on the map, the only task is MiniGrid's own reward.
        """
        return tuple(GoalCell(goal) for goal in self.goals) or ((EnvironmentReward(),) if self.gives_reward else ())

    def with_goal(self, cell: Int[Array, "2"]) -> "MiniGrid":
        """Return a copy of the member that has a goal in a cell (column, row)."""
        column, row = cell
        return eqx.tree_at(lambda member: member.cells, self, self.cells.at[row, column].set(GREEN_GOAL))

    def draw_place(self, *, key: PRNGKeyArray) -> Float[Array, "2"]:
        """Draw a cell (column, row) uniformly from the free cells, without the start. There must be such a cell."""
        rows, columns = self.cells.shape
        free = (self.cells == NOTHING).at[self.start[1], self.start[0]].set(False)
        row, column = jnp.unravel_index(
            jax.random.categorical(key, jnp.where(free, 0.0, -jnp.inf).ravel()), (rows, columns)
        )
        return jnp.stack([column, row]).astype(float)

    def explain_no_place(self, place: Sequence[float | int]) -> str | None:
        if len(place) != 2:
            return f"which has {len(place)} coordinates; a cell has 2, column and row"
        columns, rows = self.size.tolist()
        column, row = place
        whole = all(math.isfinite(number) and number == int(number) for number in place)
        if not (whole and 0 <= column < columns and 0 <= row < rows):
            return f"which is no cell of the map; columns are from 0 to {columns - 1}, rows from 0 to {rows - 1}"
        if self.cells[int(row), int(column)] != NOTHING:
            return "where there is something already; choose a free cell"
        if [int(column), int(row)] == self.start.tolist():
            return "where the agent starts; choose another cell"
        return None
