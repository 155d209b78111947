"""MiniGrids that are drawn at random: rooms, doors, keys, and an agent that walks forward or backward."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from alphamepol.compute.spanning_trees import draw_spanning_tree
from alphamepol.environments.minigrid.map import (
    BALL,
    CLOSED,
    COLOURS,
    DOOR,
    GREY_WALL,
    KEY,
    LOCKED,
    NOTHING,
    minigrid_map_code,
)
from alphamepol.environments.minigrid.minigrid import MiniGrid
from alphamepol.environments.minigrid.rooms import (
    ROOM,
    empty_minigrid_rooms,
    inside_of_minigrid_room,
    place_minigrid_agent,
    put_into_minigrid_room,
)

ROOMS = 3
"""The number of rooms from west to east, and from north to south."""
EDGES = [(number, number + 1) for number in range(ROOMS**2) if number % ROOMS < ROOMS - 1]
EDGES += [(number, number + ROOMS) for number in range(ROOMS * (ROOMS - 1))]
"""The pairs of rooms next to each other. Rooms are counted from west to east, and then from north to south."""
GAP, CLOSED_DOOR, LOCKED_DOOR = range(3)
PASSAGES = (0.35, 0.5, 0.15)
"""The probabilities that a passage between two rooms is a gap, a closed door or a locked door."""
EXTRA = 0.15
"""The probability of a passage between two rooms that are connected already."""
BALLS = 4
"""The number of balls that lie about."""


def draw_minigrid_rooms(key: PRNGKeyArray) -> MiniGrid:
    """Draw a MiniGrid of 3 × 3 rooms that are connected by gaps and doors.

    The passages are a random spanning tree of the rooms and a few more. Each is a gap, a closed door or a locked door.
    The keys of the locked doors lie in the agent's room, so that every room can be reached. The agent starts in a
    random room, with nothing but a wall or a free cell in front of it. In half of the grids it walks backward.
    """
    tree_key, kind_key, place_key, colour_key, room_key, things_key, agent_key, way_key = jax.random.split(key, 8)
    passages = _draw_passages(tree_key)
    kinds = jax.random.categorical(kind_key, jnp.log(jnp.array(PASSAGES)), shape=(len(EDGES),))
    places = jax.random.randint(place_key, (len(EDGES),), 1, ROOM)
    colours = jax.random.randint(colour_key, (len(EDGES),), 0, len(COLOURS), jnp.uint16)
    cells = empty_minigrid_rooms(ROOMS, ROOMS)
    for number, (one, other) in enumerate(EDGES):
        row, column = _door_between_rooms(one, other, places[number])
        door = minigrid_map_code(DOOR, colours[number], jnp.where(kinds[number] == LOCKED_DOOR, LOCKED, CLOSED))
        passage = jnp.where(kinds[number] == GAP, NOTHING, door).astype(jnp.uint16)
        cells = cells.at[row, column].set(jnp.where(passages[number], passage, GREY_WALL).astype(jnp.uint16))
    start = jax.random.randint(room_key, (), 0, ROOMS**2)
    insides = jnp.stack([inside_of_minigrid_room(number % ROOMS, number // ROOMS) for number in range(ROOMS**2)])
    room = insides[start]
    thing_keys = jax.random.split(things_key, len(EDGES) + BALLS)
    for number in range(len(EDGES)):
        locked = passages[number] & (kinds[number] == LOCKED_DOOR)
        with_key = put_into_minigrid_room(cells, minigrid_map_code(KEY, colours[number]), room, thing_keys[number])
        cells = jnp.where(locked, with_key, cells)
    anywhere = insides.any(axis=0) & ~room
    for number in range(BALLS):
        ball = minigrid_map_code(BALL, COLOURS["blue"])
        cells = put_into_minigrid_room(cells, ball, anywhere, thing_keys[len(EDGES) + number])
    begin = place_minigrid_agent(cells, room, agent_key)
    return MiniGrid.of_cells(cells, begin.position, begin.direction, backward=jax.random.bernoulli(way_key))


def _draw_passages(key: PRNGKeyArray) -> Bool[Array, " edges"]:
    """Draw which rooms are connected: a spanning tree, and a few more."""
    tree_key, extra_key = jax.random.split(key)
    tree = draw_spanning_tree(np.array(EDGES), ROOMS**2, key=tree_key)
    return tree | jax.random.bernoulli(extra_key, EXTRA, (len(EDGES),))


def _door_between_rooms(one: int, other: int, place: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Return the row and the column of a door, which is `place` cells along the wall between two rooms."""
    row, column = one // ROOMS, one % ROOMS
    if other == one + 1:
        return row * ROOM + place, jnp.array((column + 1) * ROOM)
    return jnp.array((row + 1) * ROOM), column * ROOM + place
