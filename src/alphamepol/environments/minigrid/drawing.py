"""Pictures of a MiniGrid as pixel arrays. Each pixel is equal to that of Farama's package."""

from functools import lru_cache

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from alphamepol.environments.minigrid.map import BALL, BOX, CLOSED, DOOR, GOAL, KEY, LAVA, LOCKED, OPEN, UNSEEN, WALL
from alphamepol.environments.minigrid.rules import HEADING_VECTORS, MIDDLE, VIEW, MiniGridState, observe_minigrid

SMOOTHING = 3
"""The factor by which tiles are drawn larger before they are reduced. This smooths the lines."""
LIGHT = 0.3
"""The share of white that is mixed into the colour of cells that the agent sees."""

RGB = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255), (112, 39, 195), (255, 255, 0), (100, 100, 100)])
"""The colours, in the order of their numbers."""
LINE, AGENT, LAVA_ORANGE = (100, 100, 100), (255, 0, 0), np.array([255, 128, 0])

WHOLE = (0.0, 1.0, 0.0, 1.0)
GRID_LINES = (0.0, 0.031, 0.0, 1.0), (0.0, 1.0, 0.0, 0.031)
SHAPES = {
    **{(kind, 0): [(WHOLE, 1.0)] for kind in (WALL, GOAL, LAVA)},
    (BALL, 0): [((0.5, 0.5, 0.31), 1.0)],
    (KEY, 0): [
        ((0.5, 0.63, 0.31, 0.88), 1.0),
        ((0.38, 0.5, 0.59, 0.66), 1.0),
        ((0.38, 0.5, 0.81, 0.88), 1.0),
        ((0.56, 0.28, 0.19), 1.0),
        ((0.56, 0.28, 0.064), 0.0),
    ],
    (BOX, 0): [((0.12, 0.88, 0.12, 0.88), 1.0), ((0.18, 0.82, 0.18, 0.82), 0.0), ((0.16, 0.84, 0.47, 0.53), 1.0)],
    (DOOR, OPEN): [((0.88, 1.0, 0.0, 1.0), 1.0), ((0.92, 0.96, 0.04, 0.96), 0.0)],
    (DOOR, CLOSED): [
        (WHOLE, 1.0),
        ((0.04, 0.96, 0.04, 0.96), 0.0),
        ((0.08, 0.92, 0.08, 0.92), 1.0),
        ((0.12, 0.88, 0.12, 0.88), 0.0),
        ((0.75, 0.5, 0.08), 1.0),
    ],
    (DOOR, LOCKED): [(WHOLE, 1.0), ((0.06, 0.94, 0.06, 0.94), 0.45), ((0.52, 0.75, 0.5, 0.56), 1.0)],
}
"""The look of each object, by its kind and state: a list of shapes, later ones painted over earlier ones.

Each shape comes with a factor between 0 and 1 for the object's colour. A shape is a rectangle (west, east, north,
south) or a disc (x and y of its centre, radius). A tile is 1 wide and 1 high."""

_observe = jax.jit(observe_minigrid)
Pixels = UInt8[np.ndarray, "height width 3"]


def draw_minigrid(size: Int[Array, "2"], state: MiniGridState, tile: int = 32) -> Pixels:
    """Draw the map with the agent as a red triangle. The cells that the agent sees have lighter colours.

    `size` is the number of columns and rows that are drawn. `tile` is the width and height of a cell in pixels.
    """
    columns, rows = np.asarray(size).tolist()
    column, row = np.asarray(state.position).tolist()
    cells, lit = np.asarray(state.cells)[:rows, :columns], _minigrid_cells_drawn_lit(np.asarray(size), state)
    things, which = np.unique(cells, return_inverse=True)
    looks = np.stack(
        [[_draw_minigrid_tile(thing, is_lit, None, tile) for is_lit in (False, True)] for thing in things.tolist()]
    )
    tiles = looks[which, lit.astype(int)]
    tiles[row, column] = _draw_minigrid_tile(
        int(cells[row, column]), bool(lit[row, column]), int(state.direction), tile
    )
    return tiles.swapaxes(1, 2).reshape(rows * tile, columns * tile, 3)


def _minigrid_cells_drawn_lit(size: Int[np.ndarray, "2"], state: MiniGridState) -> Bool[np.ndarray, "rows columns"]:
    direction = int(state.direction)
    ahead, aside = HEADING_VECTORS[direction], HEADING_VECTORS[(direction + 1) % 4]
    # The first index of the view grows to the agent's right, the second grows towards the agent.
    i, j = np.nonzero(np.asarray(_observe(state))[:, :, 0] != UNSEEN)
    seen = np.asarray(state.position) + np.outer(i - MIDDLE, aside) + np.outer(VIEW - 1 - j, ahead)
    column, row = seen[((seen >= 0) & (seen < size)).all(axis=1)].T
    lit = np.zeros(size[::-1], bool)
    lit[row, column] = True
    return lit


@lru_cache(maxsize=1024)
def _draw_minigrid_tile(thing: int, lit: bool, direction: int | None, tile: int) -> Pixels:
    """Draw one cell. If a direction is given, the agent is in this cell."""
    kind = thing & 15
    state = 0 if kind == BOX else thing >> 7  # a box hides its content
    colour = LAVA_ORANGE if kind == LAVA else RGB[thing >> 4 & 7]
    side = SMOOTHING * tile
    large = np.zeros((side, side, 3), np.uint8)
    for line in GRID_LINES:
        large[_draw_minigrid_shape(line, side)] = LINE
    for shape, share in SHAPES.get((kind, state), []):
        large[_draw_minigrid_shape(shape, side)] = share * colour
    if kind == LAVA:
        large[_draw_minigrid_lava_waves(side)] = 0
    if direction is not None:
        large[np.rot90(_draw_minigrid_agent(side), -direction)] = AGENT
    if lit:
        large = (large + LIGHT * (255 - large)).astype(np.uint8)
    # Take the mean along rows first and then along columns. The other order would round some pixels differently.
    along_rows = large.reshape(side, tile, SMOOTHING, 3).mean(axis=2)
    return along_rows.reshape(tile, SMOOTHING, tile, 3).mean(axis=1).astype(np.uint8)


def _minigrid_drawing_points(side: int) -> tuple[Float[np.ndarray, "1 side"], Float[np.ndarray, "side 1"]]:
    """Return x and y of the middle of every pixel."""
    middles = (np.arange(side) + 0.5) / side
    return middles[None, :], middles[:, None]


def _draw_minigrid_shape(shape: tuple[float, ...], side: int) -> Bool[np.ndarray, "side side"]:
    x, y = _minigrid_drawing_points(side)
    if len(shape) == 3:
        centre_x, centre_y, radius = shape
        return (x - centre_x) * (x - centre_x) + (y - centre_y) * (y - centre_y) <= radius * radius
    west, east, north, south = shape
    return (x >= west) & (x <= east) & (y >= north) & (y <= south)


def _draw_minigrid_lava_waves(side: int) -> Bool[np.ndarray, "side side"]:
    """Draw three zigzag lines, one below the other.

    Each line is 0.1 high. Its lowest points are at x = 0.3 and x = 0.7.
    """
    x, y = _minigrid_drawing_points(side)
    from_bend = np.abs(np.abs(x - 0.5) - 0.2)  # maps the four strokes of a line onto one, from 0 to 0.2
    drawn = np.zeros((side, side), bool)
    for top in (0.3, 0.5, 0.7):
        above = top + 0.1 - y
        along = np.clip((from_bend * 0.2 + above * 0.1) / 0.05, 0, 1)  # the nearest point on the stroke
        drawn |= np.hypot(from_bend - 0.2 * along, above - 0.1 * along) <= 0.03
    return drawn


def _draw_minigrid_agent(side: int) -> Bool[np.ndarray, "side side"]:
    """Draw the agent, which looks east."""
    x, y = _minigrid_drawing_points(side)
    # 1e-9: a point on the southern edge is inside the triangle, a point on the northern edge is outside. Farama's
    # package gives the same pixels, because of rounding errors in the corners of its triangle.
    return (x >= 0.12) & (np.abs(y - 0.5 - 1e-9) <= 0.31 * (0.87 - x) / 0.75)
