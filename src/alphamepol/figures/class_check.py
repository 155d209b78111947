"""The figures of `check`: entropies, their stability, learning rates, and distances between members."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphamepol.figures.style import (
    COLOURS,
    STYLE,
    WALL_COLOUR,
    member_in_figure,
    name_in_figure,
    save_figure_in_style,
    write_csv_of_figure,
)
from alphamepol.figures.tables import MOST
from alphamepol.measuring.sensitivity import Learned, Sensitivity


@dataclass(frozen=True)
class MemberEntropies:
    """The entropies of mini-batches in each member, and the share of each member in an epoch and in its tail."""

    members: Sequence[str]
    probabilities: Sequence[float]
    entropies: Float[np.ndarray, "members minibatches"]
    means: Float[np.ndarray, "3 members"]
    """The mean of each member, and the low and the high end of its interval."""
    ceilings: Sequence[float]
    tail: Float[np.ndarray, " members"]
    """The share of each member in the worst α-fraction."""
    alpha: float
    policy: str


def draw_class_check_entropies(found: MemberEntropies, folder: Path, name: str) -> None:
    """Draw the entropies of mini-batches in each member, and beside them the shares of the members.

    The left panel shows every mini-batch, the means with their intervals, and the ceilings. The right panel shows the
    share of each member in the draws and in the tail.
    """
    members = found.members[:MOST]
    means, low, high = found.means
    rows = range(len(members))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 0.33 * len(members) + 1.3), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.7, 1])
        for i, colour in zip(rows, cycle(COLOURS), strict=False):
            values = found.entropies[i]
            left.plot(values, np.full(len(values), i), "o", color=colour, alpha=0.35, markersize=3)
            left.plot([low[i], high[i]], [i, i], color=colour, linewidth=4, alpha=0.6, solid_capstyle="butt")
            left.plot(means[i], i, "|", color="black", markersize=9)
            left.plot(found.ceilings[i], i, "D", color=WALL_COLOUR, markersize=4)
        names = [member_in_figure(member) for member in members]
        left.set(yticks=rows, yticklabels=names, xlabel=f"entropy of a mini-batch under {name_in_figure(found.policy)}")
        left.invert_yaxis()
        places = np.arange(len(members))
        right.barh(places - 0.18, np.array(found.probabilities[:MOST]), 0.34, color=COLOURS[3], label="drawn")
        right.barh(places + 0.18, found.tail[:MOST], 0.34, color=COLOURS[0], label=f"of the worst {found.alpha:.0%}")
        right.set(xlabel="share", xlim=(0, 1))
        right.legend(loc="best")
        save_figure_in_style(figure, folder, name)
    header = ("member", "probability", "mean", "low", "high", "ceiling", "share_of_tail")
    parts = found.members, found.probabilities, means, low, high, found.ceilings, found.tail
    write_csv_of_figure(folder / f"{name}.csv", header, zip(*parts, strict=True))


@dataclass(frozen=True)
class Panel:
    """One panel of the stability figure: a setting of the estimator with several values."""

    label: str
    sensitivity: Sensitivity
    given: int
    """The value that the user gave."""


def draw_class_check_stability(panels: Sequence[Panel], members: Sequence[str], folder: Path, name: str) -> None:
    """Draw the entropy of each member for several values of each setting, with a dashed line at the given value."""
    rows: list[tuple[Any, ...]] = []
    with matplotlib.rc_context(STYLE):
        height = max(3.0, 0.2 * min(len(members), MOST) + 0.4)  # the legend has a line for each member
        figure = Figure(figsize=(7.5, height), layout="constrained")
        all_axes: Sequence[Axes] = figure.subplots(1, len(panels), sharey=True)
        for axes, panel in zip(all_axes, panels, strict=True):
            settings, entropies = panel.sensitivity.settings, panel.sensitivity.entropies
            for i, (member, colour) in enumerate(zip(members[:MOST], cycle(COLOURS), strict=False)):
                axes.plot(settings, entropies[:, i], ".-", color=colour, label=member_in_figure(member))
            axes.axvline(panel.given, color=WALL_COLOUR, linestyle="--", linewidth=0.8)
            axes.set(xscale="log", xlabel=panel.label, xticks=settings, xticklabels=settings)
            axes.minorticks_off()
            for setting, of_members in zip(settings, entropies, strict=True):
                rows += [(panel.label[0], setting, *row) for row in zip(members, of_members.tolist(), strict=True)]
        all_axes[0].set_ylabel("entropy of a mini-batch")
        figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right center")
        save_figure_in_style(figure, folder, name)
    write_csv_of_figure(folder / f"{name}.csv", ("setting", "value", "member", "entropy"), rows)


@dataclass(frozen=True)
class RateLimits:
    """The lines and bands in the figure of learning rates."""

    given: float
    """The learning rate that the user gave."""
    trust_region: float
    enough: float
    """The smallest effective share of samples that is enough to learn from."""
    too_little: float
    """The effective share of samples below which there is too little to learn from."""


def draw_class_check_rates(tried: Sequence[Learned], limits: RateLimits, folder: Path, name: str) -> None:
    """Draw the effective share of samples and the KL divergence after one epoch, for several learning rates."""
    rates = [one.rate for one in tried]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 2.8), layout="constrained")
        shares, divergences = figure.subplots(1, 2)
        shares.axhspan(limits.enough, 1, color=COLOURS[2], alpha=0.10, linewidth=0)
        shares.axhspan(0, limits.too_little, color=COLOURS[1], alpha=0.12, linewidth=0)
        shares.plot(rates, [one.effective for one in tried], "o-", color=COLOURS[0], label="median mini-batch")
        shares.plot(rates, [one.worst for one in tried], "o-", color=COLOURS[7], label="worst", linewidth=1)
        shares.set(xscale="log", ylim=(0, 1), xlabel="learning rate", ylabel="effective share of samples")
        shares.legend(loc="best")
        divergences.plot(rates, [max(one.kl, 1e-6) for one in tried], "o-", color=COLOURS[3])
        divergences.axhline(limits.trust_region, color=WALL_COLOUR, linewidth=0.8)
        divergences.text(rates[0], limits.trust_region, " trust region", va="bottom", fontsize=8, color=WALL_COLOUR)
        divergences.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="KL after the epoch")
        for axes in (shares, divergences):
            axes.axvline(limits.given, color=WALL_COLOUR, linestyle="--", linewidth=0.8)
        save_figure_in_style(figure, folder, name)
    header = ("rate", "effective_share", "worst_share", "kl", "iterations", "backtracks", "gain")
    rows = [(one.rate, one.effective, one.worst, one.kl, one.iterations, one.backtracks, one.gain) for one in tried]
    write_csv_of_figure(folder / f"{name}.csv", header, rows)


@dataclass(frozen=True)
class Distances:
    """A matrix of distances between members."""

    title: str
    values: Float[np.ndarray, "members members"]
    most: float | None = 1.0
    """The largest possible distance; None if it is not known."""


def draw_class_check_distances(matrices: Sequence[Distances], members: Sequence[str], folder: Path, name: str) -> None:
    """Draw matrices of distances between members side by side."""
    side = 0.28 * len(members) + 1.2
    below = 0.06 * max(0, *(len(member_in_figure(member)) - 10 for member in members))  # the room for long names
    rows: list[tuple[Any, ...]] = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(side * len(matrices), side + 0.5 + below), layout="constrained")
        for i, distances in enumerate(matrices):
            axes = figure.add_subplot(1, len(matrices), i + 1)
            _draw_class_check_matrix(axes, distances.values, members, most=distances.most, labels=i == 0)
            axes.set_title(distances.title)
            rows += [
                (distances.title, one, other, float(distances.values[row, column]))
                for row, one in enumerate(members)
                for column, other in enumerate(members)
            ]
        save_figure_in_style(figure, folder, name)
    write_csv_of_figure(folder / f"{name}.csv", ("distance", "member", "other", "value"), rows)


def _draw_class_check_matrix(
    axes: Axes, matrix: Float[np.ndarray, "members members"], members: Sequence[str], most: float | None, labels: bool
) -> None:
    most = most or float(matrix.max()) or 1.0
    axes.imshow(matrix, vmin=0, vmax=most, cmap="viridis")
    ticks, names = np.arange(len(members)), [member_in_figure(member) for member in members]
    axes.set(xticks=ticks, yticks=ticks, yticklabels=names if labels else [])
    axes.set_xticklabels(names, rotation=45, ha="right", rotation_mode="anchor")
    if len(members) <= 10:
        for row, column in np.ndindex(*matrix.shape):
            value = matrix[row, column]
            colour = "black" if value > 0.6 * most else "white"
            if row != column:
                text = f"{value:.2f}".removeprefix("0") if value < 9.5 else f"{value:.0f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
