"""The settings of the runs on generated classes, and their names."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import alphamepol as am
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.settings.policy import MemoryKind

LEARNING_RATES = {"generated-minigrid": 1e-4}
"""The usual learning rates of classes in which that of the preset `quick` is too high. In generated-minigrid, 3e-4 made
the objective collapse from −45 to −260 in epochs 9 to 16."""


@dataclass(frozen=True)
class TrainingOptions:
    """The settings of pre-training that a command changes. All others are those of the preset `quick`."""

    seeds: int = 5
    """The number of seeds."""
    epochs: int = 300
    """The number of epochs."""
    hidden: tuple[int, ...] = ()
    """The widths of the hidden layers. The default is that of the preset."""
    trajectories: int = 0
    """The number of trajectories of an epoch; 0 is that of the preset."""
    learning_rate: float = 0.0
    """The learning rate; 0 is that of the preset, or 1e-4 in generated-minigrid."""
    alpha: float = 1.0
    """The percentile of pre-training."""
    risk: Literal["minibatches", "members"] = "minibatches"
    """The numbers whose worst α-fraction is the objective."""
    member_batches: int = 1
    """The number of mini-batches in each member that an epoch draws."""


def usual_config(class_name: str) -> am.PretrainConfig:
    """Return the settings of a class that no option has changed.

    The final evaluation of a run is short, because the commands measure all policies themselves.
    """
    config = dataclasses.replace(am.preset("quick", class_name), alpha=1.0, evaluation_batches=1)
    return dataclasses.replace(config, learning_rate=LEARNING_RATES.get(class_name, config.learning_rate))


def config_of(class_name: str, memory: MemoryKind, options: TrainingOptions) -> am.PretrainConfig:
    """Return the settings of a run."""
    usual = usual_config(class_name)
    config = dataclasses.replace(
        usual,
        memory=memory,
        seeds=options.seeds,
        epochs=options.epochs,
        hidden=options.hidden or usual.hidden,
        trajectories=options.trajectories or usual.trajectories,
        learning_rate=options.learning_rate or usual.learning_rate,
        alpha=options.alpha,
        risk=options.risk,
        member_batches=options.member_batches,
    )
    config.check()
    return config


def setting_name(class_name: str, config: am.PretrainConfig, training: int = 0) -> str:
    """Return the name of a setting, which runs, policies and entries have.

    It tells the settings that differ from the usual ones of the class. `training` is the number of members to train on,
    or 0 for the endless stream.
    """
    name = f"{class_name}-{config.memory}-alpha-{config.alpha:g}-epochs-{config.epochs}-seeds-{config.seeds}"
    return name + unusual_settings(class_name, config) + f"-training-{training}" * (training > 0)


def unusual_settings(class_name: str, config: am.PretrainConfig) -> str:
    """Return the part of a setting's name about settings that differ from the usual ones; empty if none differs."""
    usual, words = usual_config(class_name), []
    if config.hidden != usual.hidden:
        words += ["hidden", *config.hidden]
    if config.trajectories != usual.trajectories:
        words += ["trajectories", config.trajectories]
    if config.learning_rate != usual.learning_rate:
        words += ["learning-rate", f"{config.learning_rate:g}"]
    if config.risk != usual.risk or config.member_batches != usual.member_batches:
        words += ["risk", config.risk, config.member_batches]
    return "".join(f"-{word}" for word in words)


def specialists_name(class_name: str, config: am.PretrainConfig) -> str:
    """Return the name of the setting of specialists, one for each of `config.seeds` unseen members."""
    name = f"{class_name}-specialists-{config.seeds}-epochs-{config.epochs}"
    return name + unusual_settings(class_name, config)


def specialists_config(class_name: str, count: int, options: TrainingOptions) -> am.PretrainConfig:
    """Return the settings of so many specialists. They are MEPOL without memory, whatever α the options have."""
    return config_of(class_name, "none", dataclasses.replace(options, seeds=count, alpha=1.0))


def policies_of_run(folder: Path, name: str) -> Path:
    """Return the folder of a run, or raise an error that says which command makes it."""
    if not (folder / name / "summary.json").is_file():
        raise SystemExit(f"{folder / name} holds no finished run; make it with python -m benchmarks.unseen first")
    return folder / name


def class_with_training_members(name: str, count: int) -> EnvironmentClass:
    """Return a generated class that trains on so many members, or on an endless stream if the count is 0."""
    found = am.make(name)
    assert isinstance(found, EnvironmentClass)
    assert found.generator is not None
    if not count:
        return found
    return am.generated_class(found.generator.make, training=count, shown=found.generator.shown, name=name)
