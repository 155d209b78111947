"""The settings of DIAYN. This module does not import JAX, so that `--help` is quick."""

from dataclasses import dataclass

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
    """Everything that decides what DIAYN computes, beside the class of environments."""

    epochs: int = 1000
    """DIAYN: epochs, each of --steps."""
    steps: int = 1000
    """DIAYN: steps of an epoch, and updates; a multiple of --environments."""
    skills: int = 20
    """DIAYN: how many skills are learned."""
    learning_rate: float = 3e-4
    """DIAYN: the rate of Adam, for all networks."""
    batch: int = 128
    """DIAYN: transitions that an update is made of."""
    environments: int = 10
    """DIAYN: environments stepped side by side; as many updates follow."""
    warm_up: int = 1000
    """DIAYN: steps before the first update; a multiple of --environments."""
    replay: int = 1_000_000
    """DIAYN: the transitions that are kept; a multiple of --environments."""
    target_rate: float = 0.005
    """DIAYN: how fast the target networks follow the critics."""


def check_diayn_config(config: DiaynConfig) -> None:
    """Raise an `InputError` on the first field that cannot be."""
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
