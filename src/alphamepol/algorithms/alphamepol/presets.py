"""Named settings of pre-training: a preset gives every field a value, and single ones can be overridden."""

import dataclasses
from pathlib import Path
from typing import Literal, get_args

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.environments.registry import Named, find_registered_class, registered_name
from alphamepol.errors import InputError
from alphamepol.files.json_files import read_config_json
from alphamepol.settings.conversion import settings_from_dict

Preset = Literal["paper", "authors", "quick", "own"]

# Twenty trajectories a mini-batch: where each goes its own round, as a pendulum does, five are measured mostly against
# themselves, and learning then makes all of them go the same large round (docs/environments.md).
OWN = PretrainConfig(
    epochs=50,
    horizon=200,
    trajectories=400,
    batch=20,
    learning_rate=3e-5,
    initial_log_std=-0.5,
    normalise=True,
)
"""The settings for a class that the paper does not have, whose units are not known."""


def quick_alphamepol_preset(config: PretrainConfig) -> PretrainConfig:
    """Settings of a small network, fewer samples and a higher rate: a minute a seed on two cores."""
    return dataclasses.replace(config, epochs=40, trajectories=100, hidden=(64, 64), learning_rate=3e-4, seeds=1)


def preset(name: Preset, environment_class: str | Named) -> PretrainConfig:
    """The settings of a preset for a class.

    - `paper`: the paper's table; ten seeds. Only for the paper's classes.
    - `authors`: the same, with the values of the authors' published scripts where they differ.
    - `quick`: a small network, fewer samples and a higher rate; a minute a seed on two cores; one seed.
    - `own`: for a class of one's own, whose units are not known; one seed.

    `environment_class` is a class or its name; any class that the package does not know is one's own.
    """
    class_name = registered_name(environment_class)
    if name not in get_args(Preset):
        raise InputError(f"preset: {name!r} is not known; choose paper, authors, quick or own")
    entry = find_registered_class(class_name)
    paper = entry and entry.settings("paper", PretrainConfig)
    if name == "own" or (name == "quick" and paper is None):
        return OWN if name == "own" else quick_alphamepol_preset(OWN)
    if entry is None or paper is None:
        raise InputError(f"preset: the paper has no settings for {class_name}; choose own or quick")
    if name == "quick":
        return quick_alphamepol_preset(paper)
    return (entry.settings("authors", PretrainConfig) if name == "authors" else None) or paper


def usual_preset(class_name: str) -> Preset:
    """The preset of a class unless another is asked for."""
    entry = find_registered_class(class_name)
    return "paper" if entry and entry.settings("paper", PretrainConfig) else "own"


def usual_preset_settings(class_name: str, run: str | Path | None = None) -> PretrainConfig:
    """The settings of a run, if it is one of pre-training on the class; else those of the usual preset."""
    described = {} if run is None else read_config_json(Path(run))
    if described.get("class") == class_name and described.get("command") == "pretrain":
        try:
            return settings_from_dict(PretrainConfig, described["config"])
        except (KeyError, TypeError, AttributeError):
            pass  # whoever reads the run says what is wrong
    return preset(usual_preset(class_name), class_name)
