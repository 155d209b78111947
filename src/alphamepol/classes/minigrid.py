"""minigrid: a large easy grid and an adverse grid behind a door. The agent sees 7 x 7 cells of a grid."""

import dataclasses
from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.miniature import miniature_finetuning, miniature_metatraining
from alphamepol.environments.registry import ClassEntry, StepCost, registered_member_ids

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "minigrid"
# With this gradient_share, MEPOL learns from as many samples as αMEPOL.
PAPER = PretrainConfig(
    seeds=10, epochs=300, horizon=150, trajectories=100, neighbours=50, hidden=(64,), gradient_share=0.2
)
FINETUNING = TrpoConfig(tasks=13, iterations=200, horizon=150, steps=7500, hidden=(64,))
METATRAINING = MetatrainConfig(horizon=150, hidden=(64,), replay=200_000)
COST = StepCost(image_multiplications=30_000)


def minigrid_class() -> "EnvironmentClass":
    from alphamepol.environments.environment_class import EnvironmentClass
    from alphamepol.environments.minigrid.map import ADVERSE, ADVERSE_GOALS, EASY, EASY_GOALS
    from alphamepol.environments.minigrid.minigrid import MiniGrid

    size = (18, 18)
    members = {
        "EasyG": MiniGrid(EASY, goals=EASY_GOALS, size=size),
        "AdvG": MiniGrid(ADVERSE, backward=True, goals=ADVERSE_GOALS, size=size),
    }
    return EnvironmentClass(members, [0.8, 0.2], name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="A large easy grid, and a grid behind a door in which the agent moves backward; the agent sees 7 x 7 "
    "cells",
    build=minigrid_class,
    presets={
        "paper": (PAPER, FINETUNING, METATRAINING),
        # The scripts of the authors use the worst 6 of 20 mini-batches. Their other values are those of the paper.
        "authors": (dataclasses.replace(PAPER, alpha=0.3, gradient_share=0.3),),
        # The noise of the gradient limits what an epoch learns here. It has 16 times the paper's mini-batches.
        "large": (dataclasses.replace(PAPER, trajectories=1600),),
        "miniature": (
            dataclasses.replace(
                quick_alphamepol_preset(PAPER), epochs=30, trajectories=50, hidden=(32,), learning_rate=1e-4
            ),
            dataclasses.replace(miniature_finetuning(FINETUNING), steps=3000, hidden=(32,)),
            miniature_metatraining(METATRAINING),
        ),
    },
    gymnasium_ids={
        **registered_member_ids("EasyG", class_name=NAME, member="EasyG", horizon=150),
        **registered_member_ids("AdvG", class_name=NAME, member="AdvG", horizon=150),
    },
    cost=COST,
)
