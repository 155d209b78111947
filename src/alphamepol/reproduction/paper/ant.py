"""Ant Stairs: walking down, or climbing; and TRPO from there."""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import ALIKE, Claim, alike, entropy_in, final_return, greater
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS = "ant-stairs"
PICTURES = {"Up": "alphamepol/AntStairsUp-v0", "Down": "alphamepol/AntStairsDown-v0"}


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.2, 1.0))
    random = scale.untrained(CLASS)
    runs = [scale.finetuning(CLASS, "Up", init, seeds=1) for init in (risk_averse, neutral, None)]
    from_averse, from_neutral, from_random = (final_return(run) for run in runs)
    return Experiment(
        name="ant",
        title="Ant Stairs",
        claims=(
            Claim(
                "ant-explore",
                "αMEPOL ≥ MEPOL in Up, and (peculiar to this class) in Down",
                tuple(
                    greater(entropy_in(risk_averse, member), entropy_in(neutral, member), by=-ALIKE)
                    for member in ("Up", "Down")
                ),
            ),
            Claim(
                "ant-finetune",
                "TRPO in Up over 8 tasks: αMEPOL > MEPOL ≈ Random",
                (
                    greater(from_averse, from_neutral),
                    greater(from_averse, from_random),
                    alike(from_neutral, from_random),
                ),
            ),
        ),
        drawings=(
            drawings.renders("ant", "The Ant at its start.", PICTURES),
            drawings.entropies("ant", (risk_averse, neutral, random)),
            drawings.heat_maps("ant", (neutral, risk_averse, random)),
            drawings.returns("ant", "Up", runs),
        ),
    )
