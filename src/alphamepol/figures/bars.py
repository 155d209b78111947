"""Bar charts with intervals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.estimation.statistics import Estimate
from alphamepol.figures.style import (
    FORMATS,
    STYLE,
    member_in_figure,
    name_in_figure,
    save_figure_in_style,
    style_colours_of,
    write_csv_of_figure,
)


def draw_bars(
    groups: Mapping[str, Mapping[str, Estimate]],
    folder: Path,
    name: str,
    *,
    ylabel: str,
    levels: Mapping[str, float] | None = None,
) -> None:
    """Draw a bar with its 95 % interval for every series of every group, and write the numbers to a CSV file.

    A mean of two numbers has no interval. The two numbers are drawn as dots.
    `levels` maps groups to a level that is drawn as a dashed line, e.g. the ceiling of a member.
    """
    series = list(dict.fromkeys(one for group in groups.values() for one in group))
    colours = style_colours_of(series)
    rows: list[tuple[Any, ...]] = []
    with matplotlib.rc_context(STYLE):
        width = 0.8 / len(series)
        room = max(0.7, 0.24 * (len(series) + 1))
        size = max(3.4, 0.9 + room * len(groups))
        figure = Figure(figsize=(size, 2.8), layout="constrained")
        axes = figure.add_subplot()
        for place, (group, values) in enumerate(groups.items()):
            for number, one in enumerate(series):
                if one not in values:
                    continue
                found = values[one]
                x = place + (number - (len(series) - 1) / 2) * width
                low, high = found.interval or (found.value, found.value)
                axes.bar(
                    x,
                    found.value,
                    0.92 * width,
                    color=colours[one],
                    label=name_in_figure(one) if name_in_figure(one) not in _labels_of_bars(axes) else None,
                )
                error = np.maximum([[found.value - low], [high - found.value]], 0.0)
                if found.interval:
                    axes.errorbar(x, found.value, error, color="black", linewidth=0.9, capsize=1.5)
                axes.plot([x] * len(found.values), found.values, "k.", markersize=3)
                rows.append((group, one, found.value, low, high))
            if levels and group in levels:
                axes.plot([place - 0.45, place + 0.45], [levels[group]] * 2, "k--", linewidth=0.9)
                rows.append((group, "ceiling", levels[group], levels[group], levels[group]))
        axes.axhline(0.0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(groups)), [member_in_figure(group) for group in groups])
        axes.set(ylabel=ylabel, xlim=(-0.6, len(groups) - 0.4))
        figure.legend(loc="outside upper center", ncols=min(int(size // 1.6), len(series)))
        save_figure_in_style(figure, folder, name, FORMATS)
    write_csv_of_figure(folder / f"{name}.csv", ("group", "series", "value", "low", "high"), rows)


def _labels_of_bars(axes: Any) -> list[str]:
    return axes.get_legend_handles_labels()[1]
