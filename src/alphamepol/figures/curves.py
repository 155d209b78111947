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
from matplotlib.ticker import MaxNLocator

from alphamepol.estimation.statistics import FEWEST, intervals_of_means
from alphamepol.figures.style import (
    COLOURS,
    PNG,
    STYLE,
    member_in_figure,
    name_in_figure,
    save_figure_in_style,
    style_colours_of,
    write_csv_of_figure,
)
from alphamepol.figures.tables import MOST


def draw_curves(axes: Axes, curves: Mapping[str, Float[np.ndarray, "rows steps"]]) -> list[tuple[Any, ...]]:
    """Draw the mean of each curve over its rows, with its 95 % band. Return the numbers as rows of a CSV file.

    Steps are numbered from 1. Two rows have no band, and are drawn as thin lines.
    """
    rows: list[tuple[Any, ...]] = []
    colours = style_colours_of(list(curves))
    for name, values in curves.items():
        colour = colours[name]
        steps, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
        axes.plot(steps, mean, color=colour, label=name_in_figure(name), linewidth=1.4)
        if len(values) >= FEWEST:
            low, high = intervals_of_means(values)
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        else:
            low, high = values.min(axis=0), values.max(axis=0)
            axes.plot(steps, values.T, color=colour, linewidth=0.5, alpha=0.6)
        rows += [(name, *row, len(values)) for row in zip(steps.tolist(), mean, low, high, strict=True)]
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best", frameon=True, framealpha=0.7, edgecolor="none")
    return rows


CURVE_FIELDS: dict[str, Any] = {"entropy": dict[str, float | int], "objective": float | int}
"""The fields of metrics lines that `draw_learning_curves` needs besides the epoch, with their types."""
DIAGNOSTICS_FIELDS: dict[str, Any] = {"effective_share": float | int}
"""The fields of metrics lines that `draw_diagnostics_curves` needs besides the epoch, with their types."""
OBJECTIVE = "objective E^α"
"""The name of the curve of the objective."""
CURVE_COLOURS = tuple(colour for colour in COLOURS if colour != "#000000")
"""The colours of members. Black is the colour of the objective."""


def draw_learning_curves(
    metrics: Iterable[dict[str, Any]], members: Sequence[str], random: float | None, folder: Path
) -> None:
    """Draw the entropy of each member and the objective along the epochs.

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
        figure = Figure(figsize=(5.5, 3.4), layout="constrained")
        axes = figure.add_subplot()
        met = [name for name in members if curves[name]]
        colours = {None: "black", **dict(zip(met[:MOST], cycle(CURVE_COLOURS), strict=False))}
        for name, colour in colours.items():
            curve = np.array(points[name], float).reshape(-1, 5)  # there may be none
            dashes, label = ("--", OBJECTIVE) if name is None else ("-", member_in_figure(name))
            axes.plot(curve[:, 0], curve[:, 1], dashes, color=colour, label=label, linewidth=1.4)
            axes.fill_between(curve[:, 0], curve[:, 2], curve[:, 3], color=colour, alpha=0.2, linewidth=0)
        if random is not None:
            axes.axhline(random, color="black", linestyle=":", linewidth=1, label=f"{OBJECTIVE} of Random")
            rows.append((f"{OBJECTIVE} of Random", "", random, "", "", ""))
        axes.set(xlabel="epoch", ylabel="entropy of a mini-batch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        long = any(len(member_in_figure(name)) > 20 for name in met)
        axes.legend(loc="best", ncols=2 if len(members) > 4 else 1, fontsize=6 if long else 8)
        save_figure_in_style(figure, folder, "learning-curves")
    write_csv_of_figure(folder / "learning-curves.csv", ("member", "epoch", "mean", "lowest", "highest", "seeds"), rows)


def draw_adaptation_curves(
    before: Float[np.ndarray, "seeds iterations"],
    after: Float[np.ndarray, "seeds iterations"],
    folder: Path,
    name: str = "adaptation",
    formats: Sequence[str] = PNG,
) -> None:
    """Draw the return before and after the inner step along meta-training: means over seeds with 95 % bands."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        axes = figure.add_subplot()
        rows = draw_curves(axes, {"before the inner step": before, "after the inner step": after})
        axes.set(xlabel="meta-iteration", ylabel="return, mean over tasks")
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("return", "iteration", "mean", "low", "high", "seeds"), rows)


def draw_discriminability_curve(
    values: Float[np.ndarray, "seeds epochs"],
    skills: int,
    folder: Path,
    name: str = "discriminability",
    formats: Sequence[str] = PNG,
) -> None:
    """Draw the discriminability ln q(z|s) of skills along the epochs: the mean over seeds with its 95 % band."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        axes = figure.add_subplot()
        rows = draw_curves(axes, {"DIAYN": values})
        axes.axhline(-math.log(skills), color="black", linewidth=0.8, linestyle="--", label=f"chance, ln 1/{skills}")
        axes.set(xlabel="epoch", ylabel="ln q(z|s), mean over steps", ylim=(None, 0.0))
        axes.legend(loc="best", frameon=True, framealpha=0.7, edgecolor="none")
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("method", "epoch", "mean", "low", "high", "seeds"), rows)


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
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        for i, (title, curves) in enumerate(PANELS.items()):
            axes = figure.add_subplot(2, 3, i + 1, title=title, xlabel="epoch")
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
