"""Random beside runs: untrained policies, measured as the runs were, so that a page can compare them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.start import untrained_start_policies
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError, RunError
from alphamepol.estimation.statistics import Estimate
from alphamepol.files.names import name_as_text
from alphamepol.measuring.exploration import Evaluation, measure_exploration
from alphamepol.reproduction.store import Stored
from alphamepol.runs.progress import track_progress

BATCHES = 10
"""The most mini-batches in each member with which a page measures Random."""
LARGEST_SAMPLE, LARGEST_MINIBATCH, LARGEST_LAYER = 500_000, 10_000, 1_000
"""The most steps in all and in a mini-batch, and the widest layer, with which a page measures Random.

They take some seconds on two CPU cores. Settings in files of others may ask for anything.
"""


@dataclass(frozen=True)
class RandomBeside:
    """Random beside runs: its evaluation and its numbers, if it was measured for the page, and a sentence about it."""

    sentence: str
    command: str = ""
    """The command that compares a run with Random, if Random was not measured for the page."""
    evaluation: Evaluation | None = None
    estimates: Mapping[str, Mapping[str | None, Estimate]] = field(default_factory=dict)
    """The entropy in each member, and under None the mean under p_M, by the name of the method."""


def measure_random_beside(group: Sequence[Stored]) -> RandomBeside:
    """Measure an untrained policy with the settings of the first run of a group, unless the group has Random already.

    Only classes that come with the package and are written in JAX are measured, since they take seconds. Nothing runs a
    user's program.
    """
    if any(one.description["command"] == "untrained" for one in group):
        return RandomBeside("Random: untrained policies, from one of the runs on this page.")
    first = group[0]
    class_name = str(first.description["class"])
    command = f"alphamepol evaluate {name_as_text(str(first.folder))} random"
    if class_name not in registered_class_names():
        return RandomBeside("Random was not measured, because this page runs no program of a user.", command)
    assert isinstance(first.config, PretrainConfig)
    config = dataclasses.replace(
        first.config, seeds=1, evaluation_batches=min(BATCHES, first.config.evaluation_batches), coinciding="noise"
    )
    try:
        environment_class = make_class(class_name, config.probabilities)
        if not _is_cheap(environment_class, config):
            return RandomBeside("Random was not measured, because that takes more than some seconds.", command)
        assert isinstance(environment_class, EnvironmentClass)
        if environment_class.names != tuple(first.summary["members"]):
            return RandomBeside("")
        evaluation = _evaluate_random(environment_class, config, first.summary.get("units"))
    except (InputError, RunError, ImportError) as error:
        return RandomBeside(f"Random could not be measured ({error}).")
    numbers = {name: evaluation.estimate(name) for name in (*evaluation.members, None)}
    said = (
        f"Random: one untrained policy with the settings of the first run, measured for this page on "
        f"{config.evaluation_batches} mini-batches in each member."
    )
    return RandomBeside(said, "", evaluation, {"Random": numbers})


def _is_cheap(environment_class: object, config: PretrainConfig) -> bool:
    """Return True if the class is compiled, sees no images, and needs few steps."""
    if not isinstance(environment_class, EnvironmentClass) or environment_class.members.steps_together:
        return False
    minibatch = config.batch * config.horizon
    if minibatch > LARGEST_MINIBATCH or len(environment_class) * config.evaluation_batches * minibatch > LARGEST_SAMPLE:
        return False
    widths = *config.hidden, config.recurrent_units
    return (
        max(widths) <= LARGEST_LAYER
        and len(widths) <= 10
        and len(environment_class[0].observation_space.shape or ()) == 1
    )


def _evaluate_random(
    environment_class: EnvironmentClass, config: PretrainConfig, units: Sequence[float] | None
) -> Evaluation:
    with jax.default_matmul_precision(config.matmul_precision):
        return measure_exploration(
            untrained_start_policies(environment_class, config),
            environment_class,
            config,
            alpha=config.alpha,
            batches=config.evaluation_batches,
            units=None if units is None else jnp.array(units),
            track=partial(track_progress, description="measuring Random for the page"),
        )
