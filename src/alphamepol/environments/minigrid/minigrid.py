"""MiniGrid in JAX, for maps given as text. Every step does the same as in Farama's package (docs/method.md)."""

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
from alphamepol.environments.minigrid.map import (
    BALL,
    CLOSED,
    DOOR,
    EMPTY,
    GOAL,
    GREEN_GOAL,
    GREY_WALL,
    KEY,
    LAVA,
    LOCKED,
    NOTHING,
    OPEN,
    UNSEEN,
    WALL,
    parse_minigrid_map,
)
from alphamepol.environments.tasks import EnvironmentReward, GoalCell, Task
from alphamepol.errors import InputError

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
VIEW = 7
"""The width and height of the agent's view in cells. Its own cell belongs to the view."""
MIDDLE = VIEW // 2
OWN_CELL = np.outer(np.arange(VIEW) == MIDDLE, np.arange(VIEW) == VIEW - 1)
"""The mask of the agent's own cell in its view: the middle of the last row. In its view, the agent looks up."""
HEADING_VECTORS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], np.int32)
"""The step (column, row) in each direction. Direction 0 is east, and the others follow clockwise."""

Code = UInt16[Array, "*cells"]


class MiniGridState(eqx.Module):
    """The state of a MiniGrid: the agent, and everything on the map that can change."""

    position: Int[Array, "2"]
    """The column and row of the agent."""
    direction: Int[Array, ""]
    """The direction in which the agent looks: 0 is east, and the others follow clockwise."""
    cells: UInt16[Array, "rows columns"]
    """The code of the object in each cell (`minigrid_map_code`)."""
    carried: UInt16[Array, ""]
    """The code of the object that the agent carries, or of an empty cell if the agent carries nothing."""
    steps: Int[Array, ""]
    """The number of steps since the start of the episode."""
    reward: Float[Array, ""]
    """MiniGrid's own reward for the step that led to this state: 1 − 0.9 · steps / max_steps for a goal, else 0."""


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
        nothing = jnp.array(NOTHING, jnp.uint16)
        return MiniGridState(self.start, self.heading, self.cells, nothing, jnp.array(0, jnp.int32), jnp.array(0.0))

    def step(self, state: MiniGridState, action: Int[Array, ""], *, key: PRNGKeyArray) -> MiniGridState:
        """Turn, walk, or act on the cell in front of the agent, or behind it if the member is `backward`."""
        turn = jnp.where(action == LEFT, 3, jnp.where(action == RIGHT, 1, 0))
        sign = jnp.where(self.backward, -1, 1)
        in_front = state.position + sign * jnp.asarray(HEADING_VECTORS)[state.direction]
        column, row = in_front
        thing = state.cells[row, column]
        walks = (action == FORWARD) & minigrid_agent_can_overlap(thing)
        takes = (action == PICKUP) & minigrid_agent_can_pick_up(thing) & (state.carried == NOTHING)
        drops = (action == DROP) & (thing == NOTHING) & (state.carried != NOTHING)
        left_there = jnp.where(takes, NOTHING, jnp.where(drops, state.carried, thing)).astype(jnp.uint16)
        left_there = jnp.where(action == TOGGLE, toggle_minigrid_door(thing, state.carried), left_there)
        carried = jnp.where(takes, thing, jnp.where(drops, NOTHING, state.carried)).astype(jnp.uint16)
        steps = state.steps + 1
        # The division is the only rounding. So the result is MiniGrid's float64 reward, to the last bit of float32.
        worth = (10 * self.max_steps - 9 * steps).astype(float) / (10 * self.max_steps).astype(float)
        return MiniGridState(
            position=jnp.where(walks, in_front, state.position),
            direction=(state.direction + turn) % 4,
            cells=state.cells.at[row, column].set(left_there),
            carried=carried,
            steps=steps,
            reward=jnp.where(walks & (kind_of_minigrid_thing(thing) == GOAL), worth, 0.0),
        )

    def observe(self, state: MiniGridState) -> UInt8[Array, "7 7 3"]:
        """Return the agent's view: the kind, colour and state of the object in each cell, of shape (7, 7, 3).

        The first axis grows to the agent's right, and the second grows towards the agent. Cells that the agent cannot
        see are 0. The agent's own cell shows the object that it carries.
        """
        things = self._things_in_view(state)
        shown = jnp.where(visible_minigrid_cells(minigrid_lets_light_through(things)), things, UNSEEN)
        # `at[…].set` would take as long as the rest of this function on a CPU.
        shown = jnp.where(OWN_CELL, state.carried, shown)
        return jnp.stack([shown & 15, shown >> 4 & 7, shown >> 7], axis=-1).astype(jnp.uint8)

    def features(self, state: MiniGridState) -> Float[Array, "147"]:
        return self.observe(state).ravel().astype(float)

    def ended(self, state: MiniGridState) -> Bool[Array, ""]:
        column, row = state.position
        here = kind_of_minigrid_thing(state.cells[row, column])
        return (here == GOAL) | (here == LAVA)

    def place(self, state: MiniGridState) -> Float[Array, "2"]:
        """Return the cell (column, row) of the agent."""
        return state.position.astype(float)

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

    def _things_in_view(self, state: MiniGridState) -> UInt16[Array, "7 7"]:
        """Return the 7 × 7 cells in front of the agent, columns first, as if nothing was hidden."""
        ahead = jnp.asarray(HEADING_VECTORS)[state.direction]
        aside = jnp.stack([-ahead[1], ahead[0]])
        i, j = jnp.meshgrid(jnp.arange(VIEW) - MIDDLE, VIEW - 1 - jnp.arange(VIEW), indexing="ij")
        rows, columns = self.cells.shape
        # Everything outside the map is wall, as is the border of the map. So the border replaces the outside.
        column = jnp.clip(state.position[0] + i * aside[0] + j * ahead[0], 0, columns - 1)
        row = jnp.clip(state.position[1] + i * aside[1] + j * ahead[1], 0, rows - 1)
        return state.cells[row, column]


def kind_of_minigrid_thing(thing: Code) -> UInt16[Array, "*cells"]:
    return thing & 15


def minigrid_agent_can_overlap(thing: UInt16[Array, ""]) -> Bool[Array, ""]:
    """Tell whether the agent can walk onto an object."""
    what = kind_of_minigrid_thing(thing)
    return (what == EMPTY) | (what == GOAL) | (what == LAVA) | ((what == DOOR) & (thing >> 7 == OPEN))


def minigrid_agent_can_pick_up(thing: UInt16[Array, ""]) -> Bool[Array, ""]:
    return (kind_of_minigrid_thing(thing) == KEY) | (kind_of_minigrid_thing(thing) == BALL)


def toggle_minigrid_door(thing: UInt16[Array, ""], carried: UInt16[Array, ""]) -> UInt16[Array, ""]:
    """Return the code of an object after toggling it.

    A door opens or closes. A locked door opens only if the agent carries the key of its colour. All other objects stay
    as they are.
    """
    state, colour = thing >> 7, thing & (7 << 4)
    unlocks = (kind_of_minigrid_thing(carried) == KEY) & (carried & (7 << 4) == colour)
    opens = (state == CLOSED) | ((state == LOCKED) & unlocks)
    after = jnp.where(opens, OPEN, jnp.where(state == OPEN, CLOSED, state)).astype(jnp.uint16)
    return jnp.where(kind_of_minigrid_thing(thing) == DOOR, thing & 127 | after << 7, thing)


def minigrid_lets_light_through(things: UInt16[Array, "7 7"]) -> Bool[Array, "7 7"]:
    return (kind_of_minigrid_thing(things) != WALL) & ((kind_of_minigrid_thing(things) != DOOR) | (things >> 7 == OPEN))


def visible_minigrid_cells(clear: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Return which cells of the view the agent sees. `clear` marks the cells that it can see through.

    This is MiniGrid's rule, which goes row by row away from the agent. In each row light spreads to the right first,
    and then to the left. It spreads from every lit clear cell to its neighbour, to the cell ahead, and to the cell
    ahead of the neighbour. A row is stored as seven bits of a number, so that a few shifts replace loops over cells.
    """
    places = jnp.arange(VIEW)
    rows = jnp.sum(clear.astype(jnp.int32) << places[:, None], axis=0)
    lit, seen = jnp.array(1 << MIDDLE), []
    for row in reversed(range(VIEW)):
        through = rows[row]
        from_left = _spread_minigrid_light(lit & through, through, right=True) & ~(1 << VIEW - 1)
        lit = lit | from_left << 1
        from_right = _spread_minigrid_light(lit & through, through, right=False) & ~1
        seen.append(lit | from_right >> 1)
        lit = from_left | from_left << 1 | from_right | from_right >> 1
    return jnp.stack(seen[::-1])[None, :] >> places[:, None] & 1 == 1


def _spread_minigrid_light(sources: Int[Array, ""], through: Int[Array, ""], *, right: bool) -> Int[Array, ""]:
    """Return all clear cells that light from the sources reaches within a row."""
    for distance in (1, 2, 4):
        shift = (lambda bits, by=distance: bits << by) if right else (lambda bits, by=distance: bits >> by)
        sources = sources | through & shift(sources)
        through = through & shift(through)
    return sources
