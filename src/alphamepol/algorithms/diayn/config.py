"""The settings of DIAYN. This module does not import JAX, so that `--help` is quick."""

from dataclasses import dataclass

from alphamepol.settings.conversion import repr_of_settings
from alphamepol.settings.episodes import EpisodeSettings, check_episode_settings
from alphamepol.settings.fields import (
    check_field_above_zero,
    check_field_at_least,
    check_field_is_multiple,
    check_field_is_share,
)
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings


@dataclass(frozen=True)
class DiaynConfig(RunSettings, PolicySettings, EpisodeSettings):
    """The settings of DIAYN: all that decides its result, except the class of environments."""

    def __repr__(self) -> str:
        return repr_of_settings(self)

    epochs: int = 1000
    """The number of DIAYN's epochs. Each epoch has --steps steps."""
    steps: int = 1000
    """The number of steps, and of updates, in an epoch of DIAYN. It must be a multiple of --environments."""
    skills: int = 20
    """The number of skills that DIAYN learns."""
    learning_rate: float = 3e-4
    """The learning rate of Adam for all networks of DIAYN."""
    batch: int = 128
    """The number of transitions in an update of DIAYN."""
    environments: int = 10
    """The number of environments that DIAYN steps side by side.
    After each such step, the same number of updates follows."""
    warm_up: int = 1000
    """The number of steps before the first update of DIAYN. It must be a multiple of --environments."""
    replay: int = 1_000_000
    """The number of transitions that the replay of DIAYN keeps. It must be a multiple of --environments."""
    target_rate: float = 0.005
    """The rate at which the target networks of DIAYN follow the critics, between 0 and 1."""


def check_diayn_config(config: DiaynConfig) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    for field in ("epochs", "batch", "environments"):
        check_field_at_least(config, field, 1)
    check_field_at_least(config, "skills", 2)
    for field in ("steps", "replay", "warm_up"):
        check_field_at_least(config, field, config.environments)
        check_field_is_multiple(config, field, of="environments")
    check_field_above_zero(config, "learning_rate")
    check_field_is_share(config, "target_rate")
    check_episode_settings(config)
    check_run_settings(config)
    check_policy_settings(config)
