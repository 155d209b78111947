"""Named settings: a preset gives every field a value, and single ones can be overridden."""

import dataclasses
from typing import Any, Literal

from alphamepol.errors import InputError
from alphamepol.runs.config import PretrainConfig

Preset = Literal["paper", "authors", "quick"]

CORNER = (-0.2, 0.2)
"""The action that points at the north-west corner of a gridworld at full length."""

_PAPER: dict[str, dict[str, Any]] = {
    "gridworld-slope": {"initial_mean": CORNER},
    "multigrid": {"epochs": 50, "trajectories": 500, "alpha": 0.1, "initial_mean": CORNER},
    "gridworld-counterexample": {"epochs": 50, "alpha": 0.35, "initial_mean": CORNER},
}
# The published scripts keep 14 of 40 mini-batches in gridworld-slope; their other values are the paper's.
_AUTHORS: dict[str, dict[str, Any]] = {"gridworld-slope": {"alpha": 0.35}}
_QUICK: dict[str, Any] = {
    "epochs": 40,
    "trajectories": 100,
    "hidden": (64, 64),
    "learning_rate": 3e-4,
    "seeds": 1,
}


def preset(name: Preset, class_name: str = "gridworld-slope") -> PretrainConfig:
    """The settings of a preset for a class; a class without settings of its own has those of gridworld-slope.

    - `paper`: the paper's table; ten seeds.
    - `authors`: the same, with the values of the authors' published scripts where they differ.
    - `quick`: a small network, fewer samples and a higher rate; a minute a seed on two cores; one seed.
    """
    if name not in ("paper", "authors", "quick"):
        raise InputError(f"preset: {name!r} is not known; choose paper, authors or quick")
    fields = {"seeds": 10} | _PAPER.get(class_name, _PAPER["gridworld-slope"])
    if name == "authors":
        fields |= _AUTHORS.get(class_name, {})
    if name == "quick":
        fields |= _QUICK
    return dataclasses.replace(PretrainConfig(), **fields)


CLASSES_WITH_SETTINGS = tuple(_PAPER)
