"""The tasks of MAML: random goals, or tasks that a function of the user draws."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from alphamepol.algorithms.maml.config import MamlConfig
from alphamepol.environments.cmp import CMP, HasFreeSpace
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.member_tasks import GoalTasks, check_tasks
from alphamepol.environments.tasks import Task
from alphamepol.errors import InputError

DrawTask = Callable[..., Task]
"""A function `draw(member, key=key)`, written in JAX, that returns a task in a member."""


class GivenTasks(eqx.Module):
    """A callable that draws tasks with a function of the user."""

    draw: DrawTask = eqx.field(static=True)

    def __call__(self, member: CMP, *, key: PRNGKeyArray) -> Task:
        return self.draw(member, key=key)


def drawing_of_maml_tasks(
    environment_class: EnvironmentClass, config: MamlConfig, draw_task: DrawTask | None = None
) -> Any:
    """Return the callable that draws the tasks of maml-r, stacked over seeds."""
    first: CMP = environment_class[0]
    if draw_task is None and not isinstance(environment_class[0], HasFreeSpace):
        raise InputError(
            f"class: no goals can be drawn in members of {environment_class.name}; write draw_place and "
            "explain_no_place for them, or give draw_task in Python"
        )
    drawing = GoalTasks(first, config.goal_radius) if draw_task is None else GivenTasks(draw_task)
    example: Any = (draw_task or drawing)(first, key=jax.random.key(0))
    if not isinstance(example, Task):
        raise InputError(f"draw_task: it returned {type(example).__name__}; it must return a Task")
    check_tasks([example], first)
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (config.seeds, *leaf.shape)), drawing)
