"""multigrid: ten maps with different walls and slopes."""

from functools import partial

from alphamepol.experiments import figures
from alphamepol.experiments.claims import Claim, alike, entropy_in, final_return, greater, mean_entropy
from alphamepol.experiments.experiment import Drawing, Experiment
from alphamepol.experiments.finetuning import returns_drawing
from alphamepol.experiments.scale import Scale

CLASS, SIZE, ADVERSE = "multigrid", 10, "MG0"
SLIGHTLY = 0.2
"""Nats that make a difference a slight one, or, if it is more, a clear one."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.1, 1.0))
    random, alone = scale.untrained(CLASS), [scale.specialist(CLASS, number, SIZE) for number in range(SIZE)]
    names = {risk_averse: risk_averse.label, neutral: neutral.label, random: random.label}
    names |= dict.fromkeys(alone, "alone")
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
            Drawing(
                "multigrid-entropies",
                "State entropy of the final policies on each map, with 95 % intervals over seeds.",
                (risk_averse, neutral, random, *alone),
                partial(figures.entropies, names=names),
            ),
            Drawing(
                "multigrid-heat-maps",
                "Where each method goes on the ten maps.",
                (neutral, risk_averse),
                partial(figures.heat_maps, names=names),
            ),
            returns_drawing("multigrid", ADVERSE, runs),
        ),
    )
