"""minigrid-counterexample: Unlock and ObstructedMaze of MiniGrid, whose layouts are drawn for every trajectory."""

import dataclasses
from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.classes.miniature import miniature_finetuning
from alphamepol.classes.minigrid import COST, FINETUNING, PAPER
from alphamepol.environments.registry import ClassEntry, GymnasiumId

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "minigrid-counterexample"
MEMBERS = ("Unlock", "ObstructedMaze")


def minigrid_counterexample() -> "EnvironmentClass":
    from alphamepol.environments.environment_class import EnvironmentClass
    from alphamepol.environments.minigrid.rooms import RoomsMiniGrid

    return EnvironmentClass({name: RoomsMiniGrid(name) for name in MEMBERS}, [0.8, 0.2], name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="Unlock and ObstructedMaze of MiniGrid, drawn anew for every trajectory: a risk-averse objective "
    "should make no difference",
    build=minigrid_counterexample,
    presets={
        "paper": (PAPER, FINETUNING),
        "miniature": (
            dataclasses.replace(quick_alphamepol_preset(PAPER), epochs=3, trajectories=20, horizon=100, hidden=(32,)),
            dataclasses.replace(miniature_finetuning(FINETUNING), steps=3000, hidden=(32,)),
        ),
    },
    gymnasium_ids={
        f"alphamepol/{member}-v0": GymnasiumId(
            "alphamepol.environments.gymnasium.member_environment:MemberEnvironment",
            {"class_name": NAME, "member": member, "horizon": 150},
        )
        for member in MEMBERS
    },
    cost=COST,
)
