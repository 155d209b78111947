"""The settings of fine-tuning. This module does not import JAX, so that `--help` is quick."""

import math
from dataclasses import dataclass

from alphamepol.errors import InputError
from alphamepol.settings.episodes import EpisodeSettings, check_episode_settings
from alphamepol.settings.fields import check_field_above_zero, check_field_at_least, check_field_is_multiple
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings


@dataclass(frozen=True)
class TaskSettings:
    """The tasks of fine-tuning, and how long each is learned."""

    tasks: int = 50
    """How many goals are drawn, uniformly over the member's free space; --seed decides which. Where a member has tasks
    of its own, as a Gymnasium environment has its reward, the first so many of those."""
    goals: tuple[float, ...] = ()
    """Goals of one's own instead of drawn ones: the coordinates of the first, of the second, and so on."""
    goal_radius: float = 0.1
    """A goal is reached within this distance; that gives reward 1 and ends the episode."""
    iterations: int = 100
    """How often episodes are collected and the policy is improved from them."""
    steps: int = 12_000
    """Steps per iteration; a multiple of --horizon."""


@dataclass(frozen=True)
class FinetuneConfig(RunSettings, PolicySettings, EpisodeSettings, TaskSettings):
    """Everything that decides what fine-tuning computes with any algorithm, beside the class, the member and the
    initial policy. Each algorithm adds its own fields in a subclass.

    With several `seeds` each task is done so often, each time with other random numbers and, from a run, another of
    its policies. The first seed decides the goals too.
    """

    @property
    def trajectories(self) -> int:
        """Trajectories side by side in an iteration."""
        return self.steps // self.horizon

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        for field in ("tasks", "iterations", "steps"):
            check_field_at_least(self, field, 1)
        check_episode_settings(self)
        check_run_settings(self)
        check_field_is_multiple(self, "steps", of="horizon")
        check_field_above_zero(self, "goal_radius")
        if not all(math.isfinite(value) for value in self.goals):
            raise InputError(f"goals: {' '.join(map(str, self.goals))} was given; coordinates must be finite")
        check_policy_settings(self)
