"""Exploring Ant Stairs and MiniGrid."""

from functools import partial

from alphamepol.experiments import figures
from alphamepol.experiments.claims import ALIKE, Claim, entropy_in, greater
from alphamepol.experiments.experiment import Drawing, Experiment
from alphamepol.experiments.scale import Scale

ANTS = {"Up": "alphamepol/AntStairsUp-v0", "Down": "alphamepol/AntStairsDown-v0"}
GRIDS = {"EasyG": "alphamepol/EasyG-v0", "AdvG": "alphamepol/AdvG-v0"}


def ant(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining("ant-stairs", alpha=alpha) for alpha in (0.2, 1.0))
    random = scale.untrained("ant-stairs")
    names = {risk_averse: risk_averse.label, neutral: neutral.label, random: random.label}
    return Experiment(
        name="ant",
        title="Ant Stairs: walking down, or climbing",
        claims=(
            Claim(
                "ant-explore",
                "αMEPOL ≥ MEPOL in Up, and (peculiar to this class) in Down",
                tuple(
                    greater(entropy_in(risk_averse, member), entropy_in(neutral, member), by=-ALIKE)
                    for member in ("Up", "Down")
                ),
            ),
        ),
        drawings=(
            Drawing(
                "ant-entropies",
                "Entropy of the Ant's place in each member.",
                (risk_averse, neutral, random),
                partial(figures.entropies, names=names),
            ),
            Drawing("ant-render", "The Ant at its start.", (), partial(figures.renders, ids=ANTS)),
            Drawing(
                "ant-heat-maps",
                "Where the Ant goes.",
                (neutral, risk_averse, random),
                partial(figures.heat_maps, names=names),
            ),
        ),
    )


def minigrid(scale: Scale) -> Experiment:
    """The paper claims nothing of the entropies, which depend on the encoder; they belong beside the returns."""
    risk_averse, neutral = (scale.pretraining("minigrid", alpha=alpha) for alpha in (0.2, 1.0))
    random, alone = scale.untrained("minigrid"), [scale.specialist("minigrid", number, 2) for number in range(2)]
    names = {risk_averse: risk_averse.label, neutral: neutral.label, random: random.label}
    names |= dict.fromkeys(alone, "alone")
    return Experiment(
        name="minigrid",
        title="MiniGrid: a large easy grid, and one behind a door",
        claims=(),
        drawings=(
            Drawing(
                "minigrid-entropies",
                "Entropy of the randomly encoded view in each member; methods can be compared, members cannot.",
                (risk_averse, neutral, random, *alone),
                partial(figures.entropies, names=names),
            ),
            Drawing(
                "minigrid-render", "The two grids, and what the agent sees.", (), partial(figures.renders, ids=GRIDS)
            ),
            Drawing(
                "minigrid-heat-maps",
                "Where each method goes in the two grids.",
                (neutral, risk_averse, random),
                partial(figures.heat_maps, names=names),
            ),
        ),
    )
