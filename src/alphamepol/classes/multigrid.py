"""multigrid: ten gridworlds with different walls, and slopes that push the agent in different directions."""

import dataclasses
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

NAME = "multigrid"
PAPER = PretrainConfig(seeds=10, epochs=50, trajectories=500, alpha=0.1, initial_mean=CORNER)


def multigrid() -> "EnvironmentClass":
    from alphamepol.environments.environment_class import EnvironmentClass
    from alphamepol.environments.gridworld.gridworld import MAX_STEP, Gridworld
    from alphamepol.environments.gridworld.layouts import MULTIGRID

    slopes = ["north", "east", "south", "south-east", None, "east", "south", None, None, "east"]
    members = {
        f"MG{i}": Gridworld(
            layout,
            slope=slope,
            slope_mean=MAX_STEP / (2.6 if i == 0 else 3.2),
            slope_above=0.0 if i == 0 else -1.0,
        )
        for i, (layout, slope) in enumerate(zip(MULTIGRID, slopes, strict=True))
    }
    return EnvironmentClass(members, name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="Ten maps with different walls and slopes, equally likely; MG0 is the adverse one",
    build=multigrid,
    presets={
        "paper": (PAPER, TrpoConfig(), MetatrainConfig()),
        "miniature": (
            dataclasses.replace(quick_alphamepol_preset(PAPER), trajectories=200, epochs=30),
            miniature_finetuning(TrpoConfig()),
            miniature_metatraining(MetatrainConfig()),
        ),
    },
    gymnasium_ids=registered_member_ids("MultiGrid", class_name=NAME, member=0),
    noise_of_random=STANDING_STILL,
)
