"""The staircases of Ant Stairs: their shapes, and the maps that figures draw."""

import math
from dataclasses import dataclass

from alphamepol.environments.maps import Map, MapPatch

SIDE = 2.0
"""The side of a block."""
WEST, EAST, SOUTH = -1.0, 7.0, -1.0
BOTTOM = -1.0
"""The height of the bottom of all blocks. It is below the ground, so that all blocks have visible sides."""
HIDDEN = (0.0, 0.0, -50.0), (0.01, 0.01, 0.01)
"""The place and the size of a block that nobody shall see or touch."""
START_ABOVE_GROUND = 0.75


@dataclass(frozen=True)
class Stairs:
    """The staircase of a member: columns of blocks with walls around them. It begins at x = −1, y = −1."""

    heights: tuple[float, float, float, float]
    """The heights of the columns, from west to east. Trajectories start on the first column."""
    width: float
    """The width from south to north."""
    goals: tuple[float, ...] = ()
    """The x of the goals of the member's tasks."""

    @property
    def north(self) -> float:
        return SOUTH + self.width

    @property
    def entropy_ceiling(self) -> float:
        return math.log((EAST - WEST) * self.width)


STAIRS = {
    "Down": Stairs((1.27, 0.90, 0.50, 0.0), 3 * SIDE),
    "Up": Stairs((0.0, 0.50, 0.90, 1.27), SIDE, goals=(2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25, 4.5)),
}
NORTH = max(stairs.north for stairs in STAIRS.values())


def map_of_stairs(stairs: Stairs) -> Map:
    """Return the map of a member. All maps have the extent of the widest staircase."""
    columns = enumerate(stairs.heights)
    blocks = tuple(MapPatch((WEST + i * SIDE, SOUTH), (SIDE, stairs.width), "level") for i, _ in columns)
    beyond = NORTH - stairs.north
    wall = (MapPatch((WEST, stairs.north), (EAST - WEST, beyond), "wall"),) if beyond else ()
    return Map((WEST, EAST, SOUTH, NORTH), blocks + wall)
