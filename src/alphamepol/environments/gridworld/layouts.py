"""The maps of the gridworlds as text. The top line is north, the left column is west, and `#` is a wall."""

import numpy as np
from jaxtyping import Bool

from alphamepol.errors import InputError

FREE, WALL = ".", "#"


def parse_gridworld_layout(text: str) -> Bool[np.ndarray, "rows columns"]:
    """Return the walls of a map as a table of booleans. Row 0 is the northernmost line."""
    lines = text.split()
    if not lines:
        raise InputError("layout: the map is empty; draw it with '.' for free cells and '#' for walls")
    if len({len(line) for line in lines}) > 1:
        lengths = ", ".join(str(len(line)) for line in lines)
        raise InputError(f"layout: all lines of a map must be equally long, these have {lengths} cells")
    strange = sorted(set("".join(lines)) - {FREE, WALL})
    if strange:
        raise InputError(f"layout: unknown cell {strange[0]!r}; use '.' for free cells and '#' for walls")
    walls = np.array([[cell == WALL for cell in line] for line in lines])
    if walls.all():
        raise InputError("layout: every cell is a wall; at least one must be free ('.')")
    return walls


_SIDE_BY_SIDE = (
    """
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
    """,
    """
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
    """,
)

MULTIGRID: tuple[str, ...] = tuple(
    "\n".join(column)
    for block in _SIDE_BY_SIDE
    for column in zip(*(line.split() for line in block.split("\n") if line.strip()), strict=True)
)
"""The ten maps of MultiGrid, members 0 to 9."""

FOUR_ROOMS = MULTIGRID[0]
TWO_HALLS = MULTIGRID[7]
