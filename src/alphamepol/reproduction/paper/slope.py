"""gridworld-slope: the gain and the cost of maximising the worst fifth of entropies instead of the mean."""

import numpy as np

from alphamepol.estimation.risk import weighted_cvar
from alphamepol.estimation.statistics import Sample
from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import (
    Claim,
    Quantity,
    claim_above,
    claim_alike,
    claim_below,
    claim_greater,
    claimed_entropy_in,
    claimed_mean_entropy,
)
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLASS, MEMBERS = "gridworld-slope", ("GWS", "GWN")
MUCH = 0.5
"""The smallest difference, in nats, that is a large one."""
HEAVY = 1.0
"""The smallest depth, in nats, of a heavy lower tail: the median minus the mean of the worst tenth."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = scale.pretraining(CLASS, alpha=0.2), scale.pretraining(CLASS, alpha=1.0)
    alone = {member: scale.specialist(CLASS, number, 2, seeds=5) for number, member in enumerate(MEMBERS)}
    random = scale.untrained(CLASS)
    return Experiment(
        name="slope",
        title="gridworld-slope: exploring both members, or only the likely one",
        claims=(
            Claim(
                "slope-mean",
                "The mean entropy E^1 under p_M is about the same for αMEPOL and MEPOL.",
                (claim_alike(claimed_mean_entropy(risk_averse), claimed_mean_entropy(neutral)),),
            ),
            Claim(
                "slope-easy",
                "In GWS, MEPOL explores more than αMEPOL. MEPOL is near the optimum of GWS, a policy trained on GWS "
                "alone.",
                (
                    claim_greater(claimed_entropy_in(neutral, "GWS"), claimed_entropy_in(risk_averse, "GWS")),
                    claim_alike(
                        claimed_entropy_in(neutral, "GWS"),
                        claimed_entropy_in(alone["GWS"], "GWS", "a policy trained on GWS alone"),
                    ),
                ),
            ),
            Claim(
                "slope-adverse",
                "In GWN, αMEPOL explores much more than MEPOL.",
                (claim_greater(claimed_entropy_in(risk_averse, "GWN"), claimed_entropy_in(neutral, "GWN"), by=MUCH),),
            ),
            Claim(
                "slope-robust",
                "αMEPOL explores GWS and GWN about equally.",
                (claim_alike(claimed_entropy_in(risk_averse, "GWS"), claimed_entropy_in(risk_averse, "GWN")),),
            ),
            Claim(
                "slope-tail",
                "The entropies of 200 trajectories under p_M have a heavy lower tail with MEPOL, but not with αMEPOL.",
                (
                    claim_above(slope_experiment_lower_tail(neutral), HEAVY),
                    claim_below(slope_experiment_lower_tail(risk_averse), HEAVY),
                ),
            ),
        ),
        drawings=(
            drawings.entropies_drawing("slope", (risk_averse, neutral, random, *alone.values())),
            drawings.histogram_drawing("slope", (neutral, risk_averse)),
            drawings.heat_maps_drawing("slope", (neutral, risk_averse, random, *alone.values())),
        ),
    )


def slope_experiment_lower_tail(run: Planned) -> Quantity:
    """Return the median entropy of trajectories under p_M minus the mean of the worst tenth, per seed."""

    def read(stored: Stored) -> Sample:
        evaluation = stored.evaluation
        values = evaluation.trajectory_entropies
        weights = np.repeat(np.array(evaluation.probabilities), values.shape[-1]) / values.shape[-1]
        return Sample.of_seeds([_slope_experiment_tail_depth(seed.ravel().astype(float), weights) for seed in values])

    return Quantity(f"the depth of the lower tail of {run.label}", run, read)


def _slope_experiment_tail_depth(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    median = values[order][np.searchsorted(np.cumsum(weights[order]), 0.5)]
    return float(median - weighted_cvar(values, weights, 0.1))
