"""Histograms of the entropy of single trajectories."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.figures.curves import add_legend_above
from alphamepol.figures.style import (
    COLOURS,
    COLUMN,
    PNG,
    STYLE,
    member_in_figure,
    name_in_figure,
    save_figure_in_style,
    tell_values,
    write_csv_of_figure,
)
from alphamepol.measuring.exploration import Evaluation


def draw_entropy_histogram(
    evaluations: Mapping[str, Evaluation],
    folder: Path | None,
    name: str = "entropy-histogram",
    formats: Sequence[str] = PNG,
) -> Figure | None:
    """Draw a histogram per method of the entropy of single trajectories under p_M, with the members stacked.

    A class with more members than there are colours has one colour for all of them. Nothing is drawn if there are no
    finite entropies, and no files are written if there is no folder.
    """
    shown = {}
    for method, evaluation in evaluations.items():
        values = evaluation.trajectory_entropies
        weights = np.broadcast_to(np.array(evaluation.probabilities)[:, None], values.shape[1:]) / max(
            1, values.shape[-1]
        )
        shown[method] = [
            (values[:, i].ravel(), np.tile(weights[i], len(values)) / len(values))
            for i in range(len(evaluation.members))
        ]
    everything = np.concatenate([values for parts in shown.values() for values, _ in parts])
    everything = everything[np.isfinite(everything)]
    if not everything.size:
        return None
    edges = np.linspace(everything.min(), everything.max() + 1e-6, 41)
    rows = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(COLUMN, 1.75 * len(shown) + 0.7), layout="constrained")
        all_axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (method, parts) in zip(all_axes, shown.items(), strict=True):
            members = evaluations[method].members
            shares = [np.histogram(values, edges, weights=weights)[0] for values, weights in parts]
            for member, of_member in zip(members, shares, strict=True):
                rows += [(method, member, *row) for row in zip(edges[:-1], edges[1:], of_member, strict=True)]
            bars = [(member_in_figure(member), of_member) for member, of_member in zip(members, shares, strict=True)]
            if len(members) > len(COLOURS):
                bars = [(f"{len(members)} members", np.sum(shares, axis=0))]  # colours would repeat
            below = np.zeros(len(edges) - 1)
            for (label, height), colour in zip(bars, COLOURS, strict=False):
                drawn = axes.bar(edges[:-1], height, np.diff(edges), below, align="edge", color=colour, label=label)
                for bar, share, west, east in zip(drawn, height, edges[:-1], edges[1:], strict=True):
                    if share > 0:
                        said = f"{share:.1%} of trajectories, entropy {west:.2f} to {east:.2f}"
                        tell_values(bar, label, f"{label}: {said}".replace("-", "−"))
                below += height
            axes.set(ylabel="share of trajectories", title=name_in_figure(method))
        all_axes[-1].set_xlabel("entropy of one trajectory")
        add_legend_above(figure, all_axes[0])
        if folder is None:
            return figure
        save_figure_in_style(figure, folder, name, formats)
    write_csv_of_figure(folder / f"{name}.csv", ("method", "member", "from", "to", "share"), rows)
    return figure
