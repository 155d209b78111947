"""gridworld-slope-everywhere: the slope acts on the whole map."""

import numpy as np

from alphamepol.estimation.statistics import Sample
from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import Claim, Quantity, Statement, claim_below, claimed_entropy_in
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLASS, USUAL = "gridworld-slope-everywhere", "gridworld-slope"
HARDLY = 0.1
"""The share of time below which a place is "hardly reached"."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.2, 1.0))
    usual = [scale.pretraining(USUAL, alpha=alpha) for alpha in (0.2, 1.0)]
    random = scale.untrained(CLASS)
    alone = [scale.specialist(CLASS, number, 2) for number in range(2)]
    advantage = Statement(
        "the advantage of αMEPOL over MEPOL in GWN is larger with the slope everywhere than with the slope in the "
        "north",
        (
            (1.0, claimed_entropy_in(risk_averse, "GWN", "αMEPOL with the slope everywhere")),
            (-1.0, claimed_entropy_in(neutral, "GWN", "MEPOL with the slope everywhere")),
            (-1.0, claimed_entropy_in(usual[0], "GWN", "αMEPOL with the slope in the north")),
            (1.0, claimed_entropy_in(usual[1], "GWN", "MEPOL with the slope in the north")),
        ),
        above=0.0,
    )
    return Experiment(
        name="everywhere",
        title="gridworld-slope with the slope everywhere",
        claims=(
            Claim(
                "slope-everywhere",
                "With the slope over the whole map, the advantage of αMEPOL in GWN is larger, but the south is hardly "
                "reached.",
                (advantage, claim_below(everywhere_experiment_time_in_south(risk_averse, "GWN"), HARDLY)),
            ),
        ),
        drawings=(
            drawings.entropies_drawing("everywhere", (risk_averse, neutral, random, *alone)),
            drawings.heat_maps_drawing("everywhere", (neutral, risk_averse, random)),
        ),
    )


def everywhere_experiment_time_in_south(run: Planned, member: str) -> Quantity:
    """Return the share of time in the southern half of the map, per seed."""

    def read(stored: Stored) -> Sample:
        evaluation = stored.evaluation
        shares = evaluation.visits.shares[:, evaluation.members.index(member)]
        return Sample.of_seeds(np.asarray(shares[:, : shares.shape[1] // 2].sum(axis=(1, 2)), float))

    return Quantity(f"the share of time of {run.label} in the south of {member}", run, read)
