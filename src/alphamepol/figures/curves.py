"""Curves of numbers along training."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from alphamepol.estimation.statistics import FEWEST, Estimate, intervals_of_means
from alphamepol.figures.style import (
    COLOURS,
    COLUMN,
    PNG,
    STYLE,
    ShownFigure,
    member_in_figure,
    name_in_figure,
    png_in_style,
    save_figure_in_style,
    style_colours_of,
    style_dashes_of,
    tell_values,
    write_csv_of_figure,
)
from alphamepol.figures.tables import MOST
from alphamepol.files.names import WIDTH, name_as_text


def draw_curves(axes: Axes, curves: Mapping[str, Float[np.ndarray, "rows steps"]]) -> list[tuple[Any, ...]]:
    """Draw the mean of each curve over its rows, with its 95 % band. Return the numbers as rows of a CSV file.

    Steps are numbered from 1. Two rows have no band, and are drawn as thin lines.
    """
    rows: list[tuple[Any, ...]] = []
    colours = style_colours_of(list(curves))
    for name, values in curves.items():
        colour = colours[name]
        steps, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
        (line,) = axes.plot(
            steps, mean, color=colour, label=name_in_figure(name), linewidth=1.5, linestyle=style_dashes_of(colour)
        )
        if len(values) >= FEWEST:
            low, high = intervals_of_means(values)
            tell_values(axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0), name)
        else:
            low, high = values.min(axis=0), values.max(axis=0)
            for thin in axes.plot(steps, values.T, color=colour, linewidth=0.5, alpha=0.6):
                tell_values(thin, name)
        _tell_values_of_curve(line, name, steps, mean, low, high)
        rows += [(name, *row, len(values)) for row in zip(steps.tolist(), mean, low, high, strict=True)]
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return rows


def add_legend_above(figure: Figure, axes: Axes) -> None:
    """Write the legend of the axes above them, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    columns = min(3 if max(map(len, labels), default=0) < 18 else 2, max(1, len(labels)))
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)


def _tell_values_of_curve(
    line: Line2D, name: str, steps: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray
) -> None:
    """Give a curve its values in words, at no more than `TOLD` of its points."""
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(TOLD, len(steps))).round().astype(int))
    shown = name_as_text(name, WIDTH)
    tell_values(
        line,
        name,
        [f"{shown}, {steps[i]}: {Estimate(float(mean[i]), (float(low[i]), float(high[i]))).text}" for i in chosen],
    )


TOLD = 101
"""The most points of a curve whose values a page shows."""
CURVE_FIELDS: dict[str, Any] = {"entropy": dict[str, float | int], "objective": float | int}
"""The fields of metrics lines that `draw_learning_curves` needs besides the epoch, with their types."""
DIAGNOSTICS_FIELDS: dict[str, Any] = {"effective_share": float | int}
"""The fields of metrics lines that `draw_diagnostics_curves` needs besides the epoch, with their types."""
OBJECTIVE = "objective E^α"
"""The name of the curve of the objective."""


def draw_learning_curves(
    metrics: Iterable[dict[str, Any]], members: Sequence[str], random: float | None, folder: Path | None
) -> ShownFigure:
    """Draw the entropy of each member and the objective along the epochs. Write no files if there is no folder.

    The curve is the mean over seeds, and the band goes from the lowest to the highest seed. A dotted line is `random`,
    the objective of untrained policies; there is no line if it is None.
    """
    # The key of the objective is None, because a member can have any name.
    curves: dict[str | None, dict[int, list[float]]] = {name: {} for name in (*members, None)}
    for line in metrics:
        for name in line["entropy"].keys() & curves.keys():
            curves[name].setdefault(line["epoch"], []).append(line["entropy"][name])
        curves[None].setdefault(line["epoch"], []).append(line["objective"])
    points = {
        name: [(epoch, np.mean(v), min(v), max(v), len(v)) for epoch, v in sorted(by_epoch.items())]
        for name, by_epoch in curves.items()
    }
    rows: list[tuple[Any, ...]] = [
        (OBJECTIVE if name is None else name, *point) for name, of_name in points.items() for point in of_name
    ]
    with matplotlib.rc_context(STYLE):
        figure = ShownFigure(figsize=(COLUMN, 3.2), layout="constrained")
        axes = figure.add_subplot()
        met = [name for name in members if curves[name]]
        colours = {**dict(zip(met[:MOST], cycle(COLOURS), strict=False)), None: "black"}
        for name, colour in colours.items():
            curve = np.array(points[name], float).reshape(-1, 5)  # there may be none
            dashes, label = (":", OBJECTIVE) if name is None else (style_dashes_of(colour), member_in_figure(name))
            (line,) = axes.plot(curve[:, 0], curve[:, 1], linestyle=dashes, color=colour, label=label, linewidth=1.5)
            band = axes.fill_between(curve[:, 0], curve[:, 2], curve[:, 3], color=colour, alpha=0.2, linewidth=0)
            tell_values(band, name or OBJECTIVE)
            if len(curve):
                _tell_values_of_curve(line, name or OBJECTIVE, curve[:, 0].astype(int), *curve[:, 1:4].T)
        if random is not None:
            axes.axhline(random, color="black", linestyle="-.", linewidth=0.8, label=f"{OBJECTIVE} of Random")
            rows.append((f"{OBJECTIVE} of Random", "", random, "", "", ""))
        axes.set(xlabel="epoch", ylabel="entropy of a mini-batch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend_above(figure, axes)
        if folder is None:
            return figure
        save_figure_in_style(figure, folder, "learning-curves")
    write_csv_of_figure(folder / "learning-curves.csv", ("member", "epoch", "mean", "lowest", "highest", "seeds"), rows)
    return figure


def live_chart_png(title: str, unit: str, curves: Mapping[tuple[str, str], Sequence[tuple[int, float]]]) -> bytes:
    """Return the chart of a run that trains, as PNG.

    A curve is a list of steps, each with a number. Its key is a field of metrics lines, and a name within the field,
    such as that of a member. The name is empty if the field is a number. Beside such names, the curve of a number is
    black and dashed.
    """
    named = [key for key in curves if key[1]]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.0, 2.9), layout="constrained", dpi=110)
        axes = figure.add_subplot(title=title, xlabel=unit)
        for key, colour in zip(named or curves, cycle(COLOURS), strict=False):
            axes.plot(*np.array(curves[key], float).T, color=colour, label=_live_label(*key), linewidth=1.4)
        for key in curves.keys() - set(named) if named else ():
            axes.plot(*np.array(curves[key], float).T, "--", color="black", label=_live_label(*key), linewidth=1.4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if curves:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
        return png_in_style(figure)


def _live_label(field: str, name: str) -> str:
    return member_in_figure(name or field.replace("_", " "))


def draw_adaptation_curves(
    before: Float[np.ndarray, "seeds iterations"],
    after: Float[np.ndarray, "seeds iterations"],
    folder: Path | None,
    name: str = "adaptation",
    formats: Sequence[str] = PNG,
) -> ShownFigure:
    """Draw the return before and after the inner step along meta-training: means over seeds with 95 % bands.

    Write no files if there is no folder.
    """
    with matplotlib.rc_context(STYLE):
        figure = ShownFigure(figsize=(COLUMN, 3.0), layout="constrained")
        axes = figure.add_subplot()
        rows = draw_curves(axes, {"before the inner step": before, "after the inner step": after})
        axes.set(xlabel="meta-iteration", ylabel="return, mean over tasks")
        add_legend_above(figure, axes)
        if folder is None:
            return figure
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("return", "iteration", "mean", "low", "high", "seeds"), rows)
    return figure


def draw_discriminability_curve(
    values: Float[np.ndarray, "seeds epochs"],
    skills: int,
    folder: Path | None,
    name: str = "discriminability",
    formats: Sequence[str] = PNG,
) -> ShownFigure:
    """Draw the discriminability ln q(z|s) of skills along the epochs: the mean over seeds with its 95 % band.

    Write no files if there is no folder.
    """
    with matplotlib.rc_context(STYLE):
        figure = ShownFigure(figsize=(COLUMN, 3.0), layout="constrained")
        axes = figure.add_subplot()
        rows = draw_curves(axes, {"DIAYN": values})
        axes.axhline(-math.log(skills), color="black", linewidth=0.8, linestyle="--", label=f"chance, ln 1/{skills}")
        axes.set(xlabel="epoch", ylabel="ln q(z|s), mean over steps", ylim=(None, 0.0))
        add_legend_above(figure, axes)
        if folder is None:
            return figure
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("method", "epoch", "mean", "low", "high", "seeds"), rows)
    return figure


PANELS: dict[str, dict[str, str]] = {
    "π-diameter": {"diameter_low": "low estimate", "diameter_high": "high estimate"},
    "Wasserstein distance": {"wasserstein": "largest pair", "wasserstein_chance": "by chance"},
    "entropy gap on cells": {"entropy_gap": "measured", "sharp_entropy_gap_bound": "allowed (D5)"},
    "effective share of samples": {"effective_share": "median mini-batch"},
    "smallest safe k": {"smallest_safe_k": "largest of the epoch"},
    "one-step bound (D2)": {"one_step_bound": "vacuous from 1 on"},
}
"""The panels of the diagnostics figure: each title with its numbers and their labels."""


def draw_diagnostics_curves(metrics: Iterable[dict[str, Any]], folder: Path) -> None:
    """Draw the numbers of `diagnostics` along the epochs, as means over seeds. An epoch without a number is a gap."""
    by_epoch: dict[int, list[dict[str, Any]]] = {}
    for line in metrics:
        found = {**line.get("diagnostics", {}), "effective_share": line["effective_share"]}
        by_epoch.setdefault(line["epoch"], []).append(found)
    epochs = sorted(by_epoch)
    names = sorted({name for lines in by_epoch.values() for line in lines for name in line})
    means = {
        name: [_mean_of_curves([line[name] for line in by_epoch[epoch] if name in line]) for epoch in epochs]
        for name in names
    }
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.3 * COLUMN, 6.0), layout="constrained")
        for i, (title, curves) in enumerate(PANELS.items()):
            axes = figure.add_subplot(3, 2, i + 1, title=title, xlabel="epoch")
            drawn = {name: label for name, label in curves.items() if name in means}
            for (name, label), colour in zip(drawn.items(), COLOURS, strict=False):
                axes.plot(epochs, means[name], color=colour, label=label, linewidth=1.4)
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if drawn:
                axes.legend(loc="best")
            else:
                axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes)
        save_figure_in_style(figure, folder, "diagnostics")
    rows = zip(epochs, *(means[name] for name in names), strict=True)
    write_csv_of_figure(folder / "diagnostics.csv", ("epoch", *names), rows)


def _mean_of_curves(values: Sequence[float | int]) -> float:
    return float(np.mean(values)) if values else np.nan
