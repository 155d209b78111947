"""The algorithms of fine-tuning that have a name. Nothing here imports JAX, so that `--help` is quick."""

import importlib

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.errors import InputError

FINETUNERS = {"trpo": "alphamepol.algorithms.trpo"}
"""The folder of each algorithm, by name. Its module `config` has the settings for a class of your own as `OWN`; its
module `learner` has the algorithm as `FINETUNER`. The first algorithm is the default."""

DEFAULT = next(iter(FINETUNERS))


def own_settings_by_finetuner_name(algorithm: str) -> FinetuneConfig:
    """Return the settings of an algorithm for a class that has no settings for it."""
    return importlib.import_module(f"{_folder_by_finetuner_name(algorithm)}.config").OWN


def module_by_finetuner_name(algorithm: str) -> str:
    """Return the name of the module that has the algorithm."""
    return f"{_folder_by_finetuner_name(algorithm)}.learner"


def _folder_by_finetuner_name(algorithm: str) -> str:
    if algorithm not in FINETUNERS:
        raise InputError(f"algorithm: {algorithm!r} is not known, only {', '.join(FINETUNERS)}")
    return FINETUNERS[algorithm]
