"""Farama's own MiniGrid environments as a class."""

import os
import warnings
from functools import partial

import gymnasium

from alphamepol.environments.gymnasium_class import gymnasium_class
from alphamepol.environments.host import HostClass
from alphamepol.errors import InputError

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would greet in every worker

MEMBERS = {"Unlock": "MiniGrid-Unlock-v0", "ObstructedMaze": "MiniGrid-ObstructedMaze-2Dlhb-v0"}


def minigrid_counterexample() -> HostClass:
    """The class of Unlock and ObstructedMaze, seen through their images; pre-training goes on after an end."""
    try:
        import minigrid  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise InputError("class minigrid-counterexample needs MiniGrid: pip install 'alphamepol[minigrid]'") from error
    members = {name: partial(images_of, gymnasium_id) for name, gymnasium_id in MEMBERS.items()}
    return gymnasium_class(members, [0.8, 0.2], name="minigrid-counterexample", endless=True)


def images_of(gymnasium_id: str) -> gymnasium.Env:
    """One of Farama's environments that shows its image alone."""
    from minigrid.wrappers import ImgObsWrapper

    with warnings.catch_warnings():
        # The paper's version of an environment is meant, newer ones notwithstanding.
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        return ImgObsWrapper(gymnasium.make(gymnasium_id))
