"""The continuous gridworlds of docs/method.md, section "Gridworlds"."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from alphamepol.environments.cmp import CMP
from alphamepol.environments.gridworld.layouts import parse_gridworld_layout
from alphamepol.environments.maps import Map, MapPatch
from alphamepol.errors import InputError

MAX_STEP = 0.2
"""Δ: the largest displacement per axis that an action can cause."""

SLOPE_DEVIATION = MAX_STEP / 20
SHORTEST_WAY = 1e-7
"""The length along an axis below which a way counts as standing still on this axis."""
START_WEST, START_EAST, START_SOUTH, START_NORTH = -1.0, -0.5, 0.5, 1.0
DIRECTIONS = {
    "north": (0.0, 1.0),
    "south": (0.0, -1.0),
    "east": (1.0, 0.0),
    "west": (-1.0, 0.0),
    "north-east": (1.0, 1.0),
    "north-west": (-1.0, 1.0),
    "south-east": (1.0, -1.0),
    "south-west": (-1.0, -1.0),
}

Position = Float[Array, "2"]


class Gridworld(CMP):
    """A continuous gridworld: a point that moves in the square [−1, 1]² with walls and a slope.

    x grows to the east and y to the north. The state is the position, which is also the observation and the particle.
    An action is a displacement of at most 0.2 per axis. The start is uniform over the free part of the north-west
    square x ≤ −0.5, y ≥ 0.5. A trajectory never ends early. docs/method.md, section "Gridworlds", describes collisions.

    **Arguments**

    - `layout`: the map as text, with `.` for a free cell and `#` for a wall. The top line is north. The cells are
      equally large and fill the square.
    - `slope`: the direction in which the slope moves the point: "north", "south", "east", "west", "north-east",
      "north-west", "south-east" or "south-west". None (the default) is level ground. A diagonal slope adds the same
      random length on both axes.
    - `slope_mean`: the mean length that the slope adds to every step. The default is 0.1.
    - `slope_above`: the smallest y at which the slope acts: −1 (the default) is everywhere, 0 is the north half.
    - `solid`: if True, the point never passes through a wall. If False (the default, as in the paper), only the end of
      a step is tested, so that the point can jump over walls that are thinner than a step.

    **Raises**

    - `InputError`: if the map is malformed or its north-west square is all wall, if the slope is no direction, or if
      `slope_mean` is negative or not finite.

    **Example**

    ```python
    import jax

    import alphamepol as am

    layout = '''
        ..#..
        .....
        ..#..
    '''
    rooms = am.Gridworld(layout, slope="south", slope_above=0.0)
    start = rooms.reset(key=jax.random.key(0))
    print(start.shape, rooms.is_wall(start), round(rooms.entropy_ceiling, 3))  # (2,) False 1.243
    ```
    """

    walls: Bool[Array, "rows columns"]
    slope_direction: Float[Array, "2"]
    slope_mean: Float[Array, ""]
    slope_above: Float[Array, ""]
    solid: bool = eqx.field(static=True)
    """True if walls are tested along the whole step."""

    def __init__(
        self,
        layout: str,
        *,
        slope: str | None = None,
        slope_mean: float = MAX_STEP / 2,
        slope_above: float = -1.0,
        solid: bool = False,
    ):
        walls = parse_gridworld_layout(layout)
        if not np.any(_gridworld_start_areas(*walls.shape) * ~walls):
            raise InputError("layout: the north-west square x ≤ -0.5, y ≥ 0.5, where trajectories start, is all wall")
        if slope is not None and slope not in DIRECTIONS:
            raise InputError(f"slope: {slope!r} is no direction; choose from {', '.join(DIRECTIONS)}, or None")
        if not (math.isfinite(slope_mean) and slope_mean >= 0):
            raise InputError(f"slope_mean: {slope_mean} was given; it must be finite and at least 0")
        self.walls = jnp.asarray(walls)
        self.slope_direction = jnp.array(DIRECTIONS[slope] if slope else (0.0, 0.0), float)
        self.slope_mean = jnp.array(slope_mean if slope else 0.0, float)
        self.slope_above = jnp.array(slope_above, float)
        self.solid = solid

    @classmethod
    def of_walls(
        cls,
        walls: Bool[Array, "rows columns"],
        slope_direction: Float[Array, "2"],
        slope_mean: Float[Array, ""],
        slope_above: Float[Array, ""],
    ) -> "Gridworld":
        """Return a gridworld with solid walls from arrays, which may be traced by JAX. Nothing is checked.

        `slope_direction` may be any vector. Its length multiplies the length of the slope.
        """
        made = object.__new__(cls)
        for name, value in (
            ("walls", walls),
            ("slope_direction", slope_direction),
            ("slope_mean", slope_mean),
            ("slope_above", slope_above),
            ("solid", True),
        ):
            object.__setattr__(made, name, value)
        return made

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-MAX_STEP, MAX_STEP, (2,), np.float32)

    @property
    def entropy_ceiling(self) -> float:
        """The largest possible entropy of particles in nats: the logarithm of the free area."""
        return math.log(4.0 * float(np.mean(~np.asarray(self.walls))))

    @property
    def entropy_names(self) -> tuple[str, ...]:
        return "x", "y"

    @property
    def map(self) -> Map:
        rows, columns = self.walls.shape
        size = 2 / columns, 2 / rows
        places = np.argwhere(np.asarray(self.walls)).tolist()
        walls = (MapPatch((column * size[0] - 1, 1 - (row + 1) * size[1]), size, "wall") for row, column in places)
        return Map((-1.0, 1.0, -1.0, 1.0), tuple(walls))

    def reset(self, *, key: PRNGKeyArray) -> Position:
        """Draw a position uniformly from the free part of the north-west square x ≤ −0.5, y ≥ 0.5."""
        cell_key, place_key = jax.random.split(key)
        areas = jnp.where(self.walls, 0.0, _gridworld_start_areas(*self.walls.shape))
        cell = jax.random.categorical(cell_key, jnp.log(areas).ravel())
        row, column = jnp.unravel_index(cell, self.walls.shape)
        west, south, east, north = (jnp.asarray(edge) for edge in _gridworld_start_boxes(*self.walls.shape))
        low = jnp.stack([west[column], south[row]])
        high = jnp.stack([east[column], north[row]])
        position = low + (high - low) * jax.random.uniform(place_key, (2,))
        # Rounding may put a draw on the edge of the cell, which can belong to a neighbouring wall.
        return jnp.where(self.is_wall(position), (low + high) / 2, position)

    def step(self, state: Position, action: Float[Array, "2"], *, key: PRNGKeyArray) -> Position:
        """Move by the clipped action plus the slope. Turn at the outer border, and bounce off inner walls."""
        slope_key, bounce_key = jax.random.split(key)
        displacement = jnp.clip(action, -MAX_STEP, MAX_STEP) + self.slope(state, key=slope_key)
        way = turn_at_gridworld_border(state, displacement)
        back = jax.random.uniform(bounce_key, (2,), maxval=MAX_STEP / 2)
        bounced = jnp.clip(state - jnp.sign(displacement) * back, -1.0, 1.0)
        in_front_of_wall = jnp.where(self._meets_wall((state, bounced)), state, bounced)
        return jnp.where(self._meets_wall((state, *way)), in_front_of_wall, way[-1])

    def observe(self, state: Position) -> Float[Array, "2"]:
        return state

    def features(self, state: Position) -> Float[Array, "2"]:
        return state

    def ended(self, state: Position) -> Bool[Array, ""]:
        return jnp.array(False)

    def slope(self, position: Position, *, key: PRNGKeyArray) -> Float[Array, "2"]:
        """Draw the displacement that the slope adds at a position, of shape (2,).

        Its length has a normal distribution truncated to [0, 2 · mean].
        """
        bound = self.slope_mean / SLOPE_DEVIATION
        magnitude = self.slope_mean + SLOPE_DEVIATION * jax.random.truncated_normal(key, -bound, bound)
        return jnp.where(position[1] >= self.slope_above, magnitude, 0.0) * self.slope_direction

    def is_wall(self, position: Position) -> Bool[Array, ""]:
        """Tell whether a position in the square lies in a wall cell."""
        rows, columns = self.walls.shape
        column = jnp.sum(position[0] >= _gridworld_cell_edges(columns, upward=True))
        row = jnp.sum(position[1] <= _gridworld_cell_edges(rows, upward=False))
        return self.walls[row, column]

    def _meets_wall(self, way: Sequence[Position]) -> Bool[Array, ""]:
        """Tell whether a way ends in a wall or, if walls are solid, whether any part of it is in a wall."""
        met = self.is_wall(way[-1])
        if self.solid:
            for start, end in pairwise(way):
                met |= gridworld_segment_meets_wall(self.walls, start, end)
        return met

    def draw_place(self, *, key: PRNGKeyArray) -> Position:
        """Draw a position uniformly from the free space.

        It is a uniform place in a uniformly drawn free cell, because all cells are equally large.
        """
        cell_key, place_key = jax.random.split(key)
        cell = jax.random.categorical(cell_key, jnp.where(self.walls, -jnp.inf, 0.0).ravel())
        row, column = jnp.unravel_index(cell, self.walls.shape)
        size = 2.0 / jnp.array(self.walls.shape[::-1])
        # Keep away from the edges by more than a rounding error, so that the place is not in a neighbouring wall.
        within = jax.random.uniform(place_key, (2,), minval=1e-5, maxval=1 - 1e-5)
        return jnp.array([-1.0, 1.0]) + jnp.array([1.0, -1.0]) * size * (jnp.stack([column, row]) + within)

    def explain_no_place(self, place: Sequence[float | int]) -> str | None:
        if len(place) != 2:
            return f"which has {len(place)} coordinates; a place in a gridworld has 2"
        if not all(-1 <= coordinate <= 1 for coordinate in place):
            return "which is outside the square; coordinates are from -1 to 1"
        if _gridworld_has_wall(self, np.array(place, np.float32)):
            return "which is inside a wall; choose a place in the free space"
        return None


@jax.jit
def _gridworld_has_wall(member: Gridworld, place: Float[Array | np.ndarray, "2"]) -> Bool[Array, ""]:
    return member.is_wall(jnp.asarray(place))


def gridworld_segment_meets_wall(walls: Bool[Array, "rows columns"], start: Position, end: Position) -> Bool[Array, ""]:
    """Tell whether a straight line meets a wall. A line that only touches the corner of a wall meets it, too.

    The line is in a column of cells between two fractions of its length, and likewise in a row. It is in a cell if
    these two intervals have a common part.
    """
    rows, columns = walls.shape
    into_column, out_of_column = _gridworld_fractions_in_strips(start[0], end[0], columns)
    into_row, out_of_row = _gridworld_fractions_in_strips(-start[1], -end[1], rows)
    into = jnp.maximum(into_row[:, None], into_column[None, :])
    out_of = jnp.minimum(out_of_row[:, None], out_of_column[None, :])
    # A point that begins on the edge of a wall and moves away from it does not meet this wall.
    return jnp.any(walls & (into <= out_of) & (out_of > 0))


def _gridworld_fractions_in_strips(
    start: Float[Array, ""], end: Float[Array, ""], count: int
) -> tuple[Float[Array, " strips"], Float[Array, " strips"]]:
    """Return the fractions of a way at which it enters and leaves each of `count` equal strips of [−1, 1].

    The first fraction is above the second for a strip that the way does not meet.
    """
    edges = jnp.linspace(-1.0, 1.0, count + 1)
    moved = end - start
    still = jnp.abs(moved) < SHORTEST_WAY
    fractions = (edges - start) / jnp.where(still, 1.0, moved)
    low, high = jnp.minimum(fractions[:-1], fractions[1:]), jnp.maximum(fractions[:-1], fractions[1:])
    inside = (edges[:-1] <= start) & (start <= edges[1:])
    low = jnp.where(still, jnp.where(inside, 0.0, jnp.inf), low)
    high = jnp.where(still, jnp.where(inside, 1.0, -jnp.inf), high)
    return jnp.maximum(low, 0.0), jnp.minimum(high, 1.0)


def turn_at_gridworld_border(position: Position, displacement: Float[Array, "2"]) -> tuple[Position, ...]:
    """Return the corners and the end of the way of a displacement that the outer border may turn.

    The point moves up to the border. There, the magnitudes of the two components of the remaining displacement are
    swapped. The remaining displacement keeps its direction along the border and points inward across it. A corner
    turns it twice.
    """
    way = []
    for _ in range(4):
        target = position + displacement
        outside = jnp.abs(target) > 1.0
        border = jnp.sign(displacement)
        # The fraction of the displacement that reaches each border; 1 if it does not cross this border.
        fractions = jnp.where(outside, (border - position) / jnp.where(outside, displacement, 1.0), 1.0)
        axis = jnp.argmin(fractions)
        crosses = jnp.any(outside)  # if not, the displacement is used up and the remaining turns change nothing
        fraction = jnp.where(crosses, jnp.clip(fractions[axis], 0.0, 1.0), 1.0)
        across = jnp.arange(2) == axis
        crossing = jnp.where(crosses & across, border, position + fraction * displacement)
        left = (1.0 - fraction) * displacement
        along_sign = jnp.where(left < 0, -1.0, 1.0)
        turned = jnp.abs(left[::-1]) * jnp.where(across, -border, along_sign)
        position = jnp.clip(crossing, -1.0, 1.0)
        displacement = jnp.where(crosses, turned, 0.0)
        way.append(position)
    return tuple(way)


@cache
def _gridworld_cell_edges(cells: int, *, upward: bool) -> Float[np.ndarray, " edges"]:
    """Return the edges between equal cells of [−1, 1] in float32.

    They are rounded such that the comparison of a float32 number with them is exact.
    """
    edges = []
    for i in range(1, cells):
        exact = Fraction(2 * i, cells) - 1
        edge = np.float32(float(exact))
        if upward and Fraction(float(edge)) < exact:
            edge = np.nextafter(edge, np.float32(2))
        if not upward and Fraction(float(edge)) > exact:
            edge = np.nextafter(edge, np.float32(-2))
        edges.append(edge)
    return np.array(edges, dtype=np.float32)


def _gridworld_start_boxes(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges of the part of each cell that is inside the start square.

    These are the west edge of each column, the south edge of each row, the east edge of each column, and the north edge
    of each row.
    """
    west_to_east = np.linspace(-1.0, 1.0, columns + 1, dtype=np.float32)
    north_to_south = np.linspace(1.0, -1.0, rows + 1, dtype=np.float32)
    return (
        np.clip(west_to_east[:-1], START_WEST, START_EAST),
        np.clip(north_to_south[1:], START_SOUTH, START_NORTH),
        np.clip(west_to_east[1:], START_WEST, START_EAST),
        np.clip(north_to_south[:-1], START_SOUTH, START_NORTH),
    )


def _gridworld_start_areas(rows: int, columns: int) -> Float[np.ndarray, "rows columns"]:
    west, south, east, north = _gridworld_start_boxes(rows, columns)
    return np.outer(north - south, east - west)
