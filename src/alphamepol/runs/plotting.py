"""What figures share: colours, style, maps, and how they are written."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import HostMember
from alphamepol.environments.maps import map_of
from alphamepol.files import write_atomically
from alphamepol.statistics import bootstrap_interval

# Okabe and Ito's palette, which colour-blind people tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442", "#999999", "#882255")
METHOD_COLOURS = {
    "αMEPOL": COLOURS[0],
    "MEPOL": COLOURS[1],
    "Random": COLOURS[8],
    "trained there alone": COLOURS[2],
    "MAML+R": COLOURS[3],
    "MAML+DIAYN": COLOURS[4],
}
"""The same method has the same colour in every figure, by the first word of its label."""
WALL_COLOUR = "#5b6068"
OUTLINES = {"wall": (WALL_COLOUR, 0), "level": (WALL_COLOUR, 0.6), "door": ("#D08A2E", 2.0), "goal": ("#CC3377", 0.8)}
"""Colour and width of what is on maps."""
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
    "svg.hashsalt": "alphamepol",
}
PNG = ("png",)
"""The format of the figures of runs."""


def draw_curves(axes: Axes, curves: Mapping[str, Float[np.ndarray, "rows steps"]]) -> list[tuple[Any, ...]]:
    """The mean of each along the steps, from 1 on, with its 95 % band; returns the numbers behind them."""
    rows: list[tuple[Any, ...]] = []
    colours = colours_of(list(curves))
    for name, values in curves.items():
        colour = colours[name]
        steps, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
        low, high = bootstrap_interval(values)
        axes.plot(steps, mean, color=colour, label=name, linewidth=1.4)
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        rows += [(name, *row, len(values)) for row in zip(steps.tolist(), mean, low, high, strict=True)]
    axes.legend(loc="best", frameon=True, framealpha=0.7, edgecolor="none")
    return rows


def colours_of(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label: that of its method, if no other has it, or the next that is free."""
    found: dict[str, str] = {}
    for label in labels:
        colour = METHOD_COLOURS.get(label.split(" (")[0])
        if colour is not None and colour not in found.values():
            found[label] = colour
    free = (colour for colour in cycle(COLOURS) if colour not in found.values())
    return {label: found.get(label) or next(free) for label in labels}


def draw_walls(axes: Axes, member: Member) -> None:
    """What is on the ground: walls filled, all else as outlines, so that visits are seen."""
    ground = map_of(member)
    for patch in ground.patches if ground is not None else ():
        line, width = OUTLINES[patch.kind]
        fill = WALL_COLOUR if patch.kind == "wall" else "none"
        axes.add_patch(Rectangle(patch.corner, *patch.size, facecolor=fill, edgecolor=line, linewidth=width))


def frame(axes: Axes, extent: tuple[float, float, float, float], member: Member) -> None:
    """The ends of a map, the member's own if it has one: the others of its class may be larger."""
    ground = map_of(member)
    extent = extent if ground is None else ground.extent
    axes.set(xlim=extent[:2], ylim=extent[2:], xticks=[], yticks=[])
    axes.set_aspect("equal" if is_a_map(member) else "auto")
    for spine in axes.spines.values():
        spine.set(visible=True, color=WALL_COLOUR)


def is_a_map(member: Member) -> bool:
    """Whether both directions have the same unit, as far as one can know."""
    return not isinstance(member, HostMember) or member.map is not None


def save_figure(figure: Figure, folder: Path, name: str, formats: Sequence[str] = PNG) -> None:
    """Write it once in every format; equal figures give equal files."""
    without = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    for suffix in formats:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, metadata=without[suffix])
        write_atomically(folder / f"{name}.{suffix}", buffer.getvalue())


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    write_atomically(path, buffer.getvalue())
