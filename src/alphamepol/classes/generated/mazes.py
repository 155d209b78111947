"""generated-mazes: mazes with corridors one cell wide. Training draws a new map for every mini-batch."""

from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.generated.rooms import PAPER
from alphamepol.classes.gridworld_slope import STANDING_STILL
from alphamepol.classes.miniature import miniature_finetuning
from alphamepol.environments.registry import ClassEntry

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "generated-mazes"


def generated_mazes() -> "EnvironmentClass":
    from alphamepol.environments.generated.generated_class import generated_class
    from alphamepol.environments.gridworld.generators import draw_maze

    return generated_class(draw_maze, name=NAME)


ENTRY = ClassEntry(
    name=NAME,
    description="Mazes with corridors one cell wide, drawn anew for every mini-batch; evaluated on unseen mazes",
    build=generated_mazes,
    presets={
        "paper": (PAPER, TrpoConfig()),
        "miniature": (quick_alphamepol_preset(PAPER), miniature_finetuning(TrpoConfig())),
    },
    noise_of_random=STANDING_STILL,
)
