"""minigrid-counterexample: Farama's Unlock and ObstructedMaze, where risk aversion should make no difference."""

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
"""Nats of the 64 random features of a view that are about the same: untrained policies lie 75 lower."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, seeds=8, alpha=alpha) for alpha in (0.2, 1.0))
    random = scale.untrained(CLASS, seeds=8)
    return Experiment(
        name="counter-minigrids",
        title="minigrid-counterexample: Unlock and ObstructedMaze",
        claims=(
            Claim(
                "counter-minigrid",
                "minigrid-counterexample: αMEPOL (0.2) ≈ MEPOL on E^0.2 (8 seeds)",
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
    """E^0.2 under p_M, per seed, of fresh mini-batches, whatever α the run had."""

    def read(stored: Stored) -> Sample:
        return Sample.of_seeds(dataclasses.replace(stored.evaluation, alpha=0.2).cvar)

    return Quantity(f"E^0.2 of {run.label}", run, read)
