"""A second implementation of a gridworld step, from the specification alone: scalar, float64, plain Python.

It shares nothing with the package: the maps and the table of slopes are copied from the specification, too.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DELTA = 0.2
INNER_EDGES = np.array([-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8])
HANDFUL = 6
"""The most turns of a displacement at the border. Only one along a border into a corner turns more than twice."""

_MAPS_0_TO_4 = """
....##....  ......##..  ....##....  ..........  ..........
....##....  ......##..  ....##....  ..........  ..........
..........  ......##..  ....##....  ########..  #.........
....##....  ##....##..  ..........  ##........  #.........
##.####.##  ##........  ....##....  ##........  #..####...
##.####.##  ##........  ....##....  ######....  #.........
....##....  ##........  ..........  ######....  ...####...
..........  ##........  ....##....  ####......  ...####...
....##....  ########..  ....##....  ####......  ...####...
....##....  ########..  ....##....  ####......  ...####...
"""
_MAPS_5_TO_9 = """
..########  .......###  ..........  ......####  ..........
..########  .......###  ..........  ......####  ..######..
..########  .......###  ..........  ........##  ..######..
..########  .......###  #####.####  ........##  ..##..##..
..........  ####..####  #####.####  ....##....  ..........
..........  ####..####  #####.####  ....##....  ..........
..##...###  .......###  ..........  ##......##  ..##..##..
..##...###  .......###  ..........  ##......##  ..######..
..##...###  .......###  ..........  ####..####  ..######..
..##...###  ##########  ..........  ####..####  ..........
"""
MAPS = [
    [line.split()[i] for line in maps.strip().splitlines()] for maps in (_MAPS_0_TO_4, _MAPS_5_TO_9) for i in range(5)
]
"""The ten maps, each a list of ten lines from north to south."""

WALLS = np.array([[[cell == "#" for cell in line] for line in lines] for lines in MAPS])


class Member(NamedTuple):
    """The facts that the specification gives for one member."""

    class_name: str
    name: str
    layout: int
    slope_mean: float
    slope_direction: tuple[int, int]
    """The components east and north; (0, 0) is level ground."""
    slope_above: float
    """The smallest y at which the slope acts."""

    @property
    def walls(self) -> np.ndarray:
        return WALLS[self.layout]


NORTH, SOUTH, EAST, SOUTH_EAST, LEVEL = (0, 1), (0, -1), (1, 0), (1, -1), (0, 0)
EVERYWHERE = -1.0

MEMBERS = [
    Member("gridworld-slope", "GWS", 0, DELTA / 2, SOUTH, 0.0),
    Member("gridworld-slope", "GWN", 0, DELTA / 2, NORTH, 0.0),
    Member("multigrid", "MG0", 0, DELTA / 2.6, NORTH, 0.0),
    Member("multigrid", "MG1", 1, DELTA / 3.2, EAST, EVERYWHERE),
    Member("multigrid", "MG2", 2, DELTA / 3.2, SOUTH, EVERYWHERE),
    Member("multigrid", "MG3", 3, DELTA / 3.2, SOUTH_EAST, EVERYWHERE),
    Member("multigrid", "MG4", 4, 0.0, LEVEL, EVERYWHERE),
    Member("multigrid", "MG5", 5, DELTA / 3.2, EAST, EVERYWHERE),
    Member("multigrid", "MG6", 6, DELTA / 3.2, SOUTH, EVERYWHERE),
    Member("multigrid", "MG7", 7, 0.0, LEVEL, EVERYWHERE),
    Member("multigrid", "MG8", 8, 0.0, LEVEL, EVERYWHERE),
    Member("multigrid", "MG9", 9, DELTA / 3.2, EAST, EVERYWHERE),
    Member("gridworld-counterexample", "four-rooms", 0, 0.0, LEVEL, EVERYWHERE),
    Member("gridworld-counterexample", "two-halls", 7, 0.0, LEVEL, EVERYWHERE),
]


class Outcome(NamedTuple):
    position: tuple[float, float]
    turns: int
    """The number of times that the border turned the displacement."""
    wall: str
    """The effect of walls: "none", or the agent "bounced", or it "stayed" because the bounce ended in a wall, too."""
    tested: list[tuple[float, float]]
    """The points that were looked up in the map."""


def step(
    member: Member,
    position: Sequence[float],
    action: Sequence[float],
    magnitude: float,
    bounce: Sequence[float],
) -> Outcome:
    """Move by the clipped action and by a slope of the given magnitude. A bounce has the given lengths."""
    x, y = map(float, position)
    dx, dy = (max(-DELTA, min(DELTA, float(component))) for component in action)
    if y >= member.slope_above:
        dx += float(magnitude) * member.slope_direction[0]
        dy += float(magnitude) * member.slope_direction[1]
    target, turns = turn_at_border((x, y), (dx, dy))
    if not in_wall(member.walls, *target):
        return Outcome(target, turns, "none", [target])
    back = _into_square(x - _sign(dx) * float(bounce[0])), _into_square(y - _sign(dy) * float(bounce[1]))
    if in_wall(member.walls, *back):
        return Outcome((x, y), turns, "stayed", [target, back])
    return Outcome(back, turns, "bounced", [target, back])


def turn_at_border(position: Sequence[float], displacement: Sequence[float]) -> tuple[tuple[float, float], int]:
    """Return the end of a displacement, and the number of times that the border turned it.

    The specification leaves one case open: the rest of the displacement has no component along the border. Here the
    rest then turns east or north.
    """
    (x, y), (dx, dy) = map(float, position), map(float, displacement)
    for turns in range(HANDFUL):
        reaches_x = (_sign(dx) - x) / dx if abs(x + dx) > 1 else np.inf
        reaches_y = (_sign(dy) - y) / dy if abs(y + dy) > 1 else np.inf
        fraction = min(reaches_x, reaches_y)
        if fraction == np.inf:
            return (x + dx, y + dy), turns
        left_x, left_y = (1 - fraction) * dx, (1 - fraction) * dy
        if reaches_x <= reaches_y:
            x, y = float(_sign(dx)), y + fraction * dy
            dx, dy = -_sign(dx) * abs(left_y), (-1 if left_y < 0 else 1) * abs(left_x)
        else:
            x, y = x + fraction * dx, float(_sign(dy))
            dx, dy = (-1 if left_x < 0 else 1) * abs(left_y), -_sign(dy) * abs(left_x)
    return (x, y), HANDFUL


def in_wall(walls: np.ndarray, x, y):
    """Return whether points lie in wall cells. Coordinates may be arrays.

    An edge belongs to the cell east or south of it. The result is exact for float32 points: they can lie on the inner
    edge at 0, but not on another one. Their distance from the other inner edges is at least 1e-9.
    """
    column = np.searchsorted(INNER_EDGES, x, side="right")
    row = np.searchsorted(INNER_EDGES, np.negative(y), side="right")
    return walls[row, column]


def near_an_edge(points: list[tuple[float, float]], within: float = 1e-5) -> bool:
    """Return whether a point is so close to the edge of a cell that float32 may put it into the next cell."""
    return bool(np.min(np.abs(np.reshape(points, (-1, 1)) - INNER_EDGES)) < within)


def _into_square(coordinate: float) -> float:
    return max(-1.0, min(1.0, coordinate))


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
