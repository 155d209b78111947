"""The continuous gridworlds of docs/method.md, section "Gridworlds"."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

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
"""Δ: the largest displacement per axis that an action asks for."""

SLOPE_DEVIATION = MAX_STEP / 20
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
    """A point that moves in the square [−1, 1]², x growing east and y north, among walls and down a slope.

    **Arguments**

    - `layout`: the map as text (`.` free, `#` wall, north at the top); its cells tile the square.
    - `slope`: direction of the slope, a key of `DIRECTIONS`, or None for level ground. On a diagonal the same
      draw acts on both axes.
    - `slope_mean`: mean length that the slope adds to every step.
    - `slope_above`: the slope acts where y is at least this (−1: everywhere, 0: in the north half).

    The state is the position, which is also the observation and the particle.
    """

    walls: Bool[Array, "rows columns"]
    slope_direction: Float[Array, "2"]
    slope_mean: Float[Array, ""]
    slope_above: Float[Array, ""]

    def __init__(
        self, layout: str, *, slope: str | None = None, slope_mean: float = MAX_STEP / 2, slope_above: float = -1.0
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

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-MAX_STEP, MAX_STEP, (2,), np.float32)

    @property
    def entropy_ceiling(self) -> float:
        """ln of the free area."""
        return math.log(4.0 * float(np.mean(~np.asarray(self.walls))))

    @property
    def map(self) -> Map:
        rows, columns = self.walls.shape
        size = 2 / columns, 2 / rows
        places = np.argwhere(np.asarray(self.walls)).tolist()
        walls = (MapPatch((column * size[0] - 1, 1 - (row + 1) * size[1]), size, "wall") for row, column in places)
        return Map((-1.0, 1.0, -1.0, 1.0), tuple(walls))

    def reset(self, *, key: PRNGKeyArray) -> Position:
        """Uniform over the free part of the north-west square."""
        cell_key, place_key = jax.random.split(key)
        areas = jnp.where(self.walls, 0.0, _gridworld_start_areas(*self.walls.shape))
        cell = jax.random.categorical(cell_key, jnp.log(areas).ravel())
        row, column = jnp.unravel_index(cell, self.walls.shape)
        west, south, east, north = (jnp.asarray(edge) for edge in _gridworld_start_boxes(*self.walls.shape))
        low = jnp.stack([west[column], south[row]])
        high = jnp.stack([east[column], north[row]])
        position = low + (high - low) * jax.random.uniform(place_key, (2,))
        # Rounding may put a draw on the cell's edge, which can belong to a wall next to it.
        return jnp.where(self.is_wall(position), (low + high) / 2, position)

    def step(self, state: Position, action: Float[Array, "2"], *, key: PRNGKeyArray) -> Position:
        """Move by the clipped action and the slope; turn at the border, bounce off inner walls."""
        slope_key, bounce_key = jax.random.split(key)
        displacement = jnp.clip(action, -MAX_STEP, MAX_STEP) + self.slope(state, key=slope_key)
        target = turn_at_gridworld_border(state, displacement)
        back = jax.random.uniform(bounce_key, (2,), maxval=MAX_STEP / 2)
        bounced = jnp.clip(state - jnp.sign(displacement) * back, -1.0, 1.0)
        in_front_of_wall = jnp.where(self.is_wall(bounced), state, bounced)
        return jnp.where(self.is_wall(target), in_front_of_wall, target)

    def observe(self, state: Position) -> Float[Array, "2"]:
        return state

    def features(self, state: Position) -> Float[Array, "2"]:
        return state

    def ended(self, state: Position) -> Bool[Array, ""]:
        return jnp.array(False)

    def slope(self, position: Position, *, key: PRNGKeyArray) -> Float[Array, "2"]:
        """The displacement that the slope adds at a position: normal, truncated to [0, 2·mean]."""
        bound = self.slope_mean / SLOPE_DEVIATION
        magnitude = self.slope_mean + SLOPE_DEVIATION * jax.random.truncated_normal(key, -bound, bound)
        return jnp.where(position[1] >= self.slope_above, magnitude, 0.0) * self.slope_direction

    def is_wall(self, position: Position) -> Bool[Array, ""]:
        """Whether a position of the square lies in a wall cell."""
        rows, columns = self.walls.shape
        column = jnp.sum(position[0] >= _gridworld_cell_edges(columns, upward=True))
        row = jnp.sum(position[1] <= _gridworld_cell_edges(rows, upward=False))
        return self.walls[row, column]

    def draw_place(self, *, key: PRNGKeyArray) -> Position:
        """Uniform over the free space: a free cell, all being equally large, and a place in it."""
        cell_key, place_key = jax.random.split(key)
        cell = jax.random.categorical(cell_key, jnp.where(self.walls, -jnp.inf, 0.0).ravel())
        row, column = jnp.unravel_index(cell, self.walls.shape)
        size = 2.0 / jnp.array(self.walls.shape[::-1])
        # Away from the edges by a rounding error, so that the place is in no neighbouring wall.
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


def turn_at_gridworld_border(position: Position, displacement: Float[Array, "2"]) -> Position:
    """Where a displacement ends when the outer border turns it.

    At the crossing point, what is left of the displacement has the magnitudes of its components swapped; it keeps
    its direction along the border and points inward across it. A corner turns it twice.
    """
    for _ in range(4):
        target = position + displacement
        outside = jnp.abs(target) > 1.0
        border = jnp.sign(displacement)
        # The fraction of the displacement that reaches each border; 1 where it is not crossed.
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
    return position


@cache
def _gridworld_cell_edges(cells: int, *, upward: bool) -> Float[np.ndarray, " edges"]:
    """Edges between equal cells of [−1, 1] in float32, rounded so that comparing a float32 with them is exact."""
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
    """West and east edges per column, south and north edges per row, of the cells cut by the start square."""
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
