"""Drawings that several experiments have."""

from collections.abc import Sequence

from alphamepol.experiments import figures
from alphamepol.experiments.experiment import Drawing
from alphamepol.experiments.planned import Finetuning, Planned


def entropies(name: str, runs: Sequence[Planned]) -> Drawing:
    caption = (
        "State entropy of the final policies in each member: mean over seeds with 95 % intervals. Dashed: the ceiling, "
        "the entropy of the uniform distribution over the free space, where it is known."
    )
    return Drawing(f"{name}-entropies", caption, tuple(runs), figures.entropies)


def heat_maps(name: str, runs: Sequence[Planned]) -> Drawing:
    caption = "Where each method goes in each member: share of time on a log scale, all seeds together."
    return Drawing(f"{name}-heat-maps", caption, tuple(runs), figures.heat_maps)


def returns(name: str, member: str, runs: Sequence[Finetuning]) -> Drawing:
    caption = f"Return of TRPO in {member} from each initial policy: mean over the tasks, 95 % bands over tasks."
    return Drawing(f"{name}-{member}-returns", caption, tuple(runs), figures.returns)
