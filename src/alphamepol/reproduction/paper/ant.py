"""Ant Stairs: pre-training on stairs that lead up and down, and TRPO from the pre-trained policies."""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import (
    ALIKE,
    Claim,
    claim_alike,
    claim_greater,
    claimed_entropy_in,
    claimed_final_return,
)
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS = "ant-stairs"
PICTURES = {"Up": "alphamepol/AntStairsUp-v0", "Down": "alphamepol/AntStairsDown-v0"}


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.2, 1.0))
    random = scale.untrained(CLASS)
    runs = [scale.finetuning(CLASS, "Up", init, seeds=1) for init in (risk_averse, neutral, None)]
    from_averse, from_neutral, from_random = (claimed_final_return(run) for run in runs)
    return Experiment(
        name="ant",
        title="Ant Stairs",
        claims=(
            Claim(
                "ant-explore",
                "αMEPOL explores at least as well as MEPOL in Up and, which is peculiar to this class, also in Down.",
                tuple(
                    claim_greater(
                        claimed_entropy_in(risk_averse, member), claimed_entropy_in(neutral, member), by=-ALIKE
                    )
                    for member in ("Up", "Down")
                ),
            ),
            Claim(
                "ant-finetune",
                "The return of TRPO in Up over 8 tasks is higher from αMEPOL than from MEPOL. From MEPOL it is about "
                "the same as from Random.",
                (
                    claim_greater(from_averse, from_neutral),
                    claim_greater(from_averse, from_random),
                    claim_alike(from_neutral, from_random),
                ),
            ),
        ),
        drawings=(
            drawings.renders_drawing("ant", "The Ant at the start of an episode, in each member.", PICTURES),
            drawings.entropies_drawing("ant", (risk_averse, neutral, random)),
            drawings.heat_maps_drawing("ant", (neutral, risk_averse, random)),
            drawings.returns_drawing("ant", "Up", runs),
        ),
    )
