"""Maps of members, which figures draw."""

from dataclasses import dataclass
from typing import Literal

PatchKind = Literal["wall", "door", "goal", "level"]


@dataclass(frozen=True)
class MapPatch:
    """A rectangle on a map."""

    corner: tuple[float, float]
    """The corner with the smallest x and y."""
    size: tuple[float, float]
    kind: PatchKind
    """The kind of ground. A "level" is ground of one height; figures draw its outline."""


@dataclass(frozen=True)
class Map:
    """The map of a member for figures: its extent, and rectangles such as walls, doors and goals."""

    extent: tuple[float, float, float, float]
    """The west, east, south and north end. If y grows southward, the south end is larger than the north end."""
    patches: tuple[MapPatch, ...] = ()
    cells: tuple[int, int] | None = None
    """The numbers of columns and rows, if the places are cells of a grid; else None.

    Cells are counted from 0 in the north-west. The extent may be smaller than this grid: if the maps of a class have
    different sizes, all of them are padded to the same grid."""
