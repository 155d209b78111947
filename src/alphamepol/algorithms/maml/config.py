"""The settings of MAML. This module does not import JAX, so that `--help` is quick."""

from dataclasses import dataclass

from alphamepol.settings.conversion import repr_of_settings
from alphamepol.settings.episodes import EpisodeSettings, check_episode_settings
from alphamepol.settings.fields import check_field_above_zero, check_field_at_least
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings
from alphamepol.settings.trust_region import TrustRegionSettings, check_trust_region_settings


@dataclass(frozen=True)
class MamlConfig(RunSettings, PolicySettings, TrustRegionSettings, EpisodeSettings):
    """The settings of MAML: all that decides its result, except the class of environments and the tasks."""

    def __repr__(self) -> str:
        return repr_of_settings(self)

    iterations: int = 200
    """The number of MAML's iterations. Each iteration draws tasks and improves the policy with them."""
    tasks: int = 20
    """The number of tasks in an iteration of MAML.
    Each task is a member drawn from p_M, with a random goal in maml-r and with a skill in maml-diayn."""
    trajectories: int = 30
    """The number of episodes that MAML collects for a task before the inner step, and again after it."""
    inner_rate: float = 0.1
    """The learning rate of MAML's inner step, which adapts the policy to one task."""
    first_order: bool = False
    """Use first-order MAML: ignore that the gradient of the inner step depends on the policy before the step.
    It is cheaper, but its gradient is biased."""
    goal_radius: float = 0.1
    """The distance within which a goal of maml-r is reached. Reaching the goal gives reward 1 and ends the episode."""
    max_kl: float = 1e-2
    """δ_KL, the largest mean KL divergence of an outer step of MAML.
    The divergence is between the adapted policies before and after the step."""


def check_maml_config(config: MamlConfig) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    for field in ("iterations", "tasks", "trajectories"):
        check_field_at_least(config, field, 1)
    for field in ("inner_rate", "goal_radius"):
        check_field_above_zero(config, field)
    check_episode_settings(config)
    check_run_settings(config)
    check_trust_region_settings(config)
    check_policy_settings(config)
