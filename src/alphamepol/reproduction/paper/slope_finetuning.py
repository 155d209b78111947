"""gridworld-slope: TRPO from the pre-trained policies."""

from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import Claim, claim_above, claim_alike, claimed_final_return
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.scale import Scale

CLASS, MEMBERS = "gridworld-slope", ("GWS", "GWN")
SEEDS = 6
"""The seeds of fine-tuning per task. With three, the interval of a statement here and that of one in `meta` ended so
near their limits that other resamples gave other verdicts."""
HIGH = 0.8
"""The smallest return that is high: this share of the goals is reached."""
NEAR = 0.15
"""The largest difference between two mean returns over fifty goals that are near each other."""


def experiment(scale: Scale) -> Experiment:
    inits = [scale.pretraining(CLASS, alpha=0.2), scale.pretraining(CLASS, alpha=1.0), None]
    runs = {member: [scale.finetuning(CLASS, member, init, seeds=SEEDS) for init in inits] for member in MEMBERS}
    easy, adverse = ([claimed_final_return(run) for run in runs[member]] for member in MEMBERS)
    return Experiment(
        name="slope-finetuning",
        title="gridworld-slope: reinforcement learning from the pre-trained policies",
        claims=(
            Claim(
                "slope-finetune",
                "The return of TRPO over 50 goals is high from αMEPOL in both members. From MEPOL it is high in GWS, "
                "and near Random in GWN.",
                (
                    claim_above(easy[0], HIGH),
                    claim_above(adverse[0], HIGH),
                    claim_above(easy[1], HIGH),
                    claim_alike(adverse[1], adverse[2], NEAR),
                ),
            ),
        ),
        drawings=tuple(drawings.returns_drawing("slope", member, runs[member]) for member in MEMBERS),
    )
