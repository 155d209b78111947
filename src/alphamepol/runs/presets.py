"""Named settings: a preset gives every field a value, and single ones can be overridden."""

import dataclasses
from typing import Any, Literal

from alphamepol.errors import InputError
from alphamepol.runs.config import FinetuneConfig, MetatrainConfig, PretrainConfig

Preset = Literal["paper", "authors", "quick", "own"]

CORNER = (-0.2, 0.2)
"""The action that points at the north-west corner of a gridworld at full length."""

_ANT: dict[str, Any] = {
    "epochs": 400,
    "trajectories": 150,
    "neighbours": 500,
    "hidden": (400, 300),
    "initial_log_std": -0.5,
}
# MEPOL learns from as many samples as αMEPOL.
_MINIGRID: dict[str, Any] = {
    "epochs": 300,
    "horizon": 150,
    "trajectories": 100,
    "neighbours": 50,
    "hidden": (64,),
    "gradient_share": 0.2,
}
_PAPER: dict[str, dict[str, Any]] = {
    "gridworld-slope": {"initial_mean": CORNER},
    "gridworld-slope-everywhere": {"initial_mean": CORNER},
    "multigrid": {"epochs": 50, "trajectories": 500, "alpha": 0.1, "initial_mean": CORNER},
    "gridworld-counterexample": {"epochs": 50, "alpha": 0.35, "initial_mean": CORNER},
    "ant-stairs": _ANT,
    "ant-stairs-implicitfast": _ANT,
    "minigrid": _MINIGRID,
    "minigrid-counterexample": _MINIGRID,
}
# The published scripts keep 14 of 40 mini-batches in gridworld-slope and 6 of 20 in minigrid; their other values are
# the paper's.
_AUTHORS: dict[str, dict[str, Any]] = {
    "gridworld-slope": {"alpha": 0.35},
    "minigrid": {"alpha": 0.3, "gradient_share": 0.3},
}
_QUICK: dict[str, Any] = {
    "epochs": 40,
    "trajectories": 100,
    "hidden": (64, 64),
    "learning_rate": 3e-4,
    "seeds": 1,
}
# Twenty trajectories a mini-batch: where each goes its own round, as a pendulum does, five are measured mostly against
# themselves, and learning then makes all of them go the same large round (docs/environments.md).
_OWN: dict[str, Any] = {
    "epochs": 50,
    "horizon": 200,
    "trajectories": 400,
    "batch": 20,
    "learning_rate": 3e-5,
    "initial_log_std": -0.5,
    "normalise": True,
    "seeds": 1,
}
_ANT_FINETUNING: dict[str, Any] = {
    "tasks": 8,
    "steps": 40_000,
    "max_kl": 1e-2,
    "hidden": (400, 300),
    "initial_log_std": -0.5,
}
_MINIGRID_FINETUNING: dict[str, Any] = {
    "tasks": 13,
    "iterations": 200,
    "horizon": 150,
    "steps": 7500,
    "hidden": (64,),
}
_FINETUNING: dict[str, dict[str, Any]] = {
    "ant-stairs": _ANT_FINETUNING,
    "ant-stairs-implicitfast": _ANT_FINETUNING,
    "minigrid": _MINIGRID_FINETUNING,
    "minigrid-counterexample": _MINIGRID_FINETUNING,
}
_OWN_FINETUNING: dict[str, Any] = {
    "horizon": 200,
    "steps": 8000,
    "max_kl": 1e-2,
    "initial_log_std": -0.5,
    "normalise": True,
}
_METATRAINING: dict[str, dict[str, Any]] = {"minigrid": {"horizon": 150, "hidden": (64,), "replay": 200_000}}
_QUICK_METATRAINING: dict[str, Any] = {
    "iterations": 50,
    "tasks": 10,
    "trajectories": 10,
    "epochs": 60,
    "skills": 10,
    "batch": 64,
    "hidden": (64, 64),
    "replay": 60_000,
    "seeds": 1,
}


def preset(name: Preset, class_name: str = "gridworld-slope") -> PretrainConfig:
    """The settings of a preset for a class.

    - `paper`: the paper's table; ten seeds. Only for the paper's classes.
    - `authors`: the same, with the values of the authors' published scripts where they differ.
    - `quick`: a small network, fewer samples and a higher rate; a minute a seed on two cores; one seed.
    - `own`: for a class of one's own, whose units are not known; one seed.
    """
    if name not in ("paper", "authors", "quick", "own"):
        raise InputError(f"preset: {name!r} is not known; choose paper, authors, quick or own")
    if name in ("paper", "authors") and class_name not in _PAPER:
        raise InputError(f"preset: the paper has no settings for {class_name}; choose own or quick")
    fields = _OWN if name == "own" or class_name not in _PAPER else {"seeds": 10} | _PAPER[class_name]
    if name == "authors":
        fields = fields | _AUTHORS.get(class_name, {})
    if name == "quick":
        fields = fields | _QUICK
    return dataclasses.replace(PretrainConfig(), **fields)


def usual_preset(class_name: str) -> Preset:
    """The preset of a class unless another is asked for."""
    return "paper" if class_name in _PAPER else "own"


def finetuning_preset(class_name: str = "gridworld-slope") -> FinetuneConfig:
    """The settings of fine-tuning for a class: the paper's, or those for a class of one's own."""
    fields = _FINETUNING.get(class_name, {}) if class_name in _PAPER else _OWN_FINETUNING
    return dataclasses.replace(FinetuneConfig(), **fields)


def metatraining_preset(
    name: Literal["paper", "quick"] = "paper", class_name: str = "gridworld-slope"
) -> MetatrainConfig:
    """The settings of meta-training for a class: the paper's for its gridworlds, the nearest to them for others.

    `quick` is a small network and few samples: a minute or two a seed on two cores.
    """
    fields = _METATRAINING.get(class_name, {})
    if name == "quick":
        fields = fields | _QUICK_METATRAINING
    return dataclasses.replace(MetatrainConfig(), **fields)


CLASSES_WITH_SETTINGS = tuple(_PAPER)
