"""multigrid: ten maps with different walls and slopes."""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import Claim, alike, entropy_in, final_return, greater, mean_entropy
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS, SIZE, ADVERSE = "multigrid", 10, "MG0"
SLIGHTLY = 0.2
"""Nats that make a difference a slight one, or, if it is more, a clear one."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.1, 1.0))
    random, alone = scale.untrained(CLASS), [scale.specialist(CLASS, number, SIZE) for number in range(SIZE)]
    runs = [scale.finetuning(CLASS, ADVERSE, init) for init in (risk_averse, neutral, None)]
    returns = [final_return(run) for run in runs]
    return Experiment(
        name="multigrid",
        title="multigrid: ten maps",
        claims=(
            Claim(
                "multigrid-explore",
                "mean over the class: MEPOL slightly higher; in MG0 (its GWN): αMEPOL clearly higher",
                (
                    greater(mean_entropy(neutral), mean_entropy(risk_averse)),
                    alike(mean_entropy(neutral), mean_entropy(risk_averse), SLIGHTLY),
                    greater(entropy_in(risk_averse, ADVERSE), entropy_in(neutral, ADVERSE), by=SLIGHTLY),
                ),
            ),
            Claim(
                "multigrid-finetune",
                "TRPO in MG0 over 50 goals: αMEPOL > MEPOL, Random",
                (greater(returns[0], returns[1]), greater(returns[0], returns[2])),
            ),
        ),
        drawings=(
            drawings.entropies("multigrid", (risk_averse, neutral, random, *alone)),
            drawings.heat_maps("multigrid", (neutral, risk_averse)),
            drawings.returns("multigrid", ADVERSE, runs),
        ),
    )
