"""The pictures of a diagnosis, and of diagnostics along pre-training, each a PNG with the CSV behind it."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphamepol.diagnostics import tail_shares
from alphamepol.environments.host import AnyClass
from alphamepol.runs import figures
from alphamepol.runs.diagnosis import Diagnosis, Sensitivity
from alphamepol.runs.evaluate import Evaluation
from alphamepol.runs.findings import SPENT, TRUSTED
from alphamepol.runs.plotting import COLOURS, STYLE, WALL_COLOUR, save_figure, write_csv
from alphamepol.runs.tables import MOST

CAPTIONS = {
    "check-entropies": "Entropy of mini-batches in each member (dots), their mean with its 95 % interval, and the "
    "ceiling where one is known (grey); beside it how often a member is drawn, and what it is of the tail.",
    "check-stability": "The entropy of each member with other settings of the estimator; dashed: what was given.",
    "check-rates": "One epoch with different learning rates, from the same samples: the effective share of "
    "importance-weighted samples in the median mini-batch and in the worst, and the KL divergence.",
    "check-distances": "How far apart members are: total variation and Wasserstein distance of their state "
    "distributions, and what a step tells: the share of steps, from states visited in the row's member, that end "
    "differently; or, where environments cannot be put into a state, how often the most similar step that was seen in "
    "the column's member is less alike than one in the row's own (0.5: not told apart).",
    "heat-maps": "Where the policy goes in each member.",
}
"""By the name of the picture."""


def draw(found: Diagnosis, environment_class: AnyClass, folder: Path) -> list[Path]:
    """All that there are; returns the pictures. Those of an earlier check that there are no more are taken away."""
    for name in CAPTIONS:
        for suffix in ("png", "csv"):
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    with matplotlib.rc_context(STYLE):
        _entropies(found, folder)
        _stability(found, folder)
        _rates(found, folder)
        if len(found.members) > 1:
            _distances(found, folder)
    figures.heat_maps({found.policy: _evaluation(found)}, environment_class, folder)
    return [path for name in CAPTIONS if (path := folder / f"{name}.png").is_file()]


def _entropies(found: Diagnosis, folder: Path) -> None:
    members = found.members[:MOST]
    figure = Figure(figsize=(7.5, 0.33 * len(members) + 1.3), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.7, 1])
    means, low, high = found.means
    tail = tail_shares(found.entropies, found.probabilities, found.config.alpha)
    rows = np.arange(len(members))
    for i, colour in zip(rows, cycle(COLOURS), strict=False):
        values = found.entropies[i]
        left.plot(values, np.full(len(values), i), "o", color=colour, alpha=0.35, markersize=3)
        left.plot([low[i], high[i]], [i, i], color=colour, linewidth=4, alpha=0.6, solid_capstyle="butt")
        left.plot(means[i], i, "|", color="black", markersize=9)
        left.plot(found.ceilings[i], i, "D", color=WALL_COLOUR, markersize=4)
    left.set(yticks=rows, yticklabels=members, xlabel=f"entropy of a mini-batch under {found.policy}")
    left.invert_yaxis()
    right.barh(rows - 0.18, np.array(found.probabilities[:MOST]), 0.34, color=COLOURS[8], label="drawn")
    right.barh(rows + 0.18, tail[:MOST], 0.34, color=COLOURS[0], label=f"of the worst {found.config.alpha:.0%}")
    right.set(xlabel="share", xlim=(0, 1))
    right.legend(loc="best")
    save_figure(figure, folder, "check-entropies")
    header = ("member", "probability", "mean", "low", "high", "ceiling", "share_of_tail")
    parts = found.members, found.probabilities, means, low, high, found.ceilings, tail
    write_csv(folder / "check-entropies.csv", header, zip(*parts, strict=True))


def _stability(found: Diagnosis, folder: Path) -> None:
    figure = Figure(figsize=(7.5, 3.0), layout="constrained")
    config = found.config
    axes: Sequence[Axes] = figure.subplots(1, 2, sharey=True)
    rows: list[tuple[Any, ...]] = []
    for one, name, sensitivity, given in (
        (axes[0], "k, the neighbours", found.by_neighbours, config.neighbours),
        (axes[1], "B, the trajectories of a mini-batch", found.by_batch, config.batch),
    ):
        _curves(one, sensitivity, found.members)
        one.axvline(given, color=WALL_COLOUR, linestyle="--", linewidth=0.8)
        one.set(xscale="log", xlabel=name, xticks=sensitivity.settings, xticklabels=sensitivity.settings)
        one.minorticks_off()
        for setting, entropies in zip(sensitivity.settings, sensitivity.entropies, strict=True):
            rows += [(name[0], setting, *row) for row in zip(found.members, entropies.tolist(), strict=True)]
    axes[0].set_ylabel("entropy of a mini-batch")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    save_figure(figure, folder, "check-stability")
    write_csv(folder / "check-stability.csv", ("setting", "value", "member", "entropy"), rows)


def _curves(axes: Axes, sensitivity: Sensitivity, members: Sequence[str]) -> None:
    for i, (member, colour) in enumerate(zip(members[:MOST], cycle(COLOURS), strict=False)):
        axes.plot(sensitivity.settings, sensitivity.entropies[:, i], ".-", color=colour, label=member)


def _rates(found: Diagnosis, folder: Path) -> None:
    if not found.learned:
        return
    figure = Figure(figsize=(7.5, 2.8), layout="constrained")
    shares, divergences = figure.subplots(1, 2)
    rates = [one.rate for one in found.learned]
    shares.axhspan(TRUSTED, 1, color=COLOURS[2], alpha=0.10, linewidth=0)
    shares.axhspan(0, SPENT, color=COLOURS[1], alpha=0.12, linewidth=0)
    shares.plot(rates, [one.effective for one in found.learned], "o-", color=COLOURS[0], label="median mini-batch")
    shares.plot(rates, [one.worst for one in found.learned], "o-", color=COLOURS[5], label="worst", linewidth=1)
    shares.set(xscale="log", ylim=(0, 1), xlabel="learning rate", ylabel="effective share of samples")
    shares.legend(loc="best")
    divergences.plot(rates, [max(one.kl, 1e-6) for one in found.learned], "o-", color=COLOURS[3])
    divergences.axhline(found.config.trust_region, color=WALL_COLOUR, linewidth=0.8)
    divergences.text(rates[0], found.config.trust_region, " trust region", va="bottom", fontsize=8, color=WALL_COLOUR)
    divergences.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="KL after the epoch")
    for axes in (shares, divergences):
        axes.axvline(found.config.learning_rate, color=WALL_COLOUR, linestyle="--", linewidth=0.8)
    save_figure(figure, folder, "check-rates")
    header = ("rate", "effective_share", "worst_share", "kl", "iterations", "backtracks", "gain")
    rows = [
        (one.rate, one.effective, one.worst, one.kl, one.iterations, one.backtracks, one.gain) for one in found.learned
    ]
    write_csv(folder / "check-rates.csv", header, rows)


def _distances(found: Diagnosis, folder: Path) -> None:
    bounds = found.bounds
    matrices = {"total variation": bounds.variation_high, "Wasserstein distance": bounds.wasserstein}
    if bounds.dynamics is not None:
        matrices["steps that differ"] = bounds.dynamics.steps_differ
    elif found.contrasts is not None:
        matrices["told apart by a step"] = np.where(np.eye(len(bounds.members)), 0.0, found.contrasts)
    members = bounds.members
    side = 0.28 * len(members) + 1.2
    figure = Figure(figsize=(side * len(matrices), side + 0.5), layout="constrained")
    rows: list[tuple[Any, ...]] = []
    for i, (name, matrix) in enumerate(matrices.items()):
        axes = figure.add_subplot(1, len(matrices), i + 1)
        _matrix(axes, matrix, members, most=None if "Wasser" in name else 1.0, labels=i == 0)
        axes.set_title(name)
        rows += [
            (name, one, other, float(matrix[row, column]))
            for row, one in enumerate(members)
            for column, other in enumerate(members)
        ]
    save_figure(figure, folder, "check-distances")
    write_csv(folder / "check-distances.csv", ("distance", "member", "other", "value"), rows)


def _matrix(
    axes: Axes, matrix: Float[np.ndarray, "members members"], members: Sequence[str], most: float | None, labels: bool
) -> None:
    most = most or float(matrix.max()) or 1.0
    axes.imshow(matrix, vmin=0, vmax=most, cmap="viridis")
    ticks = np.arange(len(members))
    axes.set(xticks=ticks, yticks=ticks, yticklabels=members if labels else [])
    axes.set_xticklabels(members, rotation=45, ha="right", rotation_mode="anchor")
    if len(members) <= 10:
        for row, column in np.ndindex(*matrix.shape):
            value = matrix[row, column]
            colour = "black" if value > 0.6 * most else "white"
            if row != column:
                text = f"{value:.2f}".removeprefix("0") if value < 9.5 else f"{value:.0f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)


PANELS: dict[str, dict[str, str]] = {
    "π-diameter": {"diameter_low": "low estimate", "diameter_high": "high estimate"},
    "Wasserstein distance": {"wasserstein": "largest pair", "wasserstein_chance": "by chance"},
    "entropy gap on cells": {"entropy_gap": "measured", "sharp_entropy_gap_bound": "allowed (D5)"},
    "effective share of samples": {"effective_share": "median mini-batch"},
    "smallest safe k": {"smallest_safe_k": "largest of the epoch"},
    "one-step bound (D2)": {"one_step_bound": "1 and more says nothing"},
}
"""What is drawn along the epochs: title, and the numbers with their labels."""


def diagnostics_curves(metrics: Sequence[dict[str, Any]], folder: Path) -> None:
    """What `diagnostics` has measured along the epochs, the mean over seeds; where no seed knows a number is a gap."""
    by_epoch: dict[int, list[dict[str, Any]]] = {}
    for line in metrics:
        found = {**line.get("diagnostics", {}), "effective_share": line["effective_share"]}
        by_epoch.setdefault(line["epoch"], []).append(found)
    epochs = sorted(by_epoch)
    names = sorted({name for lines in by_epoch.values() for line in lines for name in line})
    means = {
        name: [_mean([line[name] for line in by_epoch[epoch] if name in line]) for epoch in epochs] for name in names
    }
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        for i, (title, curves) in enumerate(PANELS.items()):
            axes = figure.add_subplot(2, 3, i + 1, title=title, xlabel="epoch")
            drawn = {name: label for name, label in curves.items() if name in means}
            for (name, label), colour in zip(drawn.items(), COLOURS, strict=False):
                axes.plot(epochs, means[name], color=colour, label=label, linewidth=1.4)
            axes.set_ylim(bottom=0)
            if drawn:
                axes.legend(loc="best")
            else:
                axes.text(0.5, 0.5, "not known here", ha="center", va="center", transform=axes.transAxes)
        save_figure(figure, folder, "diagnostics")
    rows = zip(epochs, *(means[name] for name in names), strict=True)
    write_csv(folder / "diagnostics.csv", ("epoch", *names), rows)


def _mean(values: Sequence[float | int]) -> float:
    return float(np.mean(values)) if values else np.nan


def _evaluation(found: Diagnosis) -> Evaluation:
    """As far as a heat-map needs one."""
    visits = found.visits
    return Evaluation(
        class_name=found.class_name,
        members=found.members,
        probabilities=found.probabilities,
        alpha=found.config.alpha,
        seeds=(found.config.seed,),
        ceilings=found.ceilings,
        entropies=found.entropies[None],
        trajectory_entropies=np.zeros((1, len(found.members), 0)),
        visits=visits and type(visits)(visits.shares[None], visits.extent),
        trails=None,
    )
