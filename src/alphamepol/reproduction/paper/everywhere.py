"""gridworld-slope-everywhere: the slope acts on the whole map. The claim is decided from two starts."""

import dataclasses

import numpy as np

from alphamepol.estimation.statistics import Sample
from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import Claim, Quantity, Statement, claim_below, claimed_entropy_in
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import Pretraining
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLASS, USUAL = "gridworld-slope-everywhere", "gridworld-slope"
STARTS = {"the paper's start": None, "the natural start": (0.0, 0.0)}
"""The actions that the policy's mean is regressed to before epoch 0; None stands for the settings of the paper.

The paper's start leads to a corner, from which MEPOL does not get away in GWN. At the natural start, policies stand
still.
"""
HARDLY = 0.1
"""The share of time below which a place is "hardly reached"."""


def experiment(scale: Scale) -> Experiment:
    decided = {start: _everywhere_experiment_statements(scale, start) for start in STARTS}
    shown = [_everywhere_experiment_run(scale, CLASS, alpha, start) for start in STARTS for alpha in (0.2, 1.0)]
    risk_averse, neutral = shown[:2]
    random = scale.untrained(CLASS)
    alone = [scale.specialist(CLASS, number, 2) for number in range(2)]
    return Experiment(
        name="everywhere",
        title="gridworld-slope with the slope everywhere",
        claims=(
            Claim(
                "slope-everywhere",
                "With the slope over the whole map, the advantage of αMEPOL in GWN is larger, but the south is hardly "
                "reached. This is so from the paper's start, and from the natural start, where MEPOL can still fall.",
                tuple(statement for of_start in decided.values() for statement in of_start),
                earlier=Claim(
                    "slope-everywhere",
                    "From the paper's start, with the slope over the whole map, the advantage of αMEPOL in GWN is "
                    "larger, but the south is hardly reached.",
                    decided["the paper's start"],
                ),
            ),
        ),
        drawings=(
            drawings.entropies_drawing("everywhere", (*shown, random, *alone)),
            drawings.heat_maps_drawing("everywhere", (neutral, risk_averse, *shown[2:], random)),
        ),
    )


def _everywhere_experiment_statements(scale: Scale, start: str) -> tuple[Statement, Statement]:
    """Return the two statements of the claim, about runs from one start."""
    everywhere, usual = (
        [_everywhere_experiment_run(scale, class_name, alpha, start) for alpha in (0.2, 1.0)]
        for class_name in (CLASS, USUAL)
    )
    advantage = Statement(
        f"from {start}, the advantage of αMEPOL over MEPOL in GWN is larger with the slope everywhere than with the "
        "slope in the north",
        (
            (1.0, claimed_entropy_in(everywhere[0], "GWN", f"αMEPOL from {start} with the slope everywhere")),
            (-1.0, claimed_entropy_in(everywhere[1], "GWN", f"MEPOL from {start} with the slope everywhere")),
            (-1.0, claimed_entropy_in(usual[0], "GWN", f"αMEPOL from {start} with the slope in the north")),
            (1.0, claimed_entropy_in(usual[1], "GWN", f"MEPOL from {start} with the slope in the north")),
        ),
        above=0.0,
    )
    return advantage, claim_below(everywhere_experiment_time_in_south(everywhere[0], "GWN", start), HARDLY)


def _everywhere_experiment_run(scale: Scale, class_name: str, alpha: float, start: str) -> Pretraining:
    run, mean = scale.pretraining(class_name, alpha=alpha), STARTS[start]
    if mean is None:
        return run
    return Pretraining(class_name, dataclasses.replace(run.config, initial_mean=mean), start="natural start")


def everywhere_experiment_time_in_south(run: Pretraining, member: str, start: str) -> Quantity:
    """Return the share of time in the southern half of the map, per seed."""

    def read(stored: Stored) -> Sample:
        evaluation = stored.evaluation
        shares = evaluation.visits.shares[:, evaluation.members.index(member)]
        return Sample.of_seeds(np.asarray(shares[:, : shares.shape[1] // 2].sum(axis=(1, 2)), float))

    return Quantity(f"the share of time of {run.config.label} from {start} in the south of {member}", run, read)
