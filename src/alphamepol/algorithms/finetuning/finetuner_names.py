"""The algorithms of fine-tuning that have a name. Nothing here imports JAX, so that `--help` is quick."""

import importlib

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.errors import InputError

FINETUNERS = {"trpo": "alphamepol.algorithms.trpo"}
"""By name, the folder of an algorithm: its module `config` has the settings for a class of one's own as `OWN`, its
module `learner` the algorithm as `FINETUNER`. The first is the one that is used unless another is asked for."""

DEFAULT = next(iter(FINETUNERS))


def own_settings_by_finetuner_name(algorithm: str) -> FinetuneConfig:
    """The settings of an algorithm for a class that has none of its own."""
    return importlib.import_module(f"{_folder_by_finetuner_name(algorithm)}.config").OWN


def module_by_finetuner_name(algorithm: str) -> str:
    """The module that has the algorithm."""
    return f"{_folder_by_finetuner_name(algorithm)}.learner"


def _folder_by_finetuner_name(algorithm: str) -> str:
    if algorithm not in FINETUNERS:
        raise InputError(f"algorithm: {algorithm!r} is not known, only {', '.join(FINETUNERS)}")
    return FINETUNERS[algorithm]
