"""Maps of the ground that members are on, for pictures."""

from dataclasses import dataclass
from typing import Literal

PatchKind = Literal["wall", "door", "goal", "level"]


@dataclass(frozen=True)
class MapPatch:
    """A rectangle of the ground."""

    corner: tuple[float, float]
    """Where x and y are least."""
    size: tuple[float, float]
    kind: PatchKind
    """A level is ground of one height, of which the outline is drawn."""


@dataclass(frozen=True)
class Map:
    """Where places are, and what is there."""

    extent: tuple[float, float, float, float]
    """West, east, south and north end. Where y grows southward, the south end is the larger."""
    patches: tuple[MapPatch, ...] = ()
    cells: tuple[int, int] | None = None
    """Columns and rows of the grid, if places are its cells, counted from 0 in the north-west; the extent may be that
    of a part of it, where maps of different sizes make a class."""
