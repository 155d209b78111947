"""The figures of experiments: the runs that each figure shows, and the function that draws them."""

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
from alphamepol.figures.style import FORMATS, DrawnFigure
from alphamepol.reproduction.planned import Finetuning, Metatraining, Planned
from alphamepol.reproduction.store import Stored

Found = Mapping[Planned, Stored]
"""The stored runs of a figure by planned run; missing runs are left out."""


@dataclass(frozen=True)
class Drawing:
    """A figure of an experiment. It shows those of its runs that are in the folder."""

    name: str
    """The name of the files of the figure, without suffix."""
    caption: str
    runs: tuple[Planned, ...]
    draw: Callable[[Found, Path, str], DrawnFigure | None]
    """Draws the runs that were found, in the order of `runs`, into a folder under a name. Returns the figure, if there
    is something to draw.

    It is called if at least one of the runs was found, or if `runs` is empty.
    """
    places: bool = False
    """True if the figure has heat-maps. The page shows them with a slider, and replays below."""


def entropies_drawing(name: str, runs: Sequence[Planned]) -> Drawing:
    """Return a drawing with the entropy of every method in every member as bars."""
    caption = (
        "State entropy of the final policies in each member: means over seeds with 95 % intervals. Dots are the "
        "numbers of two seeds, which have no interval. The dashed line is the ceiling, where it is known: the entropy "
        "of the uniform distribution over the free space."
    )
    return Drawing(f"{name}-entropies", caption, tuple(runs), _make_entropies_drawing)


def heat_maps_drawing(name: str, runs: Sequence[Planned]) -> Drawing:
    """Return a drawing with a heat-map of every method in every member."""
    caption = (
        "Heat-maps of each method in each member: the share of time at each place, on a log scale, over all seeds."
    )
    return Drawing(f"{name}-heat-maps", caption, tuple(runs), _make_heat_maps_drawing, places=True)


def histogram_drawing(name: str, runs: Sequence[Planned]) -> Drawing:
    """Return a drawing with histograms of the entropy of single trajectories."""
    caption = "Histograms of the entropy of single trajectories under p_M. The bars of the members are stacked."
    return Drawing(f"{name}-histogram", caption, tuple(runs), _make_histogram_drawing)


def returns_drawing(name: str, member: str, runs: Sequence[Finetuning]) -> Drawing:
    """Return a drawing with the return along fine-tuning as curves, and maps of the goals."""
    caption = f"Return of TRPO in {member} from each initial policy: means over the tasks with 95 % bands over tasks."
    return Drawing(f"{name}-{member}-returns", caption, tuple(runs), _make_returns_drawing)


def renders_drawing(name: str, caption: str, ids: Mapping[str, str]) -> Drawing:
    """Return a drawing with pictures of members at their start; `ids` maps titles to Gymnasium ids."""
    return Drawing(f"{name}-render", caption, (), partial(_make_renders_drawing, ids=ids))


def adaptation_drawing(name: str, run: Metatraining) -> Drawing:
    """Return a drawing with MAML's return before and after the inner step as curves."""
    caption = f"MAML+R on {run.class_name}: the return before and after the inner step, along meta-training."
    return Drawing(f"{name}-{run.class_name}-adaptation", caption, (run,), _make_adaptation_drawing)


def discriminability_drawing(name: str, run: Metatraining) -> Drawing:
    """Return a drawing with the discriminability of DIAYN's skills as a curve."""
    caption = f"DIAYN on {run.class_name}: the discriminability ln q(z|s) of its skills along training."
    return Drawing(f"{name}-{run.class_name}-discriminability", caption, (run,), _make_discriminability_drawing)


def _make_entropies_drawing(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    groups: dict[str, dict[str, Estimate]] = {}
    levels: dict[str, float] = {}
    for run, stored in found.items():
        for number, (member, values) in enumerate(stored.summary["entropy"].items()):
            # A specialist is shown only in its own member.
            if run.member_alone not in (None, number):
                continue
            groups.setdefault(member, {})[run.label] = estimate_statistic(Sample.of_seeds(values))
            if (ceiling := stored.summary["ceiling"][member]) is not None:
                levels[member] = ceiling
    if groups:
        return draw_bars(groups, folder, name, label="state entropy", levels=levels)
    return None


def _make_heat_maps_drawing(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    shown = {run: stored for run, stored in found.items() if stored.evaluated}
    evaluations = {_distinct_label_in_drawings(run, stored): stored.evaluation for run, stored in shown.items()}
    if evaluations:
        draw_heat_maps(evaluations, make(next(iter(found)).class_name), folder, name, FORMATS)
    return None


def _distinct_label_in_drawings(run: Planned, stored: Stored) -> str:
    """Return the label of a run; specialists, which share one label, are named by their member."""
    alone = run.member_alone
    return run.label if alone is None else f"trained in {stored.summary['members'][alone]}"


def _make_histogram_drawing(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    evaluations = {run.label: stored.evaluation for run, stored in found.items() if stored.evaluated}
    if evaluations:
        return draw_entropy_histogram(evaluations, folder, name, FORMATS)
    return None


def _make_returns_drawing(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    if not found:
        return None
    run, stored = next(iter(found.items()))
    assert isinstance(run, Finetuning)
    curves = {run.label: np.array(stored.summary["returns"]) for run, stored in found.items()}
    # Runs may differ in tasks and iterations: the figure shows the part that all runs have.
    shape = np.min([curve.shape for curve in curves.values()], axis=0)
    curves = {label: curve[: shape[0], : shape[1]] for label, curve in curves.items()}
    tasks = stored.summary["tasks"][: shape[0]]
    return draw_returns(curves, tasks, make(run.class_name)[run.member], folder, name, FORMATS)


def _make_renders_drawing(found: Found, folder: Path, name: str, *, ids: Mapping[str, str]) -> DrawnFigure | None:
    return draw_renders(ids, folder, name, FORMATS)


def _make_adaptation_drawing(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    for stored in found.values():
        before, after = (np.array(stored.summary[part]) for part in ("return_before", "return_after"))
        return draw_adaptation_curves(before, after, folder, name, FORMATS)
    return None


def _make_discriminability_drawing(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    for stored in found.values():
        values = np.array(stored.summary["discriminability"])
        return draw_discriminability_curve(values, stored.summary["skills"], folder, name, FORMATS)
    return None
