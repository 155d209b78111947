"""The style of all figures: colours, fonts, names, and file formats. In a page, colours follow its mode."""

import csv
import functools
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.artist import Artist
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from PIL import Image

from alphamepol.files.atomic import write_atomically
from alphamepol.files.names import WIDTH, name_as_csv, name_as_text

COLOURS = ("#026694", "#87362b", "#547860", "#b68299", "#8e8241", "#3e3e3e", "#776cdf", "#379dcb")
"""The colours of lines and areas. Any two differ for colour-blind people, and the first six also in lightness.

`tests/figures/test_palette.py` simulates three kinds of colour blindness.
"""


METHOD_COLOURS = {
    "αMEPOL": COLOURS[0],
    "MEPOL": COLOURS[1],
    "Random": COLOURS[5],
    "trained there alone": COLOURS[2],
    "MAML+R": COLOURS[3],
    "MAML+DIAYN": COLOURS[4],
}
"""The colour of each method, the same in every figure. Keys are labels without the part in parentheses."""


DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (3, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (1.2, 1.2)))
"""The dashes of lines, by the place of a colour in `COLOURS`: lines differ without colours, too."""


WALL_COLOUR = "#5b6068"


COLUMN = 4.4
"""The width of a figure in inches. A phone shows it 390 pixels wide, and then letters are 10 pixels high."""


STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8.5,
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


def style_dashes_of(colour: str) -> Any:
    """Return the dashes of a line with this colour."""
    return DASHES[COLOURS.index(colour) % len(DASHES)] if colour in COLOURS else "-"


MEMBER_WIDTH = 28
"""The largest number of characters of a member's name in a figure."""


def name_in_figure(name: str, width: int = WIDTH) -> str:
    """Return a name as matplotlib draws it literally: as one line, without formulas, and with glyphs that the font has.

    Characters that the font does not have are shown as escapes, so that names can be told apart.
    """
    text = name_as_text(name, width, figure_font_has).replace("$", r"\$")
    # Matplotlib leaves labels that begin with an underscore out of legends.
    return f" {text}" if text.startswith("_") else text


def member_in_figure(name: str) -> str:
    """Return the name of a member as figures show it."""
    return name_in_figure(name, MEMBER_WIDTH)


def figure_font_has(character: str) -> bool:
    """Tell whether the font of figures has a character."""
    return any(ord(character) in _glyphs_in_figure_font(family) for family in FontProperties().get_family())


@functools.cache
def _glyphs_in_figure_font(family: str) -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=[family]))).get_charmap())


class ShownFigure(Figure):
    """A figure that a notebook shows, even if nobody has imported pyplot there."""

    def _repr_png_(self) -> bytes:
        return png_in_style(self)


def png_in_style(figure: Figure) -> bytes:
    """Return a figure as PNG in 256 colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return in_style_palette(buffer.getvalue())


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


VALUES = "values:"
"""The beginning of the id of a part of a figure that tells its values."""
DARK_COLOURS = ("#71b3de", "#e17618", "#7fe5ab", "#db2393", "#e9b969", "#e2e2e2", "#9b6cce", "#348aaa")
"""The colours of `COLOURS` in dark mode, in the same order."""
GROUNDS = {"light": "#ffffff", "dark": "#14181d"}
"""The colour of the page in each mode."""
WALLS = {"light": WALL_COLOUR, "dark": "#868d97"}
"""The colour of walls in each mode."""
VARIABLES = {
    "#000000": "--ink",
    "#ffffff": "--ground",
    WALL_COLOUR: "--wall",
    **{colour: f"--c{number}" for number, colour in enumerate(COLOURS)},
}
"""The CSS variable of each colour that figures use."""


DrawnFigure = Figure
"""A figure that was drawn, for subpackages that hand it to a page."""


def page_colours_as_css(mode: str) -> str:
    """Return the CSS variables of the colours of figures in a mode, "light" or "dark"."""
    colours = COLOURS if mode == "light" else DARK_COLOURS
    named = {f"--c{number}": colour for number, colour in enumerate(colours)}
    named |= {"--ground": GROUNDS[mode], "--wall": WALLS[mode]}
    return " ".join(f"{name}: {colour};" for name, colour in named.items())


def page_heat_map_colours() -> list[str]:
    """Return the 256 colours of heat-maps, from the least to the most time."""
    return [to_hex(colour) for colour in matplotlib.colormaps["viridis"](range(256))]


def tell_values(artist: Artist, series: str, words: str | Sequence[str] = "") -> None:
    """Give a part of a figure the words that a page shows when the reader points at it.

    The words of a line are a sequence: one text for each of its points, which must lie at equal distances. All parts
    of a series, also those without words, disappear together when the reader leaves the series out.
    """
    artist.set_gid(VALUES + json.dumps({"series": name_as_text(series), "values": words}, ensure_ascii=False))


def svg_for_page(figure: Figure, description: str) -> str:
    """Return a figure as an `<svg>` element for an HTML page."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    view = root.attrib["viewBox"]
    root.attrib.clear()
    width = float(view.split()[2])
    # Figures keep the size of their letters: a wide figure may be wider on the page than a narrow one.
    root.attrib.update(
        {"viewBox": view, "role": "img", "aria-label": description, "style": f"max-width: {1.55 * width:.0f}px"}
    )
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain_svg_name(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _plain_svg_name(element.tag)
        element.attrib = dict(_page_svg_attributes(element))
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _plain_svg_name(name: str) -> str:
    """Return the name of an element or attribute without its namespace."""
    return name.rpartition("}")[2]


def _page_svg_attributes(element: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for name, value in element.attrib.items():
        if name == "id" and value.startswith(VALUES):
            told: dict[str, Any] = json.loads(value.removeprefix(VALUES))
            words = told["values"]
            yield "data-series", told["series"]
            if words:
                yield "data-values", words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)
        elif name == "id" and _plain_svg_name(element.tag) == "g":
            continue  # a page has many figures, and every id only once
        else:
            yield (
                _plain_svg_name(name),
                re.sub(r"#[0-9a-f]{6}\b", _page_svg_colour, value) if name == "style" else value,
            )


def _page_svg_colour(found: re.Match[str]) -> str:
    variable = VARIABLES.get(found[0])
    return f"var({variable}, {found[0]})" if variable else found[0]
