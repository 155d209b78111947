"""Fronts: two numbers of every run against each other, with their intervals, and the runs that no other run beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphamepol.estimation.statistics import Estimate
from alphamepol.figures.style import (
    COLOURS,
    FORMATS,
    STYLE,
    member_in_figure,
    name_in_figure,
    save_figure_in_style,
    style_colours_of,
    write_csv_of_figure,
)

COLUMNS = 3
"""The most panels side by side."""


@dataclass(frozen=True)
class FrontPoint:
    """A run in a panel."""

    series: str
    """The name of its curve."""
    label: str
    """The text beside the point."""
    x: Estimate
    y: Estimate


@dataclass(frozen=True)
class FrontPanel:
    """A panel: points, and levels that mark what can be reached at best."""

    xlabel: str
    ylabel: str
    points: Sequence[FrontPoint]
    """The points, those of a series in the order in which a line joins them."""
    x_levels: Mapping[str, Estimate] = field(default_factory=dict)
    """Vertical lines by the name of the mark."""
    y_levels: Mapping[str, Estimate] = field(default_factory=dict)
    """Horizontal lines by the name of the mark."""


def front_of_points(values: Float[np.ndarray, "points numbers"]) -> Bool[np.ndarray, " points"]:
    """Tell of each point whether it is on the Pareto front.

    A point is on the front unless another point is at least as large in every number, and larger in one.
    """
    at_least = (values[:, None] >= values[None]).all(axis=-1)
    larger = (values[:, None] > values[None]).any(axis=-1)
    return np.logical_not((at_least & larger).any(axis=0))


def draw_fronts(panels: Sequence[FrontPanel], folder: Path, name: str) -> None:
    """Draw the points of every panel with their 95 % intervals, and write the numbers to a CSV file.

    Points on the front of a panel are filled, the others are open. A level is a line, with its interval as a band.
    """
    rows: list[tuple[Any, ...]] = []
    colours = style_colours_of(list(dict.fromkeys(point.series for panel in panels for point in panel.points)))
    marks = list(dict.fromkeys(mark for panel in panels for mark in (*panel.x_levels, *panel.y_levels)))
    with matplotlib.rc_context(STYLE):
        columns = min(COLUMNS, len(panels))
        lines = -(-len(panels) // columns)
        figure = Figure(figsize=(3.6 * columns + 0.4, 3.1 * lines + 0.6), layout="constrained")
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(lines, columns, number + 1)
            rows += _draw_panel_of_fronts(axes, panel, colours, marks)
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            handles.update(dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True)))
        figure.legend(
            handles.values(), handles.keys(), loc="outside upper center", ncols=min(2 * columns, len(handles))
        )
        save_figure_in_style(figure, folder, name, FORMATS)
    header = ("x", "y", "series", "point", "x_value", "x_low", "x_high", "y_value", "y_low", "y_high", "on_front")
    write_csv_of_figure(folder / f"{name}.csv", header, rows)


def _draw_panel_of_fronts(
    axes: Axes, panel: FrontPanel, colours: Mapping[str, str], marks: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Draw a panel, and return its rows of the CSV file."""
    rows: list[tuple[Any, ...]] = []
    for levels, line, band in (
        (panel.x_levels, axes.axvline, axes.axvspan),
        (panel.y_levels, axes.axhline, axes.axhspan),
    ):
        for mark, level in levels.items():
            # The ceiling is black, like the ceilings of other figures.
            number = marks.index(mark)
            colour, dashes = ("black", "--") if mark == "ceiling" else (COLOURS[2 + number], ":")
            line(level.value, color=colour, linestyle=dashes, linewidth=1, label=name_in_figure(mark), zorder=1)
            if level.interval:
                band(*level.interval, color=colour, alpha=0.12, linewidth=0, zorder=0)
            ends = _cells_of_front(level)
            place = (*ends, "", "", "") if levels is panel.x_levels else ("", "", "", *ends)
            rows.append((panel.xlabel, panel.ylabel, mark, "", *place, ""))
    best = front_of_points(np.array([[point.x.value, point.y.value] for point in panel.points]).reshape(-1, 2))
    for series in dict.fromkeys(point.series for point in panel.points):
        joined = [point for point in panel.points if point.series == series]
        places = np.array([[point.x.value, point.y.value] for point in joined])
        label = name_in_figure(series)
        axes.plot(*places.T, "-", color=colours[series], linewidth=0.9, alpha=0.6, label=label, zorder=2)
    for number, (point, on_front) in enumerate(zip(panel.points, best.tolist(), strict=True)):
        colour = colours[point.series]
        axes.errorbar(
            point.x.value,
            point.y.value,
            xerr=_error_of_front(point.x),
            yerr=_error_of_front(point.y),
            fmt="o",
            color=colour,
            markerfacecolor=colour if on_front else "white",
            markersize=5,
            elinewidth=0.8,
            alpha=0.9,
            zorder=3,
        )
        axes.annotate(
            name_in_figure(point.label),
            (point.x.value, point.y.value),
            xytext=(4, -10 if number % 2 else 4),  # the numbers of neighbours are often close
            textcoords="offset points",
            fontsize=7,
            color=colour,
            zorder=4,
        )
        cells = (*_cells_of_front(point.x), *_cells_of_front(point.y))
        rows.append((panel.xlabel, panel.ylabel, point.series, point.label, *cells, "yes" if on_front else "no"))
    axes.set(xlabel=member_in_figure(panel.xlabel), ylabel=member_in_figure(panel.ylabel))
    axes.margins(0.12)
    return rows


def _error_of_front(found: Estimate) -> Float[np.ndarray, "2 1"] | None:
    if found.interval is None:
        return None
    low, high = found.interval
    return np.maximum([[found.value - low], [high - found.value]], 0.0)


def _cells_of_front(found: Estimate) -> tuple[Any, ...]:
    return (found.value, *(found.interval or ("", "")))
