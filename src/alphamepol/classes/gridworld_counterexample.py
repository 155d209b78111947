"""gridworld-counterexample: two maps without slope that are about equally hard."""

from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.gridworld_slope import CORNER, STANDING_STILL
from alphamepol.classes.miniature import miniature_finetuning, miniature_metatraining
from alphamepol.environments.registry import ClassEntry, registered_member_ids

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "gridworld-counterexample"
PAPER = PretrainConfig(seeds=10, epochs=50, alpha=0.35, initial_mean=CORNER)


def gridworld_counterexample() -> "EnvironmentClass":
    from alphamepol.environments.environment_class import EnvironmentClass
    from alphamepol.environments.gridworld.gridworld import Gridworld
    from alphamepol.environments.gridworld.layouts import FOUR_ROOMS, TWO_HALLS

    members = {"four-rooms": Gridworld(FOUR_ROOMS), "two-halls": Gridworld(TWO_HALLS)}
    return EnvironmentClass(members, [0.8, 0.2], name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="Two maps without slope, about equally hard: a risk-averse objective should make no difference",
    build=gridworld_counterexample,
    presets={
        "paper": (PAPER, TrpoConfig(), MetatrainConfig()),
        "miniature": (
            quick_alphamepol_preset(PAPER),
            miniature_finetuning(TrpoConfig()),
            miniature_metatraining(MetatrainConfig()),
        ),
    },
    gymnasium_ids=registered_member_ids("Counterexample", class_name=NAME, member=0),
    noise_of_random=STANDING_STILL,
)
