"""Checks that a method of meta-training can work with a class and with the arguments."""

from pathlib import Path

from alphamepol.algorithms.maml.tasks import DrawTask
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.horizons import check_horizon_of_reward
from alphamepol.errors import InputError
from alphamepol.policies.shape import policy_shape

LARGEST = 2000
"""The largest number of components of an observation for the linear baseline, whose cost grows with its square."""

LARGEST_REPLAY = 16 * 2**30
"""The largest size in bytes of the replays of all seeds. They are on the device twice, and in every checkpoint."""


def check_metatraining_method(
    environment_class: EnvironmentClass,
    config: MetatrainConfig,
    diayn: str | Path | None,
    draw_task: DrawTask | None,
) -> None:
    """Raise an `InputError` if the method cannot be trained with the class or the arguments."""
    if diayn is not None and config.method != "maml-diayn":
        raise InputError(f"diayn: {diayn} was given, but only maml-diayn takes skills; the method is {config.method}")
    if environment_class.generator is not None:
        raise InputError(
            "class: a generated class was given; meta-training would train on its unseen members, and leave nothing to "
            "test with"
        )
    if draw_task is not None and config.method != "maml-r":
        raise InputError(f"draw_task: it was given, but only maml-r takes tasks; the method is {config.method}")
    for name in environment_class.names if config.method == "maml-r" else ():
        check_horizon_of_reward(environment_class[name], name, config.horizon)
    shape = policy_shape(environment_class)
    if config.method != "diayn" and shape.image is None and shape.observation_size > LARGEST:
        raise InputError(
            f"class: observations of {environment_class.name} have {shape.observation_size} numbers; the linear "
            f"baseline of MAML is for at most {LARGEST}"
        )
    if config.method == "maml-r":
        return
    if not all(shape.actions.bounded):
        raise InputError(f"class: DIAYN needs bounded actions; those of {environment_class.name} are not bounded")
    number = 1 if shape.image else 4
    room = config.seeds * config.replay * (2 * number * shape.observation_size + 4 * shape.action_size + 5)
    if diayn is None and room > LARGEST_REPLAY:
        raise InputError(
            f"replay: {config.replay} was given; with {config.seeds} seeds and {shape.observation_size} numbers per "
            f"observation it would take {room / 2**30:.0f} GiB, but at most {LARGEST_REPLAY / 2**30:.0f} GiB are "
            "allowed; give a smaller --replay or fewer --seeds"
        )
