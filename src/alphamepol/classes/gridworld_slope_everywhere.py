"""gridworld-slope-everywhere: gridworld-slope with the slope on the whole map."""

from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.gridworld_slope import PAPER, STANDING_STILL
from alphamepol.classes.miniature import miniature_finetuning, miniature_metatraining
from alphamepol.environments.registry import ClassEntry

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "gridworld-slope-everywhere"


def gridworld_slope_everywhere() -> "EnvironmentClass":
    from alphamepol.environments.environment_class import EnvironmentClass
    from alphamepol.environments.gridworld.gridworld import MAX_STEP, Gridworld
    from alphamepol.environments.gridworld.layouts import FOUR_ROOMS

    members = {
        "GWS": Gridworld(FOUR_ROOMS, slope="south", slope_mean=MAX_STEP / 2),
        "GWN": Gridworld(FOUR_ROOMS, slope="north", slope_mean=MAX_STEP / 2),
    }
    return EnvironmentClass(members, [0.8, 0.2], name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="gridworld-slope with the slope on the whole map",
    build=gridworld_slope_everywhere,
    presets={
        "paper": (PAPER, TrpoConfig(), MetatrainConfig()),
        "miniature": (
            quick_alphamepol_preset(PAPER),
            miniature_finetuning(TrpoConfig()),
            miniature_metatraining(MetatrainConfig()),
        ),
    },
    noise_of_random=STANDING_STILL,
)
