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
"""A difference of less than this, in nats, is a slight one; a larger difference is a clear one."""


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
                "The mean entropy over the class is slightly higher with MEPOL. In MG0, the counterpart of GWN, the "
                "entropy is clearly higher with αMEPOL.",
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
                "The return of TRPO in MG0 over 50 goals is higher from αMEPOL than from MEPOL and from Random.",
                (claim_greater(returns[0], returns[1]), claim_greater(returns[0], returns[2])),
            ),
        ),
        drawings=(
            drawings.entropies_drawing("multigrid", (risk_averse, neutral, random, *alone)),
            drawings.heat_maps_drawing("multigrid", (neutral, risk_averse)),
            drawings.returns_drawing("multigrid", ADVERSE, runs),
        ),
    )
