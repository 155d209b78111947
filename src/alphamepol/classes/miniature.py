"""The settings of miniatures: experiments that take minutes on two cores."""

import dataclasses

from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.metatraining.presets import quick_metatraining_preset
from alphamepol.algorithms.trpo.config import TrpoConfig


def miniature_finetuning(config: TrpoConfig) -> TrpoConfig:
    """Return the settings with few iterations, few tasks and a small network."""
    return dataclasses.replace(config, iterations=20, steps=4000, tasks=5, hidden=(64, 64), seeds=1)


def miniature_metatraining(config: MetatrainConfig) -> MetatrainConfig:
    """Return settings that are smaller than those of the preset `quick`."""
    return dataclasses.replace(quick_metatraining_preset(config), iterations=10, epochs=20, tasks=5, seeds=2)
