"""TRPO from pre-trained policies: gridworld-slope, MiniGrid, Ant Stairs."""

from collections.abc import Sequence

from alphamepol.experiments import figures
from alphamepol.experiments.claims import Claim, above, alike, final_return, greater
from alphamepol.experiments.experiment import Drawing, Experiment
from alphamepol.experiments.planned import Finetuning
from alphamepol.experiments.scale import Scale

HIGH = 0.8
"""A return that is high: at least so many goals are reached."""
NEAR = 0.15
"""Two means over fifty goals that differ by less are near each other."""


def returns_drawing(name: str, member: str, runs: Sequence[Finetuning]) -> Drawing:
    """Curves of one member, and the goals."""
    caption = f"Return of TRPO in {member} from each initial policy: mean over the tasks with 95 % bands."
    return Drawing(f"{name}-{member}-returns", caption, tuple(runs), figures.returns)


def slope(scale: Scale) -> Experiment:
    inits = [scale.pretraining("gridworld-slope", alpha=0.2), scale.pretraining("gridworld-slope", alpha=1.0), None]
    runs = {member: [scale.finetuning("gridworld-slope", member, init) for init in inits] for member in ("GWS", "GWN")}
    quantities = {member: [final_return(run) for run in runs[member]] for member in runs}
    easy, adverse = quantities["GWS"], quantities["GWN"]
    return Experiment(
        name="slope-finetuning",
        title="gridworld-slope: reinforcement learning from the pre-trained policies",
        claims=(
            Claim(
                "slope-finetune",
                "TRPO return over 50 goals: αMEPOL high in both; MEPOL high in GWS, near Random in GWN",
                (
                    above(easy[0], HIGH),
                    above(adverse[0], HIGH),
                    above(easy[1], HIGH),
                    alike(adverse[1], adverse[2], NEAR),
                ),
            ),
        ),
        drawings=tuple(returns_drawing("slope", member, runs[member]) for member in runs),
    )


def minigrid(scale: Scale) -> Experiment:
    inits = [scale.pretraining("minigrid", alpha=0.2), scale.pretraining("minigrid", alpha=1.0), None]
    runs = {member: [scale.finetuning("minigrid", member, init, seeds=5) for init in inits] for member in MINIGRIDS}
    easy, adverse = ([final_return(run) for run in runs[member]] for member in MINIGRIDS)
    return Experiment(
        name="minigrid-finetuning",
        title="MiniGrid: reinforcement learning from the pre-trained policies",
        claims=(
            Claim(
                "minigrid-finetune",
                "EasyG: MEPOL slightly above αMEPOL; AdvG: αMEPOL clearly above MEPOL; both above Random",
                (
                    greater(easy[1], easy[0]),
                    greater(adverse[0], adverse[1], by=0.05),
                    *(greater(one, member[2]) for member in (easy, adverse) for one in member[:2]),
                ),
            ),
        ),
        drawings=tuple(returns_drawing("minigrid", member, runs[member]) for member in runs),
    )


def ant(scale: Scale) -> Experiment:
    inits = [scale.pretraining("ant-stairs", alpha=0.2), scale.pretraining("ant-stairs", alpha=1.0), None]
    runs = [scale.finetuning("ant-stairs", "Up", init, seeds=1) for init in inits]
    risk_averse, neutral, random = (final_return(run) for run in runs)
    return Experiment(
        name="ant-finetuning",
        title="Ant Stairs: reinforcement learning from the pre-trained policies",
        claims=(
            Claim(
                "ant-finetune",
                "TRPO in Up over 8 tasks: αMEPOL > MEPOL ≈ Random",
                (greater(risk_averse, neutral), greater(risk_averse, random), alike(neutral, random)),
            ),
        ),
        drawings=(returns_drawing("ant", "Up", runs),),
    )


MINIGRIDS = ("EasyG", "AdvG")
