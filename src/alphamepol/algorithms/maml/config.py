"""The settings of MAML. This module does not import JAX, so that `--help` is quick."""

from dataclasses import dataclass

from alphamepol.settings.episodes import EpisodeSettings, check_episode_settings
from alphamepol.settings.fields import check_field_above_zero, check_field_at_least
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings
from alphamepol.settings.trust_region import TrustRegionSettings, check_trust_region_settings


@dataclass(frozen=True)
class MamlConfig(RunSettings, PolicySettings, TrustRegionSettings, EpisodeSettings):
    """Everything that decides what MAML computes, beside the class of environments and how tasks are drawn."""

    iterations: int = 200
    """MAML: how often tasks are drawn and the policy is improved from them."""
    tasks: int = 20
    """MAML: tasks of an iteration, each a member drawn from p_M and a random goal, or a skill."""
    trajectories: int = 30
    """MAML: episodes per task before its inner step, and as many after it."""
    inner_rate: float = 0.1
    """MAML: the rate of the inner step."""
    first_order: bool = False
    """MAML: leave out how the inner step depends on where it starts: cheaper, and biased."""
    goal_radius: float = 0.1
    """maml-r: a goal is reached within this distance; that gives reward 1 and ends the episode."""
    max_kl: float = 1e-2
    """MAML: the largest mean KL divergence between the adapted policies before and after an outer step."""


def check_maml_config(config: MamlConfig) -> None:
    """Raise an `InputError` on the first field that cannot be."""
    for field in ("iterations", "tasks", "trajectories"):
        check_field_at_least(config, field, 1)
    for field in ("inner_rate", "goal_radius"):
        check_field_above_zero(config, field)
    check_episode_settings(config)
    check_run_settings(config)
    check_trust_region_settings(config)
    check_policy_settings(config)
