"""multigrid: ten maps with different walls and slopes."""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import (
    Claim,
    claim_alike,
    claim_greater,
    claimed_entropy_in,
    claimed_final_return,
    claimed_mean_entropy,
)
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS, SIZE, ADVERSE = "multigrid", 10, "MG0"
SLIGHTLY = 0.2
"""Nats that make a difference a slight one, or, if it is more, a clear one."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.1, 1.0))
    random, alone = scale.untrained(CLASS), [scale.specialist(CLASS, number, SIZE) for number in range(SIZE)]
    runs = [scale.finetuning(CLASS, ADVERSE, init) for init in (risk_averse, neutral, None)]
    returns = [claimed_final_return(run) for run in runs]
    return Experiment(
        name="multigrid",
        title="multigrid: ten maps",
        claims=(
            Claim(
                "multigrid-explore",
                "mean over the class: MEPOL slightly higher; in MG0 (its GWN): αMEPOL clearly higher",
                (
                    claim_greater(claimed_mean_entropy(neutral), claimed_mean_entropy(risk_averse)),
                    claim_alike(claimed_mean_entropy(neutral), claimed_mean_entropy(risk_averse), SLIGHTLY),
                    claim_greater(
                        claimed_entropy_in(risk_averse, ADVERSE), claimed_entropy_in(neutral, ADVERSE), by=SLIGHTLY
                    ),
                ),
            ),
            Claim(
                "multigrid-finetune",
                "TRPO in MG0 over 50 goals: αMEPOL > MEPOL, Random",
                (claim_greater(returns[0], returns[1]), claim_greater(returns[0], returns[2])),
            ),
        ),
        drawings=(
            drawings.entropies_drawing("multigrid", (risk_averse, neutral, random, *alone)),
            drawings.heat_maps_drawing("multigrid", (neutral, risk_averse)),
            drawings.returns_drawing("multigrid", ADVERSE, runs),
        ),
    )
