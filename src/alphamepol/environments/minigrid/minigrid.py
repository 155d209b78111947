"""MiniGrid in JAX: the semantics of Farama's package, step by step, for maps given as text (docs/method.md)."""

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
"""The agent sees so many cells ahead, its own included, and to its sides."""
MIDDLE = VIEW // 2
OWN_CELL = np.outer(np.arange(VIEW) == MIDDLE, np.arange(VIEW) == VIEW - 1)
"""Where the agent is in its own view: in the middle of the last row, looking up."""
HEADING_VECTORS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], np.int32)
"""Column and row; direction 0 is east, then clockwise."""

Code = UInt16[Array, "*cells"]


class MiniGridState(eqx.Module):
    """Where the agent is and looks, and all that can change around it."""

    position: Int[Array, "2"]
    """Column and row."""
    direction: Int[Array, ""]
    cells: UInt16[Array, "rows columns"]
    carried: UInt16[Array, ""]
    """What the agent carries; the code of an empty cell if nothing."""
    steps: Int[Array, ""]
    reward: Float[Array, ""]
    """MiniGrid's own, of the step that led here: 1 − 0.9 · steps / max_steps for reaching a goal."""


class MiniGrid(CMP):
    """An agent that turns, walks and handles things on a grid, and sees the 7 × 7 cells before it, as far as no wall
    or door hides them.

    **Arguments**

    - `layout`: the map as text: `.` free, `#` wall, `D` closed yellow door, `G` goal, and one of `>v<^`, the agent;
      walls all around.
    - `legend`: what other characters stand for, e.g. `{"L": "locked red door", "k": "red key", "o": "ball"}`.
    - `backward`: the cell that the agent walks to and acts on is the one behind it, while it looks ahead.
    - `goals`: cells (column, row) of its tasks, for fine-tuning.
    - `max_steps`: what MiniGrid counts the steps of a reward against; 10 · columns · rows if not given.
    - `size`: columns and rows to fill the map up to, with walls, so that maps of different sizes make one class.

    The seven actions are MiniGrid's: left, right, forward, pickup, drop, toggle, done. The observation is its
    `image`, (7, 7, 3) uint8; the particle is the same, as a vector.
    """

    cells: UInt16[Array, "rows columns"]
    start: Int[Array, "2"]
    heading: Int[Array, ""]
    backward: Bool[Array, ""]
    max_steps: Int[Array, ""]
    goal_numbers: Int[Array, "rows columns"]
    """Where its tasks have their goals: the number of the task, from 1 on; 0 elsewhere."""
    size: Int[Array, "2"]
    """Columns and rows of the map itself."""

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
        """The start of the map; nothing is left to chance."""
        nothing = jnp.array(NOTHING, jnp.uint16)
        return MiniGridState(self.start, self.heading, self.cells, nothing, jnp.array(0, jnp.int32), jnp.array(0.0))

    def step(self, state: MiniGridState, action: Int[Array, ""], *, key: PRNGKeyArray) -> MiniGridState:
        """Turn, walk, or do something to the cell in front: that behind if the agent moves backward."""
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
        # One rounding: what MiniGrid computes in float64, to the last bit of float32.
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
        """What the agent sees: kind, colour and state of the things in its view, column by column; unseen ones 0."""
        things = self._things_in_view(state)
        shown = jnp.where(visible_minigrid_cells(minigrid_lets_light_through(things)), things, UNSEEN)
        # Not `at[…].set`, which alone takes as long as all the rest on a CPU.
        shown = jnp.where(OWN_CELL, state.carried, shown)
        return jnp.stack([shown & 15, shown >> 4 & 7, shown >> 7], axis=-1).astype(jnp.uint8)

    def features(self, state: MiniGridState) -> Float[Array, "147"]:
        return self.observe(state).ravel().astype(float)

    def ended(self, state: MiniGridState) -> Bool[Array, ""]:
        column, row = state.position
        here = kind_of_minigrid_thing(state.cells[row, column])
        return (here == GOAL) | (here == LAVA)

    def place(self, state: MiniGridState) -> Float[Array, "2"]:
        """The cell (column, row) that the agent is in."""
        return state.position.astype(float)

    @property
    def map(self) -> Map:
        """Its walls and doors; of goals, those of tasks too, the middle of the cell."""
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
        """The cells (column, row) of its tasks, in order."""
        numbers = np.asarray(self.goal_numbers)
        rows, columns = np.nonzero(numbers)
        order = np.argsort(numbers[rows, columns])
        return tuple(zip(columns[order].tolist(), rows[order].tolist(), strict=True))

    @property
    def gives_reward(self) -> bool:
        """Whether there is a goal on the map."""
        return bool(np.any(np.asarray(kind_of_minigrid_thing(self.cells)) == GOAL))

    @property
    def reward_lasts(self) -> float:
        return float(self.max_steps)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Its goals one by one; without any, MiniGrid's own reward if there is a goal on the map."""
        return tuple(GoalCell(goal) for goal in self.goals) or ((EnvironmentReward(),) if self.gives_reward else ())

    def with_goal(self, cell: Int[Array, "2"]) -> "MiniGrid":
        """The same map with a goal in a cell (column, row)."""
        column, row = cell
        return eqx.tree_at(lambda member: member.cells, self, self.cells.at[row, column].set(GREEN_GOAL))

    def draw_place(self, *, key: PRNGKeyArray) -> Float[Array, "2"]:
        """Uniform over the free cells but the start; the start itself where there are no others."""
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
        """The cells before the agent, as it sees them; columns first."""
        ahead = jnp.asarray(HEADING_VECTORS)[state.direction]
        aside = jnp.stack([-ahead[1], ahead[0]])
        i, j = jnp.meshgrid(jnp.arange(VIEW) - MIDDLE, VIEW - 1 - jnp.arange(VIEW), indexing="ij")
        rows, columns = self.cells.shape
        # Beyond the map there is wall; so is its border, which stands for all that.
        column = jnp.clip(state.position[0] + i * aside[0] + j * ahead[0], 0, columns - 1)
        row = jnp.clip(state.position[1] + i * aside[1] + j * ahead[1], 0, rows - 1)
        return state.cells[row, column]


def kind_of_minigrid_thing(thing: Code) -> UInt16[Array, "*cells"]:
    return thing & 15


def minigrid_agent_can_overlap(thing: UInt16[Array, ""]) -> Bool[Array, ""]:
    """Whether the agent can walk onto it."""
    what = kind_of_minigrid_thing(thing)
    return (what == EMPTY) | (what == GOAL) | (what == LAVA) | ((what == DOOR) & (thing >> 7 == OPEN))


def minigrid_agent_can_pick_up(thing: UInt16[Array, ""]) -> Bool[Array, ""]:
    return (kind_of_minigrid_thing(thing) == KEY) | (kind_of_minigrid_thing(thing) == BALL)


def toggle_minigrid_door(thing: UInt16[Array, ""], carried: UInt16[Array, ""]) -> UInt16[Array, ""]:
    """A door opens or closes, a locked one opens to the key of its colour; all else stays as it is."""
    state, colour = thing >> 7, thing & (7 << 4)
    unlocks = (kind_of_minigrid_thing(carried) == KEY) & (carried & (7 << 4) == colour)
    opens = (state == CLOSED) | ((state == LOCKED) & unlocks)
    after = jnp.where(opens, OPEN, jnp.where(state == OPEN, CLOSED, state)).astype(jnp.uint16)
    return jnp.where(kind_of_minigrid_thing(thing) == DOOR, thing & 127 | after << 7, thing)


def minigrid_lets_light_through(things: UInt16[Array, "7 7"]) -> Bool[Array, "7 7"]:
    return (kind_of_minigrid_thing(things) != WALL) & ((kind_of_minigrid_thing(things) != DOOR) | (things >> 7 == OPEN))


def visible_minigrid_cells(clear: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Which cells of the view are seen, `clear` being those that one sees through.

    MiniGrid's rule, row by row away from the agent: light spreads to the right, then to the left, from every lit clear
    cell to its neighbour, to the cell ahead, and to the one ahead of the neighbour. A row is seven bits of a number,
    so that a few shifts do what loops over cells would.
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
    """All clear cells that light from the sources reaches within a row."""
    for distance in (1, 2, 4):
        shift = (lambda bits, by=distance: bits << by) if right else (lambda bits, by=distance: bits >> by)
        sources = sources | through & shift(sources)
        through = through & shift(through)
    return sources
