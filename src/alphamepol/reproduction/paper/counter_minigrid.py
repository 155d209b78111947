"""minigrid-counterexample: Farama's Unlock and ObstructedMaze, where α should make no difference."""

import dataclasses

from alphamepol.estimation.statistics import Sample
from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import Claim, Quantity, claim_alike
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLASS = "minigrid-counterexample"
ENCODED = 5.0
"""The largest difference, in nats, between entropies of the 64 random features that are "about the same".

For comparison: the entropy of untrained policies is 84 nats lower.
"""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, seeds=8, alpha=alpha) for alpha in (0.2, 1.0))
    random = scale.untrained(CLASS, seeds=8)
    return Experiment(
        name="counter-minigrids",
        title="minigrid-counterexample: Unlock and ObstructedMaze",
        claims=(
            Claim(
                "counter-minigrid",
                "On minigrid-counterexample, αMEPOL (0.2) and MEPOL have about the same E^0.2 (8 seeds).",
                (
                    claim_alike(
                        counter_minigrid_worst_fifth(risk_averse), counter_minigrid_worst_fifth(neutral), ENCODED
                    ),
                ),
            ),
        ),
        drawings=(drawings.entropies_drawing("counter-minigrid", (risk_averse, neutral, random)),),
    )


def counter_minigrid_worst_fifth(run: Planned) -> Quantity:
    """Return E^0.2 under p_M, from fresh mini-batches, per seed. α is 0.2 here even if the run had another α."""

    def read(stored: Stored) -> Sample:
        return Sample.of_seeds(dataclasses.replace(stored.evaluation, alpha=0.2).cvar)

    return Quantity(f"E^0.2 of {run.label}", run, read)
