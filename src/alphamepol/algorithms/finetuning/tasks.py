"""The tasks of fine-tuning: goals that are given, a member's own tasks, or random goals."""

from collections.abc import Sequence

import numpy as np

from alphamepol.algorithms.finetuning.config import TaskSettings
from alphamepol.compute.keys import goal_key
from alphamepol.environments.cmp import Member
from alphamepol.environments.member_tasks import goal_place_size, goal_task_at, random_goal_tasks
from alphamepol.environments.tasks import Task
from alphamepol.errors import InputError


def finetuning_tasks(member: Member, settings: TaskSettings, seed: int) -> Sequence[Task]:
    """Return the goals in the settings, if there are any. Otherwise return the member's own tasks, or random goals.

    Random goals are for members without tasks of their own; `seed` decides these goals.
    """
    if settings.goals:
        return _finetuning_tasks_at_given_goals(member, settings)
    if member.tasks:
        return member.tasks[: settings.tasks]
    return random_goal_tasks(member, settings.tasks, key=goal_key(seed), radius=settings.goal_radius)


def _finetuning_tasks_at_given_goals(member: Member, settings: TaskSettings) -> list[Task]:
    size = goal_place_size(member)
    if len(settings.goals) % size:
        given = " ".join(f"{value:g}" for value in settings.goals)
        raise InputError(f"goals: {given} was given, {len(settings.goals)} numbers; each goal needs {size}")
    places = np.reshape(settings.goals, (-1, size)).tolist()
    return [goal_task_at(member, place, settings.goal_radius) for place in places]
