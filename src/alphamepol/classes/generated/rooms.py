"""generated-rooms: rooms and blocks with a slope or a wind. Training draws a new map for every mini-batch."""

from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.gridworld_slope import STANDING_STILL
from alphamepol.classes.miniature import miniature_finetuning
from alphamepol.environments.registry import ClassEntry

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "generated-rooms"
PAPER = PretrainConfig(seeds=5, epochs=150, alpha=1.0, coinciding="noise", evaluation_batches=4)
"""The sizes of gridworld-slope, with α = 1. The network starts as it is drawn."""


def generated_rooms() -> "EnvironmentClass":
    from alphamepol.environments.generated.generated_class import generated_class
    from alphamepol.environments.gridworld.generators import draw_rooms

    return generated_class(draw_rooms, name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="Rooms and blocks with a slope or a wind, drawn anew for every mini-batch; evaluated on unseen maps",
    build=generated_rooms,
    presets={
        "paper": (PAPER, TrpoConfig()),
        "miniature": (quick_alphamepol_preset(PAPER), miniature_finetuning(TrpoConfig())),
    },
    noise_of_random=STANDING_STILL,
)
