"""The trade-off of a sweep: what each run reaches in every member, on average, and in the worst cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.environments.registry import find_registered_class
from alphamepol.estimation.statistics import Estimate, estimate_of_minibatches
from alphamepol.figures.fronts.drawing import FrontPanel, FrontPoint, front_of_points
from alphamepol.figures.tables import MOST
from alphamepol.measuring.exploration import Evaluation
from alphamepol.reproduction.planned import Pretraining
from alphamepol.settings.policy import MemoryKind

CEILING, ALONE = "ceiling", "trained there alone"
"""The names of the marks."""
USUAL_ALPHA = 0.2
"""The percentile of the CVaR if no run of the sweep has an α below 1."""
SERIES: dict[MemoryKind, str] = {
    "none": "without memory",
    "last": "memory of the last step",
    "recurrent": "recurrent memory",
}


@dataclass(frozen=True)
class SweptRun:
    """A run of a sweep with its numbers."""

    planned: Pretraining
    evaluation: Evaluation
    """The evaluation, with the percentile at which the sweep compares the CVaR."""

    @property
    def series(self) -> str:
        return SERIES[self.planned.config.memory]

    @property
    def label(self) -> str:
        return f"{self.planned.config.alpha:g}"

    @cached_property
    def members(self) -> list[Estimate]:
        """The mean entropy in each member."""
        return [self.evaluation.estimate(name) for name in self.evaluation.members]

    @cached_property
    def mean(self) -> Estimate:
        return self.evaluation.estimate()

    @cached_property
    def cvar(self) -> Estimate:
        return self.evaluation.estimate_cvar()

    def others(self, member: int) -> Estimate:
        """Return the mean entropy over all members but one, each with the same weight."""
        return estimate_of_minibatches(np.delete(self.evaluation.entropies, member, axis=1).mean(axis=1))


@dataclass(frozen=True)
class TradeOff:
    """The runs of a sweep that are done."""

    runs: Sequence[SweptRun]
    """The runs on the whole class: by memory, and by α."""
    specialists: Mapping[int, Estimate]
    """The mean entropy of a policy that was trained on one member alone, by the index of the member."""
    alpha: float
    """The percentile at which the CVaR of all runs is compared."""

    @property
    def members(self) -> tuple[str, ...]:
        return self.runs[0].evaluation.members

    @cached_property
    def on_front(self) -> list[bool]:
        """Tell of each run whether it is on the Pareto front over all members.

        Such a run has no other run that explores every member at least as well, and one better.
        """
        return front_of_points(np.array([[one.value for one in run.members] for run in self.runs])).tolist()

    def member_panels(self) -> list[FrontPanel]:
        """Return panels of each member's entropy against the others'. Two members need only one panel."""
        if len(self.members) == 2:
            points = [FrontPoint(run.series, run.label, *run.members) for run in self.runs]
            xlabel, ylabel = (f"entropy in {name}" for name in self.members)
            return [FrontPanel(xlabel, ylabel, points, self._levels(0), self._levels(1))]
        return [
            FrontPanel(
                "entropy in the others",
                f"entropy in {name}",
                [FrontPoint(run.series, run.label, run.others(i), run.members[i]) for run in self.runs],
                y_levels=self._levels(i),
            )
            for i, name in enumerate(self.members[:MOST])
        ]

    def risk_panel(self) -> FrontPanel:
        """Return the panel of the mean entropy against the CVaR."""
        points = [FrontPoint(run.series, run.label, run.mean, run.cvar) for run in self.runs]
        return FrontPanel("mean entropy", f"mean of the worst {self.alpha:g}", points)

    def _levels(self, member: int) -> dict[str, Estimate]:
        """Return the marks of a member: its ceiling if that is known, and its specialist if that is among the runs."""
        levels = {}
        ceiling = self.runs[0].evaluation.ceilings[member]
        if np.isfinite(ceiling):
            levels[CEILING] = Estimate(float(ceiling), None)
        if member in self.specialists:
            levels[ALONE] = self.specialists[member]
        return levels


def trade_off_of_runs(found: Mapping[Pretraining, Evaluation], specialists: Mapping[int, Estimate]) -> TradeOff | None:
    """Return the trade-off of finished runs on the whole class; None if there are none."""
    if not found:
        return None
    shared = sorted(found, key=lambda run: (list(SERIES).index(run.config.memory), run.config.alpha))
    alpha = min((run.config.alpha for run in shared if run.config.alpha < 1), default=_usual_alpha(shared[0]))
    return TradeOff([SweptRun(run, replace(found[run], alpha=alpha)) for run in shared], specialists, alpha)


def _usual_alpha(run: Pretraining) -> float:
    entry = find_registered_class(run.class_name)
    paper = entry and entry.settings("paper", PretrainConfig)
    return paper.alpha if paper and paper.alpha < 1 else USUAL_ALPHA
