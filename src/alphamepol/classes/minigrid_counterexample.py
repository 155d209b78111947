"""minigrid-counterexample: Unlock and ObstructedMaze of Farama's MiniGrid, with images as observations."""

import dataclasses
import os
import warnings
from functools import partial
from typing import TYPE_CHECKING

import gymnasium

from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.classes.miniature import miniature_finetuning
from alphamepol.classes.minigrid import COST, FINETUNING, PAPER
from alphamepol.environments.registry import ClassEntry
from alphamepol.errors import InputError

if TYPE_CHECKING:
    from alphamepol.environments.host import HostClass

NAME = "minigrid-counterexample"
MEMBERS = {"Unlock": "MiniGrid-Unlock-v0", "ObstructedMaze": "MiniGrid-ObstructedMaze-2Dlhb-v0"}


def minigrid_counterexample() -> "HostClass":
    """Build the class. Pre-training continues after an environment has ended an episode."""
    from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # otherwise every worker prints a greeting of pygame
    try:
        import minigrid  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise InputError(f"class {NAME} needs MiniGrid: pip install 'alphamepol[minigrid]'") from error
    members = {name: partial(minigrid_counterexample_images, gymnasium_id) for name, gymnasium_id in MEMBERS.items()}
    return gymnasium_class(members, [0.8, 0.2], name=NAME, endless=True)


def minigrid_counterexample_images(gymnasium_id: str) -> gymnasium.Env:
    """Make an environment of Farama's MiniGrid whose observation is the image alone."""
    from minigrid.wrappers import ImgObsWrapper

    with warnings.catch_warnings():
        # We want the version of the paper, even if the environment has a newer version.
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        return ImgObsWrapper(gymnasium.make(gymnasium_id))


ENTRY = ClassEntry(
    name=NAME,
    description="Unlock and ObstructedMaze of Farama's MiniGrid: a risk-averse objective should make no difference; "
    "needs MiniGrid",
    build=minigrid_counterexample,
    presets={
        "paper": (PAPER, FINETUNING),
        "miniature": (
            dataclasses.replace(quick_alphamepol_preset(PAPER), epochs=3, trajectories=20, horizon=100, hidden=(32,)),
            dataclasses.replace(miniature_finetuning(FINETUNING), steps=3000, hidden=(32,)),
        ),
    },
    cost=dataclasses.replace(COST, host_steps_per_second=2000.0),
)
