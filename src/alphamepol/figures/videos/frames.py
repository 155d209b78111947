"""The frames of a video: pictures of several episodes side by side, each below its caption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import UInt8
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont

from alphamepol.figures.style import figure_font_has
from alphamepol.files.names import name_as_text

Pixels = UInt8[np.ndarray, "_ _ 3"]
Cell = tuple[tuple[str, ...], Pixels, str]
"""The names, the picture, and the line about it."""
WIDEST = 480
"""The largest width of a picture in a frame, in pixels."""
WIDEST_FRAME = 1600
"""The largest width of a frame."""
ROOM, LINE = 8, 1.35
"""The room around pictures in pixels, and the height of a line of text in units of its font size."""
PAPER, INK, SOFT, EDGE = (255, 255, 255), (25, 28, 33), (95, 101, 110), (205, 209, 214)
"""The colours of the background, of names, of what is said about a step, and of the edges of pictures."""
SHORTEST, LONGEST = 12, 80
"""The least number of characters to which a name is shortened, and the most that are shown."""


@dataclass(frozen=True)
class Panel:
    """One episode as a part of a video."""

    names: tuple[str, ...]
    """The lines above its pictures, such as the member and the method. They may be any text."""
    pictures: Sequence[Pixels]
    """The pictures in the order of time."""
    sayings: Sequence[str]
    """The line above each picture, which says what the picture shows. It is short, and the font has its glyphs."""

    def at(self, number: int) -> tuple[Pixels, str]:
        """Return a picture and its line. An episode that has ended stays at its last picture."""
        last = min(number, len(self.pictures) - 1)
        return self.pictures[last], self.sayings[last]


def width_in_frame(columns: int) -> int:
    """Return the width of a picture if so many of them are side by side."""
    return min(WIDEST, (WIDEST_FRAME - ROOM) // columns - ROOM)


def reduce_to_frame(picture: Pixels, columns: int) -> Pixels:
    """Return a picture that is not wider than a frame of so many columns allows, and not much higher than wide."""
    height, width = picture.shape[:2]
    most = width_in_frame(columns)
    scale = min(1.0, most / width, 1.25 * most / height)
    if scale == 1.0:
        return picture
    size = max(1, round(scale * width)), max(1, round(scale * height))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def compose_frame(panels: Sequence[Panel], columns: int, number: int) -> Pixels:
    """Return frame `number` of a video: the panels in rows of `columns`. Width and height are even, for codecs."""
    return _frame_of_cells([(panel.names, *panel.at(number)) for panel in panels], columns)


def compose_strip(panels: Sequence[Panel], numbers: Sequence[int]) -> Pixels:
    """Return one picture with some frames side by side, one row for each episode. A row stops where its episode ends.

    The last picture of each episode is shown.
    """
    cells: list[Cell | None] = []
    for panel in panels:
        last = len(panel.pictures) - 1
        shown = [number for number in numbers if number < last]
        shown += [last][: len(numbers) - len(shown)]
        row = [(panel.names, *panel.at(number)) for number in shown]
        small = [(names, reduce_to_frame(picture, len(numbers)), saying) for names, picture, saying in row]
        small[1:] = [((), picture, saying) for _, picture, saying in small[1:]]
        cells += small + [None] * (len(numbers) - len(small))
    return _frame_of_cells(cells, len(numbers))


def _frame_of_cells(cells: Sequence[Cell | None], columns: int) -> Pixels:
    """Return a frame with cells in rows of `columns`. A cell that is None stays empty."""
    width = max(96, *(cell[1].shape[1] for cell in cells if cell))
    height = max(cell[1].shape[0] for cell in cells if cell)
    size = int(np.clip(width // 22, 11, 18))
    spacing = round(size * LINE)
    named = max(len(cell[0]) for cell in cells if cell)
    head = (named + 1) * spacing + ROOM // 2
    rows = -(-len(cells) // columns)
    across, down = columns * (width + ROOM) + ROOM, rows * (height + head + ROOM) + ROOM
    frame = Image.new("RGB", (across + across % 2, down + down % 2), PAPER)
    canvas = ImageDraw.Draw(frame)
    for i, cell in enumerate(cells):
        if cell is None:
            continue
        names, picture, saying = cell
        x, y = ROOM + i % columns * (width + ROOM), ROOM + i // columns * (height + head + ROOM)
        lines = [_name_in_width(name, width, size) for name in names] + [""] * (named - len(names))
        for text, colour, points in [*((line, INK, size) for line in lines), (saying, SOFT, size - 1)]:
            canvas.text((x, y), text, colour, _frame_font(points))
            y += spacing
        west, north = x + (width - picture.shape[1]) // 2, y + ROOM // 2
        frame.paste(Image.fromarray(picture), (west, north))
        canvas.rectangle((west, north, west + picture.shape[1] - 1, north + picture.shape[0] - 1), outline=EDGE)
    return np.asarray(frame)


@cache
def _frame_font(points: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(findfont(FontProperties()), points)


@cache
def _name_in_width(name: str, width: int, points: int) -> str:
    """Return a name as one line that fits into a width, with glyphs that the font has."""
    measure: Callable[[str], float] = _frame_font(points).getlength
    characters, shown = LONGEST, name_as_text(name, LONGEST, figure_font_has)
    while measure(shown) > width and characters > SHORTEST:
        characters = max(SHORTEST, min(characters - 1, int(len(shown) * width / measure(shown))))
        shown = name_as_text(name, characters, figure_font_has)
    return shown
