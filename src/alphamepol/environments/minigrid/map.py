"""The maps of MiniGrid as text, and the numbers that stand for the objects on them."""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt16

from alphamepol.errors import InputError

UNSEEN, EMPTY, WALL, DOOR, KEY, BALL, BOX, GOAL, LAVA = 0, 1, 2, 4, 5, 6, 7, 8, 9
"""The kinds of objects, with the numbers that MiniGrid gives them."""
OPEN, CLOSED, LOCKED = 0, 1, 2
KINDS = {"wall": WALL, "door": DOOR, "key": KEY, "ball": BALL, "box": BOX, "goal": GOAL, "lava": LAVA}
COLOURS = {"red": 0, "green": 1, "blue": 2, "purple": 3, "yellow": 4, "grey": 5}
STATES = {"open": OPEN, "closed": CLOSED, "locked": LOCKED}
USUAL_COLOUR = {
    "wall": "grey",
    "goal": "green",
    "lava": "red",
    "door": "yellow",
    "key": "yellow",
    "ball": "blue",
    "box": "purple",
}

FREE = "."
HEADINGS = ">v<^"
"""The characters for the agent at its start, in the order of the directions: east (0), south, west, north."""
LEGEND = {"#": "wall", "D": "closed yellow door", "G": "goal"}

EASY = """
    ##################
    #..........###...#
    #..........#.....#
    #..........#.....#
    #...###..........#
    #..........#.....#
    #...##.....###.###
    #....##..........#
    #....#...........#
    #................#
    #................#
    #...........###..#
    #................#
    #....#..#........#
    #................#
    #................#
    #>...............#
    ##################
"""
ADVERSE = """
    ##########
    #.D......#
    #.#......#
    #.#....###
    #.#......#
    #.#......#
    #.#......#
    #.#......#
    #>#......#
    ##########
"""
EASY_GOALS = (
    *((2, 1), (4, 3), (9, 3), (14, 3), (12, 5), (9, 6), (4, 8)),
    *((14, 8), (7, 10), (16, 10), (4, 13), (9, 13), (14, 13)),
)
ADVERSE_GOALS = (6, 8), (8, 1), (4, 3), (8, 4), (4, 6), (7, 6), (3, 8), (5, 1), (6, 3), (3, 4), (7, 4), (5, 5), (5, 7)
"""The cells (column, row) of the paper's tasks."""


class GridMap(NamedTuple):
    """A map after reading its text."""

    cells: UInt16[np.ndarray, "rows columns"]
    """The code of the object in each cell (`minigrid_map_code`)."""
    start: tuple[int, int]
    """The column and row where the agent starts."""
    heading: int
    """The direction in which the agent looks at the start."""


def minigrid_map_code(kind: int, colour: Any = 0, state: Any = OPEN) -> Any:
    """Return the code of an object: one number for its kind, colour and state. Colour and state may be JAX arrays.

    Bits 0–3 are the kind, bits 4–6 are the colour, and the bits from 7 on are the state. The state of a box is the code
    of the object in it, or `NOTHING`.
    """
    return kind | colour << 4 | state << 7


NOTHING = minigrid_map_code(EMPTY)
GREY_WALL = minigrid_map_code(WALL, COLOURS["grey"])
GREEN_GOAL = minigrid_map_code(GOAL, COLOURS["green"])


def minigrid_map_code_from_words(description: str) -> int:
    """Return the code of an object that is described in words.

    Examples are "goal", "red key", "locked blue door", "grey box" and "grey box with red key".
    """
    outside, _, inside = description.partition(" with ")
    words = outside.split()
    kinds, colours, states = ([word for word in words if word in names] for names in (KINDS, COLOURS, STATES))
    strange = [word for word in words if word not in {*KINDS, *COLOURS, *STATES}]
    known = (
        f"it must be one of {', '.join(KINDS)}, optionally with a colour ({', '.join(COLOURS)}), a door also with "
        "open, closed or locked, and a box with a key or a ball, e.g. 'grey box with red key'"
    )
    if strange:
        hint = difflib.get_close_matches(strange[0], [*KINDS, *COLOURS, *STATES], 1)
        raise InputError(
            f"legend: {description!r} was given, {strange[0]!r} is not known"
            + (f"; did you mean {hint[0]!r}?" if hint else f"; {known}")
        )
    if len(kinds) != 1 or len(colours) > 1 or len(states) > 1 or (states and kinds != ["door"]):
        raise InputError(f"legend: {description!r} was given; {known}")
    content = minigrid_map_code_from_words(inside) if inside else NOTHING
    if inside and (kinds != ["box"] or content & 15 not in (KEY, BALL)):
        raise InputError(f"legend: {description!r} was given; {known}")
    state = STATES[states[0]] if states else {"door": CLOSED, "box": content}.get(kinds[0], OPEN)
    return minigrid_map_code(KINDS[kinds[0]], COLOURS[(colours or [USUAL_COLOUR[kinds[0]]])[0]], state)


def parse_minigrid_map(text: str, legend: Mapping[str, str] | None = None) -> GridMap:
    """Read a map from its text.

    `.` is a free cell, and one of `>v<^` is the start of the agent. `legend` describes the objects of other characters.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    if not any(lines):
        raise InputError("layout: the map is empty; draw it with '.' for free cells and '#' for walls")
    if len({len(line) for line in lines}) > 1:
        lengths = ", ".join(str(len(line)) for line in lines)
        raise InputError(f"layout: all lines of a map must be equally long, these have {lengths} cells")
    things = LEGEND | dict(legend or {})
    for character in things:
        if len(character) != 1 or character.isspace() or character in FREE + HEADINGS:
            raise InputError(
                f"legend: {character!r} was given; it must be one character other than '.', the free cell, and "
                f"{HEADINGS}, the agent"
            )
    strange = sorted(set("".join(lines)) - {*things, FREE, *HEADINGS})
    if strange:
        raise InputError(
            f"layout: unknown cell {strange[0]!r}; use '.' for free cells, one of {HEADINGS} for the agent, "
            f"{', '.join(map(repr, things))}, or give a legend"
        )
    starts = [(c, r) for r, line in enumerate(lines) for c, cell in enumerate(line) if cell in HEADINGS]
    if len(starts) != 1:
        raise InputError(f"layout: the agent is on the map {len(starts)} times; mark one start with one of {HEADINGS}")
    ((column, row),) = starts
    codes = {character: minigrid_map_code_from_words(thing) for character, thing in things.items()}
    cells = np.array([[codes.get(cell, NOTHING) for cell in line] for line in lines], np.uint16)
    border = np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
    if not (border == GREY_WALL).all():
        raise InputError("layout: there must be grey walls ('#') all around, so that the agent cannot leave the map")
    return GridMap(cells, (column, row), HEADINGS.index(lines[row][column]))
