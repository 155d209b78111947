"""gridworld-slope: four rooms whose slope helps the agent to the south (GWS) or holds it in the north (GWN)."""

import dataclasses
from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.miniature import miniature_finetuning, miniature_metatraining
from alphamepol.environments.registry import ClassEntry, registered_member_ids

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "gridworld-slope"
CORNER = (-0.2, 0.2)
"""The longest action towards the north-west corner of a gridworld."""
STANDING_STILL = 0.001
"""The feature noise for untrained policies in a gridworld. An untrained policy may stand still in a corner."""
PAPER = PretrainConfig(seeds=10, initial_mean=CORNER)


def gridworld_slope() -> "EnvironmentClass":
    from alphamepol.environments.environment_class import EnvironmentClass
    from alphamepol.environments.gridworld.gridworld import MAX_STEP, Gridworld
    from alphamepol.environments.gridworld.layouts import FOUR_ROOMS

    members = {
        "GWS": Gridworld(FOUR_ROOMS, slope="south", slope_mean=MAX_STEP / 2, slope_above=0.0),
        "GWN": Gridworld(FOUR_ROOMS, slope="north", slope_mean=MAX_STEP / 2, slope_above=0.0),
    }
    return EnvironmentClass(members, [0.8, 0.2], name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="Four rooms; the slope in the north half helps the agent south (GWS) or holds it in the north (GWN)",
    build=gridworld_slope,
    presets={
        "paper": (PAPER, TrpoConfig(), MetatrainConfig()),
        # The scripts of the authors use the worst 14 of 40 mini-batches. Their other values are those of the paper.
        "authors": (dataclasses.replace(PAPER, alpha=0.35),),
        "miniature": (
            quick_alphamepol_preset(PAPER),
            miniature_finetuning(TrpoConfig()),
            miniature_metatraining(MetatrainConfig()),
        ),
    },
    gymnasium_ids={
        **registered_member_ids("GWS", class_name=NAME, member="GWS"),
        **registered_member_ids("GWN", class_name=NAME, member="GWN"),
    },
    noise_of_random=STANDING_STILL,
)
