"""Named settings of meta-training."""

import dataclasses
from typing import Literal

from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.environments.registry import Named, find_registered_class, registered_name


def quick_metatraining_preset(config: MetatrainConfig) -> MetatrainConfig:
    """Settings of a small network and few samples: a minute or two a seed on two cores."""
    return dataclasses.replace(
        config,
        iterations=50,
        tasks=10,
        trajectories=10,
        epochs=60,
        skills=10,
        batch=64,
        hidden=(64, 64),
        replay=60_000,
        seeds=1,
    )


def metatraining_preset(name: Literal["paper", "quick"], environment_class: str | Named) -> MetatrainConfig:
    """The settings of meta-training for a class: the paper's for its gridworlds, the nearest to them for others.

    `quick` is a small network and few samples: a minute or two a seed on two cores.
    """
    entry = find_registered_class(registered_name(environment_class))
    paper = (entry and entry.settings("paper", MetatrainConfig)) or MetatrainConfig()
    return quick_metatraining_preset(paper) if name == "quick" else paper
