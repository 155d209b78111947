"""The figures of experiments: PNG, SVG, and the CSV behind each, readable at the width of a column."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from alphamepol.environments.registry import make
from alphamepol.errors import InputError, RunError
from alphamepol.experiments.planned import Finetuning, Planned
from alphamepol.experiments.store import Stored
from alphamepol.runs import figures, meta_figures
from alphamepol.runs.plotting import STYLE, colours_of, save_figure, write_csv
from alphamepol.statistics import Estimate, Sample, estimate

FORMATS = ("png", "svg")

Found = Mapping[Planned, Stored]
"""The runs of a figure that are there, by what was planned."""


def bars(
    groups: Mapping[str, Mapping[str, Estimate]],
    folder: Path,
    name: str,
    *,
    ylabel: str,
    levels: Mapping[str, float] | None = None,
) -> None:
    """A bar with its 95 % interval for every series of every group; a dashed line at the level of a group."""
    series = list(dict.fromkeys(one for group in groups.values() for one in group))
    colours = colours_of(series)
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
                ends = found.interval or (found.value, found.value)
                error = [[found.value - ends[0]], [ends[1] - found.value]]
                axes.bar(
                    x, found.value, 0.92 * width, color=colours[one], label=one if one not in _seen(axes) else None
                )
                axes.errorbar(x, found.value, np.maximum(error, 0.0), color="black", linewidth=0.9, capsize=1.5)
                rows.append((group, one, found.value, *ends))
            if levels and group in levels:
                axes.plot([place - 0.45, place + 0.45], [levels[group]] * 2, "k--", linewidth=0.9)
                rows.append((group, "ceiling", levels[group], levels[group], levels[group]))
        axes.axhline(0.0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set(ylabel=ylabel, xlim=(-0.6, len(groups) - 0.4))
        figure.legend(loc="outside upper center", ncols=min(int(size // 1.6), len(series)))
        save_figure(figure, folder, name, FORMATS)
    write_csv(folder / f"{name}.csv", ("group", "series", "value", "low", "high"), rows)


def entropies(found: Found, folder: Path, name: str) -> None:
    """The entropy of every method in every member, and the ceilings."""
    groups: dict[str, dict[str, Estimate]] = {}
    levels: dict[str, float] = {}
    for run, stored in found.items():
        for number, (member, values) in enumerate(stored.summary["entropy"].items()):
            # A policy trained for one member alone is shown there.
            if getattr(run, "member_alone", None) not in (None, number):
                continue
            groups.setdefault(member, {})[run.label] = estimate(Sample.of_seeds(values))
            if (ceiling := stored.summary["ceiling"][member]) is not None:
                levels[member] = ceiling
    if groups:
        bars(groups, folder, name, ylabel="state entropy", levels=levels)


def heat_maps(found: Found, folder: Path, name: str) -> None:
    """Where each method goes in every member."""
    shown = {run: stored for run, stored in found.items() if stored.evaluated}
    evaluations = {_distinct_label(run, stored): stored.evaluation for run, stored in shown.items()}
    if not evaluations:
        return
    figures.heat_maps(evaluations, make(next(iter(found)).class_name), folder, name, FORMATS)


def _distinct_label(run: Planned, stored: Stored) -> str:
    """Policies trained for one member alone are several; each goes into all members."""
    alone = getattr(run, "member_alone", None)
    return run.label if alone is None else f"trained in {stored.summary['members'][alone]}"


def histogram(found: Found, folder: Path, name: str) -> None:
    """The entropy of single trajectories under p_M."""
    evaluations = {run.label: stored.evaluation for run, stored in found.items() if stored.evaluated}
    if evaluations:
        figures.entropy_histogram(evaluations, folder, name, FORMATS)


def returns(found: Found, folder: Path, name: str) -> None:
    """Return curves with bands, and maps of the goals."""
    if not found:
        return
    run, stored = next(iter(found.items()))
    assert isinstance(run, Finetuning)
    curves = {run.label: np.array(stored.summary["returns"]) for run, stored in found.items()}
    # A run that had less time is drawn as far as all go.
    shape = np.min([curve.shape for curve in curves.values()], axis=0)
    curves = {label: curve[: shape[0], : shape[1]] for label, curve in curves.items()}
    tasks = stored.summary["tasks"][: shape[0]]
    figures.returns(curves, tasks, make(run.class_name)[run.member], folder, name, FORMATS)


def renders(found: Found, folder: Path, name: str, *, ids: Mapping[str, str]) -> None:
    """What members look like at the start: Gymnasium environments by their title. No picture where none can be made."""
    try:
        pictures = {title: _render(gymnasium_id) for title, gymnasium_id in ids.items()}
    except (ImportError, InputError, RunError):
        return
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.6 * len(pictures), 2.4), layout="constrained")
        for axes, (title, pixels) in zip(figure.subplots(1, len(pictures)), pictures.items(), strict=True):
            axes.imshow(pixels)
            axes.set_title(title)
            axes.set_axis_off()
        save_figure(figure, folder, name, FORMATS)


def _render(gymnasium_id: str) -> np.ndarray:
    env = gymnasium.make(gymnasium_id, render_mode="rgb_array")
    env.reset(seed=0)
    pixels = env.render()
    env.close()
    return np.asarray(pixels)


def adaptation(found: Found, folder: Path, name: str) -> None:
    """MAML's return before and after its inner step."""
    for stored in found.values():
        before, after = (np.array(stored.summary[part]) for part in ("return_before", "return_after"))
        meta_figures.adaptation(before, after, folder, name, FORMATS)


def discriminability(found: Found, folder: Path, name: str) -> None:
    """How well DIAYN's skills are told apart."""
    for stored in found.values():
        values = np.array(stored.summary["discriminability"])
        meta_figures.discriminability(values, stored.summary["skills"], folder, name, FORMATS)


def _seen(axes: Any) -> list[str]:
    return axes.get_legend_handles_labels()[1]
