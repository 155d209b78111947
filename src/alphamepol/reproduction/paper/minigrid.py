"""MiniGrid: pre-training on a large easy grid and on a grid behind a door, and TRPO from the pre-trained policies.

The paper claims nothing about the entropies, which depend on the encoder. Figures show them beside the returns.
"""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import (
    Claim,
    claim_alike,
    claim_greater,
    claimed_final_return,
    claimed_mean_return,
)
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS, MEMBERS = "minigrid", ("EasyG", "AdvG")
PICTURES = {"EasyG": "alphamepol/EasyG-v0", "AdvG": "alphamepol/AdvG-v0"}
SEEDS = 10
"""The seeds of fine-tuning per task. The ten policies take turns, so that every policy meets every task."""
CLEARLY, SLIGHTLY = 0.05, 0.2
"""A difference in return of more than `CLEARLY` is a clear one, and of less than `SLIGHTLY` a slight one."""


def experiment(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(CLASS, alpha=alpha) for alpha in (0.2, 1.0))
    random, alone = scale.untrained(CLASS), [scale.specialist(CLASS, number, 2) for number in range(2)]
    inits = (risk_averse, neutral, None)
    runs = {member: [scale.finetuning(CLASS, member, init, seeds=SEEDS) for init in inits] for member in MEMBERS}
    easy, adverse = ([claimed_mean_return(run) for run in runs[member]] for member in MEMBERS)
    last_easy, last_adverse = ([claimed_final_return(run) for run in runs[member]] for member in MEMBERS)
    return Experiment(
        name="minigrid",
        title="MiniGrid",
        claims=(
            Claim(
                "minigrid-finetune",
                "Over the curves of 13 tasks, the return from αMEPOL is slightly below MEPOL in EasyG, and "
                "significantly above MEPOL in AdvG. Both are above Random.",
                (
                    claim_greater(easy[1], easy[0]),
                    claim_alike(easy[1], easy[0], SLIGHTLY),
                    claim_greater(adverse[0], adverse[1]),
                    *(claim_greater(one, member[2]) for member in (easy, adverse) for one in member[:2]),
                ),
                quote="slightly worse in the easier configuration, but significantly better in the worst-case",
                earlier=Claim(
                    "minigrid-finetune",
                    "At the last iteration, the return from MEPOL is slightly above αMEPOL in EasyG, and the return "
                    "from αMEPOL is clearly above MEPOL in AdvG. Both are above Random.",
                    (
                        claim_greater(last_easy[1], last_easy[0]),
                        claim_alike(last_easy[1], last_easy[0], SLIGHTLY),
                        claim_greater(last_adverse[0], last_adverse[1], by=CLEARLY),
                        *(claim_greater(one, member[2]) for member in (last_easy, last_adverse) for one in member[:2]),
                    ),
                ),
            ),
        ),
        drawings=(
            drawings.renders_drawing("minigrid", "The two grids, with the part that the agent sees.", PICTURES),
            drawings.entropies_drawing("minigrid", (risk_averse, neutral, random, *alone)),
            drawings.heat_maps_drawing("minigrid", (neutral, risk_averse, random)),
            *(drawings.returns_drawing("minigrid", member, runs[member]) for member in MEMBERS),
        ),
    )
