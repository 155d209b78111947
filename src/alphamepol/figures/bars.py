"""Bar charts with intervals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.estimation.statistics import Estimate
from alphamepol.figures.style import (
    COLUMN,
    FORMATS,
    STYLE,
    member_in_figure,
    name_in_figure,
    save_figure_in_style,
    style_colours_of,
    tell_values,
    write_csv_of_figure,
)
from alphamepol.files.names import WIDTH, name_as_text


def draw_bars(
    groups: Mapping[str, Mapping[str, Estimate]],
    folder: Path,
    name: str,
    *,
    label: str,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Draw a bar with its 95 % interval for every series of every group, and write the numbers to a CSV file.

    Bars lie on their sides, so that a figure with many groups is high and not wide. A mean of two numbers has no
    interval; the two numbers are drawn as dots. `levels` maps groups to a level that is drawn as a dashed line, e.g.
    the ceiling of a member. `label` says what the bars measure.
    """
    series = list(dict.fromkeys(one for group in groups.values() for one in group))
    colours = style_colours_of(series)
    rows: list[tuple[Any, ...]] = []
    drawn: dict[str, Any] = {}
    places: list[float] = []
    place = 0.0
    with matplotlib.rc_context(STYLE):
        bars = sum(len(values) for values in groups.values())
        size = 0.95 + 0.17 * bars + 0.12 * len(groups)
        figure = Figure(figsize=(COLUMN, size), layout="constrained")
        axes = figure.add_subplot()
        for group, values in groups.items():
            shown = [one for one in series if one in values]
            ys = place + np.arange(len(shown))
            for y, one in zip(ys, shown, strict=True):
                found = values[one]
                low, high = found.interval or (found.value, found.value)
                (drawn[one],) = axes.barh(y, found.value, 0.86, color=colours[one])
                tell_values(drawn[one], one, f"{name_as_text(group, WIDTH)}, {name_as_text(one, WIDTH)}: {found.text}")
                error = np.maximum([[found.value - low], [high - found.value]], 0.0)
                if found.interval:
                    _, caps, lines = axes.errorbar(
                        found.value, y, xerr=error, color="black", linewidth=0.9, capsize=1.5
                    )
                    for part in (*caps, *lines):
                        tell_values(part, one)
                for dots in axes.plot(found.values, [y] * len(found.values), "k.", markersize=3):
                    tell_values(dots, one)
                rows.append((group, one, found.value, low, high))
            if levels and group in levels:
                ends = place - 0.6, place + len(shown) - 0.4
                axes.plot([levels[group]] * 2, ends, "k--", linewidth=0.9)
                rows.append((group, "ceiling", levels[group], levels[group], levels[group]))
            places.append(float(ys.mean()))
            place += len(shown) + 0.7
        axes.axvline(0.0, color="black", linewidth=0.6)
        axes.set_yticks(places, [member_in_figure(group) for group in groups])
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel=label, ylim=(place - 1.0, -0.7))
        figure.legend(
            [drawn[one] for one in series],
            [name_in_figure(one) for one in series],
            loc="outside upper left",
            ncols=min(3 if max(map(len, series)) < 16 else 2, len(series)),
        )
        save_figure_in_style(figure, folder, name, FORMATS)
    write_csv_of_figure(folder / f"{name}.csv", ("group", "series", "value", "low", "high"), rows)
    return figure
