"""Figures of experiments: which runs each shows, and how it is drawn from those that are there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from alphamepol.environments.make import make
from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic
from alphamepol.figures.bars import draw_bars
from alphamepol.figures.curves import draw_adaptation_curves, draw_discriminability_curve
from alphamepol.figures.heat_maps import draw_heat_maps
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.renders import draw_renders
from alphamepol.figures.returns import draw_returns
from alphamepol.figures.style import FORMATS
from alphamepol.reproduction.planned import Finetuning, Metatraining, Planned
from alphamepol.reproduction.store import Stored

Found = Mapping[Planned, Stored]
"""The runs of a figure that are there, by what was planned."""


@dataclass(frozen=True)
class Drawing:
    """A figure of an experiment, made from those of its runs that are there."""

    name: str
    """The name of its files."""
    caption: str
    runs: tuple[Planned, ...]
    draw: Callable[[Found, Path, str], None]
    """Draws the runs found, in the order of `runs`, into a folder under a name. It is called if at least one of the
    runs is there, or if the figure shows no run."""


def entropies_drawing(name: str, runs: Sequence[Planned]) -> Drawing:
    """Bars of the entropy of every method in every member."""
    caption = (
        "State entropy of the final policies in each member: mean over seeds with 95 % intervals. Dashed: the ceiling, "
        "the entropy of the uniform distribution over the free space, where it is known."
    )
    return Drawing(f"{name}-entropies", caption, tuple(runs), _make_entropies_drawing)


def heat_maps_drawing(name: str, runs: Sequence[Planned]) -> Drawing:
    """Heat-maps of every method in every member."""
    caption = "Where each method goes in each member: share of time on a log scale, all seeds together."
    return Drawing(f"{name}-heat-maps", caption, tuple(runs), _make_heat_maps_drawing)


def histogram_drawing(name: str, runs: Sequence[Planned]) -> Drawing:
    """Histograms of the entropy of single trajectories."""
    caption = "Entropy of single trajectories under p_M, members stacked."
    return Drawing(f"{name}-histogram", caption, tuple(runs), _make_histogram_drawing)


def returns_drawing(name: str, member: str, runs: Sequence[Finetuning]) -> Drawing:
    """Curves of the return along fine-tuning, and maps of the goals."""
    caption = f"Return of TRPO in {member} from each initial policy: mean over the tasks, 95 % bands over tasks."
    return Drawing(f"{name}-{member}-returns", caption, tuple(runs), _make_returns_drawing)


def renders_drawing(name: str, caption: str, ids: Mapping[str, str]) -> Drawing:
    """Pictures of members at their start; `ids` maps titles to Gymnasium ids."""
    return Drawing(f"{name}-render", caption, (), partial(_make_renders_drawing, ids=ids))


def adaptation_drawing(name: str, run: Metatraining) -> Drawing:
    """MAML's return before and after its inner step."""
    caption = f"MAML+R on {run.class_name}: return before and after the inner step along meta-training."
    return Drawing(f"{name}-{run.class_name}-adaptation", caption, (run,), _make_adaptation_drawing)


def discriminability_drawing(name: str, run: Metatraining) -> Drawing:
    """How well DIAYN's skills are told apart."""
    caption = f"DIAYN on {run.class_name}: how well its skills are told apart."
    return Drawing(f"{name}-{run.class_name}-discriminability", caption, (run,), _make_discriminability_drawing)


def _make_entropies_drawing(found: Found, folder: Path, name: str) -> None:
    groups: dict[str, dict[str, Estimate]] = {}
    levels: dict[str, float] = {}
    for run, stored in found.items():
        for number, (member, values) in enumerate(stored.summary["entropy"].items()):
            # A policy trained for one member alone is shown there.
            if run.member_alone not in (None, number):
                continue
            groups.setdefault(member, {})[run.label] = estimate_statistic(Sample.of_seeds(values))
            if (ceiling := stored.summary["ceiling"][member]) is not None:
                levels[member] = ceiling
    if groups:
        draw_bars(groups, folder, name, ylabel="state entropy", levels=levels)


def _make_heat_maps_drawing(found: Found, folder: Path, name: str) -> None:
    shown = {run: stored for run, stored in found.items() if stored.evaluated}
    evaluations = {_distinct_label_in_drawings(run, stored): stored.evaluation for run, stored in shown.items()}
    if evaluations:
        draw_heat_maps(evaluations, make(next(iter(found)).class_name), folder, name, FORMATS)


def _distinct_label_in_drawings(run: Planned, stored: Stored) -> str:
    """The label of a run; policies trained for one member alone, of which there are several, name that member."""
    alone = run.member_alone
    return run.label if alone is None else f"trained in {stored.summary['members'][alone]}"


def _make_histogram_drawing(found: Found, folder: Path, name: str) -> None:
    evaluations = {run.label: stored.evaluation for run, stored in found.items() if stored.evaluated}
    if evaluations:
        draw_entropy_histogram(evaluations, folder, name, FORMATS)


def _make_returns_drawing(found: Found, folder: Path, name: str) -> None:
    if not found:
        return
    run, stored = next(iter(found.items()))
    assert isinstance(run, Finetuning)
    curves = {run.label: np.array(stored.summary["returns"]) for run, stored in found.items()}
    # A run that had less time is drawn as far as all go.
    shape = np.min([curve.shape for curve in curves.values()], axis=0)
    curves = {label: curve[: shape[0], : shape[1]] for label, curve in curves.items()}
    tasks = stored.summary["tasks"][: shape[0]]
    draw_returns(curves, tasks, make(run.class_name)[run.member], folder, name, FORMATS)


def _make_renders_drawing(found: Found, folder: Path, name: str, *, ids: Mapping[str, str]) -> None:
    draw_renders(ids, folder, name, FORMATS)


def _make_adaptation_drawing(found: Found, folder: Path, name: str) -> None:
    for stored in found.values():
        before, after = (np.array(stored.summary[part]) for part in ("return_before", "return_after"))
        draw_adaptation_curves(before, after, folder, name, FORMATS)


def _make_discriminability_drawing(found: Found, folder: Path, name: str) -> None:
    for stored in found.values():
        values = np.array(stored.summary["discriminability"])
        draw_discriminability_curve(values, stored.summary["skills"], folder, name, FORMATS)
