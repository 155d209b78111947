"""The style of all figures: colours, fonts, names, and file formats."""

import csv
import functools
import io
from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from PIL import Image

from alphamepol.files.atomic import write_atomically
from alphamepol.files.names import WIDTH, name_as_csv, name_as_text

# Okabe and Ito's palette: colour-blind people can tell its colours apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442", "#999999", "#882255")


METHOD_COLOURS = {
    "αMEPOL": COLOURS[0],
    "MEPOL": COLOURS[1],
    "Random": COLOURS[8],
    "trained there alone": COLOURS[2],
    "MAML+R": COLOURS[3],
    "MAML+DIAYN": COLOURS[4],
}
"""The colour of each method, the same in every figure. Keys are labels without the part in parentheses."""


WALL_COLOUR = "#5b6068"


STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
    "text.usetex": False,  # names are no programs of TeX
    "svg.hashsalt": "alphamepol",
}


PNG = ("png",)
"""The format of the figures of runs."""
FORMATS = ("png", "svg")
"""The formats of the figures of experiments."""


def style_colours_of(labels: Sequence[str]) -> dict[str, str]:
    """Return a colour for each label: the colour of its method if no label before has it, else the next free one."""
    found: dict[str, str] = {}
    for label in labels:
        colour = METHOD_COLOURS.get(label.split(" (")[0])
        if colour is not None and colour not in found.values():
            found[label] = colour
    free = (colour for colour in cycle(COLOURS) if colour not in found.values())
    return {label: found.get(label) or next(free) for label in labels}


MEMBER_WIDTH = 28
"""The largest number of characters of a member's name in a figure."""


def name_in_figure(name: str, width: int = WIDTH) -> str:
    """Return a name as matplotlib draws it literally: as one line, without formulas, and with glyphs that the font has.

    Characters that the font does not have are shown as escapes, so that names can be told apart.
    """
    text = name_as_text(name, width, _figure_font_has).replace("$", r"\$")
    # Matplotlib leaves labels that begin with an underscore out of legends.
    return f" {text}" if text.startswith("_") else text


def member_in_figure(name: str) -> str:
    """Return the name of a member as figures show it."""
    return name_in_figure(name, MEMBER_WIDTH)


def _figure_font_has(character: str) -> bool:
    return any(ord(character) in _glyphs_in_figure_font(family) for family in FontProperties().get_family())


@functools.cache
def _glyphs_in_figure_font(family: str) -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=[family]))).get_charmap())


def save_figure_in_style(figure: Figure, folder: Path, name: str, formats: Sequence[str] = PNG) -> None:
    """Write a figure in every format, PNG in 256 colours. Equal figures give equal files."""
    without = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for suffix in formats:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, metadata=without[suffix])
        content = buffer.getvalue()
        write_atomically(folder / f"{name}.{suffix}", in_style_palette(content) if suffix == "png" else content)


def in_style_palette(png: bytes) -> bytes:
    """Return a PNG in at most 256 colours; it looks the same and takes a third of the bytes."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def write_csv_of_figure(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write the numbers of a figure. Names are whole, and no name is a formula of a spreadsheet."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell_of_figure(value) for value in row] for row in rows)
    write_atomically(path, buffer.getvalue())


def _cell_of_figure(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return name_as_csv(value) if isinstance(value, str) else value
