"""The runs of a sweep: one for each α and each kind of memory, and specialists if they are asked for."""

import dataclasses
from collections.abc import Sequence
from typing import get_args

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.environments.make import make
from alphamepol.errors import InputError
from alphamepol.reproduction.planned import Pretraining
from alphamepol.settings.policy import MemoryKind

MOST_SPECIALISTS = 100
"""The most members of a class whose specialists are trained."""


def plan_sweep(
    class_name: str,
    config: PretrainConfig,
    alpha: Sequence[float],
    memory: Sequence[MemoryKind],
    specialists: bool,
) -> list[Pretraining]:
    """Return the runs of a sweep. Every run has all seeds of `config`, side by side in one program.

    A specialist is trained with MEPOL on one member alone. It has the first kind of memory.
    """
    for field, values in (("alpha", alpha), ("memory", memory)):
        if not values:
            raise InputError(f"{field}: no value was given; give at least one")
    for one in memory:
        if one not in get_args(MemoryKind):
            raise InputError(f"memory: {one!r} was given; choose from {', '.join(get_args(MemoryKind))}")
    configs = [dataclasses.replace(config, alpha=float(one), memory=kind) for kind in memory for one in alpha]
    if specialists:
        members = len(make(class_name))
        if not 2 <= members <= MOST_SPECIALISTS:
            raise InputError(
                f"specialists: {class_name} has {members} members; there must be from 2 to {MOST_SPECIALISTS}"
            )
        for number in range(members):
            alone = tuple(float(other == number) for other in range(members))
            configs.append(dataclasses.replace(config, alpha=1.0, memory=memory[0], probabilities=alone))
    for one in configs:
        one.check()
    return [Pretraining(class_name, one) for one in dict.fromkeys(configs)]
