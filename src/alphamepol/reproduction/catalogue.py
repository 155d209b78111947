"""The list of all experiments of the paper."""

import difflib
from collections.abc import Sequence

from alphamepol.errors import InputError
from alphamepol.reproduction.claims import Claim
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.paper import (
    alphas,
    ant,
    baseline,
    counter_gridworld,
    counter_minigrid,
    everywhere,
    meta,
    minigrid,
    multigrid,
    slope,
    slope_finetuning,
)
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.scale import Scale

FILES = (
    slope,
    alphas,
    everywhere,
    slope_finetuning,
    multigrid,
    ant,
    minigrid,
    meta,
    counter_gridworld,
    counter_minigrid,
    baseline,
)


def catalogue_of_experiments(scale: Scale) -> list[Experiment]:
    """Return all experiments in the order of the report."""
    return [file.experiment(scale) for file in FILES]


def choose_from_catalogue(experiments: Sequence[Experiment], asked: Sequence[str]) -> tuple[list[Claim], list[Planned]]:
    """Return the claims to decide and the runs to do; a claim asks only for the runs that decide it."""
    claims = {claim.id: claim for experiment in experiments for claim in experiment.claims}
    by_name = {experiment.name: experiment for experiment in experiments}
    chosen: dict[str, Claim] = {}
    runs: dict[Planned, None] = {}
    for name in asked:
        if name == "all":
            chosen |= claims
            runs |= dict.fromkeys(run for experiment in experiments for run in experiment.runs)
        elif name in by_name:
            chosen |= {claim.id: claim for claim in by_name[name].claims}
            runs |= dict.fromkeys(by_name[name].runs)
        elif name in claims:
            chosen[name] = claims[name]
            runs |= dict.fromkeys(claims[name].runs)
        else:
            known = [*by_name, *claims, "all"]
            hint = difflib.get_close_matches(name, known, 1)
            cure = f"did you mean {hint[0]!r}?" if hint else f"choose from {', '.join(known)}"
            raise InputError(f"what: {name!r} is no experiment and no claim; {cure}")
    return list(chosen.values()), _catalogue_runs_with_needs(runs)


def _catalogue_runs_with_needs(runs: dict[Planned, None]) -> list[Planned]:
    """Return the runs with all runs that they need, each after those that it needs."""
    ordered: dict[Planned, None] = {}

    def add(run: Planned) -> None:
        for needed in run.needs:
            add(needed)
        ordered[run] = None

    for run in runs:
        add(run)
    return list(ordered)
