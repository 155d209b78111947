"""The settings of fine-tuning. This module does not import JAX, so that `--help` is quick."""

import math
from dataclasses import dataclass

from alphamepol.errors import InputError
from alphamepol.settings.conversion import repr_of_settings
from alphamepol.settings.episodes import EpisodeSettings, check_episode_settings
from alphamepol.settings.fields import check_field_above_zero, check_field_at_least, check_field_is_multiple
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings


@dataclass(frozen=True)
class TaskSettings:
    """The tasks of fine-tuning, and the number of iterations and steps for each task."""

    tasks: int = 50
    """The number of tasks.
    The tasks are goals, drawn uniformly over the member's free space; --seed decides which goals.
    A member may have tasks of its own, e.g. the reward of a Gymnasium environment.
    Then the first of them are used, at most this number."""
    goals: tuple[float, ...] = ()
    """Your own goals instead of drawn ones: the coordinates of the first goal, then of the second, and so on."""
    goal_radius: float = 0.1
    """The distance within which a goal is reached. Reaching it gives reward 1 and ends the episode."""
    iterations: int = 100
    """The number of iterations. Each iteration collects episodes and improves the policy with them."""
    steps: int = 12_000
    """The number of environment steps per iteration. It must be a multiple of --horizon."""


@dataclass(frozen=True)
class FinetuneConfig(RunSettings, PolicySettings, EpisodeSettings, TaskSettings):
    """The settings of fine-tuning that all algorithms share. Each algorithm adds its own fields in a subclass, such as
    `TrpoConfig`.

    Together with the class, the member and the initial policy the settings decide what a run computes. With several
    `seeds` each task is repeated once per seed, with other random numbers. The policies of a run take turns over these
    repetitions. The first seed decides the goals too.

    **Example**

    ```python
    from dataclasses import dataclass

    import alphamepol as am


    @dataclass(frozen=True)
    class ClimbConfig(am.FinetuneConfig):
        stride: float = 0.1


    config = ClimbConfig(steps=2000, horizon=100)
    config.check()
    print(config.trajectories, config.stride)  # 20 0.1
    ```
    """

    def __repr__(self) -> str:
        return repr_of_settings(self)

    @property
    def trajectories(self) -> int:
        """The number of trajectories per iteration, which are sampled side by side."""
        return self.steps // self.horizon

    def check(self) -> None:
        """Raise an `InputError` for the first field whose value is not allowed."""
        for field in ("tasks", "iterations", "steps"):
            check_field_at_least(self, field, 1)
        check_episode_settings(self)
        check_run_settings(self)
        check_field_is_multiple(self, "steps", of="horizon")
        check_field_above_zero(self, "goal_radius")
        if not all(math.isfinite(value) for value in self.goals):
            raise InputError(f"goals: {' '.join(map(str, self.goals))} was given; coordinates must be finite")
        check_policy_settings(self)
