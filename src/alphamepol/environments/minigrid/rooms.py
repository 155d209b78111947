"""MiniGrids of rooms whose layout is drawn anew for every episode, as in Farama's Unlock and ObstructedMaze."""

import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8, UInt16

from alphamepol.environments.cmp import CMP
from alphamepol.environments.maps import Map, MapPatch
from alphamepol.environments.minigrid.drawing import draw_minigrid
from alphamepol.environments.minigrid.map import (
    BALL,
    BOX,
    CLOSED,
    COLOURS,
    DOOR,
    GREY_WALL,
    KEY,
    LOCKED,
    NOTHING,
    OPEN,
    minigrid_map_code,
)
from alphamepol.environments.minigrid.rules import (
    HEADING_VECTORS,
    PICKUP,
    TOGGLE,
    VIEW,
    MiniGridState,
    begin_minigrid,
    kind_of_minigrid_thing,
    minigrid_success_reward,
    observe_minigrid,
    step_minigrid,
)
from alphamepol.environments.tasks import RewardFunction, Task
from alphamepol.errors import InputError

ROOM = 5
"""The distance between the walls of a room, in cells. A room has 4 × 4 cells inside."""
SIZE = 3 * ROOM + 1
"""The number of columns and rows to which walls pad every map."""
UNLOCK, OBSTRUCTED_MAZE = "Unlock", "ObstructedMaze"
ROOMS = {UNLOCK: (2, 1), OBSTRUCTED_MAZE: (3, 3)}
"""The numbers of rooms from west to east and from north to south."""
LONGEST = {UNLOCK: 288, OBSTRUCTED_MAZE: 576}
"""The number of steps in MiniGrid's reward."""
WANTED = minigrid_map_code(BALL, COLOURS["blue"])
"""The ball that the agent has to find in ObstructedMaze."""
OBSTACLE = minigrid_map_code(BALL, COLOURS["green"])

Cells = UInt16[Array, "rows columns"]
Room = Bool[Array, "rows columns"]


class RoomsMiniGrid(CMP):
    """A MiniGrid of rooms whose doors, objects and start are drawn anew for every episode.

    The distribution of layouts and every step are those of Farama's package. An episode does not end by itself, so that
    pre-training goes on after a success. The member's task is MiniGrid's own reward, and a success ends its episodes.

    **Arguments**

    - `kind`: "Unlock" for `MiniGrid-Unlock-v0`: a room with a locked door and its key. "ObstructedMaze" for
      `MiniGrid-ObstructedMaze-2Dlhb-v0`: two locked doors behind balls, with their keys hidden in boxes, and a blue
      ball behind one of the doors.
    """

    number: Int[Array, ""]
    """The number of the kind, in the order of `ROOMS`."""
    max_steps: Int[Array, ""]
    """The number of steps in MiniGrid's reward."""
    size: Int[Array, "2"]
    """The numbers of columns and rows of the map without padding."""

    def __init__(self, kind: str):
        if kind not in ROOMS:
            raise InputError(f"kind: {kind!r} was given; it must be {' or '.join(ROOMS)}")
        self.number = jnp.array(list(ROOMS).index(kind), jnp.int32)
        self.max_steps = jnp.array(LONGEST[kind], jnp.int32)
        self.size = jnp.array(ROOMS[kind], jnp.int32) * ROOM + 1

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
        """Draw a layout."""
        return jax.lax.switch(self.number, (draw_unlock, draw_obstructed_maze), key)

    def step(self, state: MiniGridState, action: Int[Array, ""], *, key: PRNGKeyArray) -> MiniGridState:
        """Take a step of MiniGrid. A success gives the reward 1 − 0.9 · steps / max_steps."""
        reached = step_minigrid(state, action, backward=jnp.array(False), max_steps=self.max_steps)
        wall = reached.cells[:, ROOM]  # the only door of Unlock is in this wall
        is_open = (kind_of_minigrid_thing(wall) == DOOR) & (wall >> 7 == OPEN)
        unlocked = (action == TOGGLE) & is_open.any()
        found = (action == PICKUP) & (reached.carried == WANTED)
        success = jnp.where(self.number == list(ROOMS).index(UNLOCK), unlocked, found)
        reward = jnp.where(success, minigrid_success_reward(reached.steps, self.max_steps), 0.0)
        return MiniGridState(reached.position, reached.direction, reached.cells, reached.carried, reached.steps, reward)

    def observe(self, state: MiniGridState) -> UInt8[Array, "7 7 3"]:
        return observe_minigrid(state)

    def features(self, state: MiniGridState) -> Float[Array, "147"]:
        return observe_minigrid(state).ravel().astype(float)

    def ended(self, state: MiniGridState) -> Bool[Array, ""]:
        return jnp.array(False)

    def place(self, state: MiniGridState) -> Float[Array, "2"]:
        """Return the cell (column, row) of the agent."""
        return state.position.astype(float)

    def render(self, state: MiniGridState) -> UInt8[np.ndarray, "height width 3"]:
        """Return a picture of a state, which looks as in Farama's package."""
        return draw_minigrid(self.size, state)

    @property
    def map(self) -> Map:
        """The walls of the rooms, without the doors, which differ between episodes."""
        columns, rows = self.size.tolist()
        places = np.argwhere(
            np.asarray(empty_minigrid_rooms(columns // ROOM, rows // ROOM))[:rows, :columns] != NOTHING
        )
        walls = (MapPatch((column - 0.5, row - 0.5), (1.0, 1.0), "wall") for row, column in places.tolist())
        return Map((-0.5, columns - 0.5, rows - 0.5, -0.5), tuple(walls), (SIZE, SIZE))

    @property
    def gives_reward(self) -> bool:
        return True

    @property
    def reward_lasts(self) -> float:
        return float(self.max_steps)

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (RewardFunction(_reward_of_success, _is_success, "the environment's own reward"),)


def _reward_of_success(state: MiniGridState, action: Int[Array, ""], reached: MiniGridState) -> Float[Array, ""]:
    return reached.reward


def _is_success(reached: MiniGridState) -> Bool[Array, ""]:
    return reached.reward > 0


def draw_unlock(key: PRNGKeyArray) -> MiniGridState:
    """Draw a layout of Unlock: a locked door in the wall between two rooms, its key, and the agent in the west."""
    row_key, colour_key, key_key, agent_key = jax.random.split(key, 4)
    room = inside_of_minigrid_room(0, 0)
    colour = jax.random.randint(colour_key, (), 0, len(COLOURS), jnp.uint16)
    cells = empty_minigrid_rooms(*ROOMS[UNLOCK])
    cells = cells.at[_draw_along_wall(0, row_key), ROOM].set(minigrid_map_code(DOOR, colour, LOCKED))
    cells = put_into_minigrid_room(cells, minigrid_map_code(KEY, colour), room, key_key)
    return place_minigrid_agent(cells, room, agent_key)


def draw_obstructed_maze(key: PRNGKeyArray) -> MiniGridState:
    """Draw a layout of ObstructedMaze. The agent is in the room in the middle of the eastern side.

    The room has an unlocked door in the west, and locked doors in the north and in the south. A ball is in front of
    each locked door. The second ball may take the place of the box with the first key, as in Farama's version 0.
    """
    keys = jax.random.split(key, 8)
    room = inside_of_minigrid_room(2, 1)
    colours = jax.random.permutation(keys[0], jnp.arange(len(COLOURS), dtype=jnp.uint16))
    west, north, south = _draw_along_wall(1, keys[1]), _draw_along_wall(2, keys[2]), _draw_along_wall(2, keys[3])
    cells = empty_minigrid_rooms(*ROOMS[OBSTRUCTED_MAZE])
    cells = cells.at[west, 2 * ROOM].set(minigrid_map_code(DOOR, colours[0], CLOSED))
    for colour, row, column, inwards, box_key in (
        (colours[5], ROOM, north, 1, keys[4]),
        (colours[1], 2 * ROOM, south, -1, keys[5]),
    ):
        cells = cells.at[row, column].set(minigrid_map_code(DOOR, colour, LOCKED))
        cells = cells.at[row + inwards, column].set(OBSTACLE)
        box = minigrid_map_code(BOX, COLOURS["grey"], minigrid_map_code(KEY, colour))
        cells = put_into_minigrid_room(cells, box, room, box_key)
    cells = put_into_minigrid_room(cells, WANTED, inside_of_minigrid_room(2, 0), keys[6])
    return place_minigrid_agent(cells, room, keys[7])


def empty_minigrid_rooms(columns: int, rows: int) -> Cells:
    """Return a map of empty rooms with walls between them, in a map that is filled with walls."""
    cells = np.full((SIZE, SIZE), GREY_WALL, np.uint16)
    for j in range(rows):
        for i in range(columns):
            cells[j * ROOM + 1 : (j + 1) * ROOM, i * ROOM + 1 : (i + 1) * ROOM] = NOTHING
    return jnp.asarray(cells)


def inside_of_minigrid_room(column: int, row: int) -> Room:
    """Return which cells are inside a room."""
    inside = np.zeros((SIZE, SIZE), bool)
    inside[row * ROOM + 1 : (row + 1) * ROOM, column * ROOM + 1 : (column + 1) * ROOM] = True
    return jnp.asarray(inside)


def _draw_along_wall(room: int, key: PRNGKeyArray) -> Int[Array, ""]:
    """Draw the position of a door along the wall of a room, which is the room with this number along the wall."""
    return jax.random.randint(key, (), room * ROOM + 1, (room + 1) * ROOM)


def put_into_minigrid_room(cells: Cells, thing: Array | int, room: Room, key: PRNGKeyArray) -> Cells:
    """Put an object into a cell that is drawn uniformly from the free cells of a room."""
    row, column = jnp.unravel_index(_draw_allowed(room & (cells == NOTHING), key), cells.shape)
    return cells.at[row, column].set(thing)


def place_minigrid_agent(cells: Cells, room: Room, key: PRNGKeyArray) -> MiniGridState:
    """Draw the agent's place and direction, together, so that no object but a wall is right in front of the agent."""
    ahead = jnp.stack([jnp.roll(cells, (-row, -column), (0, 1)) for column, row in HEADING_VECTORS.tolist()])
    allowed = room & (cells == NOTHING) & ((ahead == NOTHING) | (ahead == GREY_WALL))
    direction, row, column = jnp.unravel_index(_draw_allowed(allowed, key), allowed.shape)
    return begin_minigrid(cells, jnp.stack([column, row]).astype(jnp.int32), direction.astype(jnp.int32))


def _draw_allowed(allowed: Bool[Array, "*cells"], key: PRNGKeyArray) -> Int[Array, ""]:
    """Draw one of the allowed places uniformly, and return its index in the flattened array.

    One random number is enough. `jax.random.categorical` would need one for each place, which takes longer than all
    steps of an episode.
    """
    counts = jnp.cumsum(allowed.ravel())
    return jnp.argmax(counts > jax.random.randint(key, (), 0, counts[-1]))
