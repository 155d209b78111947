"""generated-minigrid: MiniGrids of rooms, doors and keys. Training draws a new grid for every mini-batch."""

import dataclasses
from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.classes.miniature import miniature_finetuning
from alphamepol.classes.minigrid import COST, FINETUNING, PAPER
from alphamepol.environments.registry import ClassEntry

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "generated-minigrid"
SETTINGS = dataclasses.replace(PAPER, seeds=5, alpha=1.0, gradient_share=1.0, evaluation_batches=4)


def generated_minigrid() -> "EnvironmentClass":
    from alphamepol.environments.generated.generated_class import generated_class
    from alphamepol.environments.minigrid.generators import draw_minigrid_rooms

    return generated_class(draw_minigrid_rooms, name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="MiniGrids of rooms, doors and keys, in which the agent walks forward or backward, drawn anew for "
    "every mini-batch; evaluated on unseen grids",
    build=generated_minigrid,
    presets={
        "paper": (SETTINGS, FINETUNING),
        "miniature": (
            dataclasses.replace(
                quick_alphamepol_preset(SETTINGS), epochs=30, trajectories=50, hidden=(32,), learning_rate=1e-4
            ),
            dataclasses.replace(miniature_finetuning(FINETUNING), steps=3000, hidden=(32,)),
        ),
    },
    cost=COST,
)
