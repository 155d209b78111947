"""Gridworlds that are drawn at random: rooms and blocks with a slope or a wind, and mazes.

Each function draws one gridworld from a random key, and can be compiled. Walls are solid.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from alphamepol.compute.spanning_trees import draw_spanning_tree
from alphamepol.environments.gridworld.gridworld import MAX_STEP, Gridworld

ROOM_CELLS = 12
"""The number of rows and columns of a map of rooms."""
BLOCKS = 5
"""The number of blocks that are put into the rooms of a map."""
CANDIDATES = 8
"""The number of maps of rooms that are drawn. The first one is taken whose cells are mostly reachable."""
MOSTLY = 0.7
"""The share of cells that must be reachable. If no map has so many, the map with the most is taken."""
STEEPEST = MAX_STEP / 2
"""The largest mean length of a slope or wind."""
MAZE_NODES = 5
"""The number of crossings of a maze from west to east, and from north to south."""

Walls = Bool[Array, "rows columns"]


def draw_rooms(key: PRNGKeyArray) -> Gridworld:
    """Draw a gridworld of four rooms with doors between them, blocks inside, and a slope or a wind.

    The walls between the rooms are one cell thick and near the middle. Of the four walls between two rooms, three have
    a door of one or two cells, and the fourth is closed. Half of the maps have a slope in the north half, the others a
    wind on the whole map. Its direction is uniform, and its mean length is uniform from 0 to 0.1. The agent can reach
    every free cell.
    """
    map_key, slope_key = jax.random.split(key)
    candidates = jax.vmap(_draw_walls_of_rooms)(jax.random.split(map_key, CANDIDATES))
    reachable = jax.vmap(reachable_gridworld_cells)(candidates)
    shares = reachable.mean(axis=(1, 2))
    best = jnp.argmax(jnp.minimum(shares, MOSTLY))
    angle_key, length_key, kind_key = jax.random.split(slope_key, 3)
    angle = jax.random.uniform(angle_key, maxval=2 * jnp.pi)
    return Gridworld.of_walls(
        ~reachable[best],
        jnp.stack([jnp.cos(angle), jnp.sin(angle)]),
        jax.random.uniform(length_key, maxval=STEEPEST),
        jnp.where(jax.random.bernoulli(kind_key), 0.0, -1.0),
    )


def draw_maze(key: PRNGKeyArray) -> Gridworld:
    """Draw a maze on level ground: corridors one cell wide, with exactly one way between any two places.

    The corridors are a random spanning tree of 5 × 5 crossings, on a map of 9 × 9 cells.
    """
    walls = ~_draw_corridors(MAZE_NODES, key)
    return Gridworld.of_walls(walls, jnp.zeros(2), jnp.array(0.0), jnp.array(-1.0))


def reachable_gridworld_cells(walls: Walls) -> Walls:
    """Return which cells can be reached from the start without passing through a wall.

    The start is the free part of the north-west quarter of the columns and rows. If it has several parts that are not
    connected, the part with the first free cell counts. Cells are connected along their sides.
    """
    rows, columns = walls.shape
    start = np.zeros((rows, columns), bool)
    start[: -(-rows // 4), : -(-columns // 4)] = True
    first = jnp.argmax((start & ~walls).ravel())
    seed = (jnp.arange(walls.size) == first).reshape(walls.shape) & ~walls

    def spread(reached: Walls) -> Walls:
        padded = jnp.pad(reached, 1)
        near = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
        return (reached | near) & ~walls

    def go_on(state: tuple[Walls, Bool[Array, ""]]) -> tuple[Walls, Bool[Array, ""]]:
        wider = spread(state[0])
        return wider, jnp.any(wider != state[0])

    return jax.lax.while_loop(lambda state: state[1], go_on, (seed, jnp.array(True)))[0]


def _draw_walls_of_rooms(key: PRNGKeyArray) -> Walls:
    """Draw two walls across the map with doors, and blocks."""
    cross_key, closed_key, doors_key, blocks_key = jax.random.split(key, 4)
    closed = jax.random.randint(closed_key, (), 0, 4)
    middle = jax.random.randint(cross_key, (2,), ROOM_CELLS // 2 - 2, ROOM_CELLS // 2 + 2)
    row, column = jnp.meshgrid(jnp.arange(ROOM_CELLS), jnp.arange(ROOM_CELLS), indexing="ij")
    walls = (row == middle[0]) | (column == middle[1])
    for number, door_key in enumerate(jax.random.split(doors_key, 4)):
        # Parts 0 and 1 are in the wall from west to east, parts 2 and 3 in the wall from north to south.
        across, second = number // 2, number % 2
        along = (column, row)[across]
        cut = middle[1 - across]
        place_key, width_key = jax.random.split(door_key)
        low, high = (cut + 1, ROOM_CELLS) if second else (0, cut)
        place = jax.random.randint(place_key, (), low, high)
        width = jax.random.randint(width_key, (), 1, 3)
        door = (along >= place) & (along < jnp.minimum(place + width, high)) & (number != closed)
        walls &= ~(((row, column)[across] == middle[across]) & door)
    for block_key in jax.random.split(blocks_key, BLOCKS):
        corner_key, size_key = jax.random.split(block_key)
        corner = jax.random.randint(corner_key, (2,), 0, ROOM_CELLS)
        size = jax.random.randint(size_key, (2,), 1, 4)
        walls |= (
            (row >= corner[0]) & (row < corner[0] + size[0]) & (column >= corner[1]) & (column < corner[1] + size[1])
        )
    return walls


def _draw_corridors(nodes: int, key: PRNGKeyArray) -> Bool[Array, "rows columns"]:
    """Draw the corridors of a maze: a spanning tree of its crossings, which are in even rows and columns."""
    ends = np.array(
        [((i, j), (i, j + 1)) for i in range(nodes) for j in range(nodes - 1)]
        + [((i, j), (i + 1, j)) for i in range(nodes - 1) for j in range(nodes)]
    )
    kept = draw_spanning_tree(ends @ np.array([nodes, 1]), nodes**2, key=key)
    side = 2 * nodes - 1
    open_cells = np.zeros((side, side), bool)
    open_cells[::2, ::2] = True
    between = ends.sum(axis=1)  # the row and the column of the cell between two crossings
    return jnp.asarray(open_cells).at[between[:, 0], between[:, 1]].set(kept)
