"""The places where the policies of a run's newest checkpoint go, from fresh samples."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from alphamepol.compute.keys import seed_keys
from alphamepol.environments.make import make
from alphamepol.files.json_files import value_has_type
from alphamepol.files.reading import refusing_odd_files
from alphamepol.measuring.visits import names_of_visited_places, visit_map
from alphamepol.policies.files import load_policies_together
from alphamepol.policies.policy import stack_policies
from alphamepol.policies.shape import check_policy_shape
from alphamepol.runs.checkpoints import checkpoint_policies_file
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.sources import checked_class_of_source
from alphamepol.sampling.sampler import collect_with_sampler
from alphamepol.watching.places import MOST_PANELS, TRAILS, map_as_recorded, places_of_panels

STEPS = 40_000
"""The environment steps of all panels together, about."""
MOST_TRAJECTORIES = 20
"""The most trajectories of a panel."""
LONGEST = 5000
"""The most steps of a trajectory."""
SKILLS = 5
"""The number of skills that are shown in each member."""


class Panel(NamedTuple):
    """A panel of the page: a policy, the member in which it acts, and its goal."""

    policy: str
    """The name of the policy in its checkpoint."""
    member: int
    title: str
    goal: tuple[float, float, float] | None = None
    """The place of the goal and its radius, if the policy learns to reach a place in the plane."""


def sample_places(path: Path, own_class: str | None = None) -> dict[str, Any] | str:
    """Let the policies of a run's newest checkpoint act, and return the places, ready for JSON; or say why not.

    `own_class` is FILE.py:FUNCTION if the user has named the program of the run's class. No other program is run,
    whatever config.json says.
    """
    folder = RunFolder(path)
    with refusing_odd_files(path):
        described = folder.read_config()
        config = described["config"]
        environment_class = make(own_class or checked_class_of_source(described["class"]))
        policies = load_policies_together(checkpoint_policies_file(folder.checkpoints, *folder.saved_checkpoint()))
        panels = panels_of_run(described, list(policies), environment_class.names)
        if not panels:
            return "The policies of this run see their tasks, and are not shown before the end."
        horizon = max(1, min(int(config["horizon"]), LONGEST))
        acting = [policies[panel.policy] for panel in panels]
        for policy in acting:
            check_policy_shape(policy, environment_class)
    batch = min(max(STEPS // (len(panels) * horizon), TRAILS), MOST_TRAJECTORIES)
    members = jnp.array([[panel.member] for panel in panels], jnp.int32)
    keys = seed_keys(list(range(len(panels))))
    samples = collect_with_sampler(
        stack_policies(acting), environment_class, members, batch=batch, horizon=horizon, keys=keys
    )
    places, valid = np.asarray(samples.whereabouts)[:, 0], np.asarray(samples.valid)[:, 0]
    if places.shape[-1] != 2:
        return "The places of this class are not in a plane, so that there is no map of them."
    valid = valid & np.isfinite(places).all(axis=-1)
    for number, panel in enumerate(panels):
        if panel.goal is not None:
            valid[number] &= _until_goal(places[number], panel.goal)
    if not valid.any(axis=(1, 2)).all():
        return "The newest policy reaches places that are not finite."
    rows = len(panels)
    visits = visit_map(places.reshape(rows, -1, 2), valid.reshape(rows, -1), environment_class[0])
    assert visits is not None
    found = places_of_panels(
        [panel.title for panel in panels],
        [map_as_recorded(environment_class[panel.member].map) for panel in panels],
        visits,
        np.where(valid[..., None], places, np.nan),
        names_of_visited_places(environment_class[0]),
    )
    for drawn, panel in zip(found["panels"], panels, strict=True):
        drawn["goal"] = panel.goal
    return found | {"left_out": max(0, len(environment_class.names) - len(panels)) if "member" not in described else 0}


def panels_of_run(described: dict[str, Any], policies: Sequence[str], members: Sequence[str]) -> list[Panel]:
    """Return the panels of a run: for each member one, for skills some skills in each, for fine-tuning some tasks.

    `described` is the content of config.json. There is no panel for tasks that change what the agent sees.
    """
    if "member" in described:
        tasks, number = described["tasks"], members.index(described["member"])
        named = [(one, re.fullmatch(r"task-(\d+)-seed-(\d+)", one)) for one in policies]
        of_tasks = {int(found[1]): one for one, found in reversed(named) if found}
        # A task that is described by whole numbers is a cell of a grid, which the agent sees.
        seen = [task for task in sorted(of_tasks) if not value_has_type(tasks[task], list[int])]
        goals = [_goal_in_plane(tasks[task], described["config"]) for task in seen]
        return [
            Panel(of_tasks[task], number, f"task {task} in {members[number]}", goal)
            for task, goal in zip(seen[:MOST_PANELS], goals, strict=False)
        ]
    skills = [one for one in policies if re.fullmatch(r"seed-\d+-skill-\d+", one)]
    if skills:
        first = [one for one in skills if one.startswith(skills[0].rpartition("-")[0] + "-")][:SKILLS]
        return [
            Panel(one, number, f"skill {one.rpartition('-')[2]} in {members[number]}")
            for number in range(min(len(members), MOST_PANELS // SKILLS))
            for one in first
        ]
    seed = next(one for one in policies if re.fullmatch(r"seed-\d+", one))
    return [Panel(seed, number, name) for number, name in enumerate(members[:MOST_PANELS])]


def _goal_in_plane(task: Any, config: dict[str, Any]) -> tuple[float, float, float] | None:
    """Return the place and the radius of a task's goal; None if the task is something else."""
    if not (value_has_type(task, list[float]) and len(task) == 2):
        return None
    return task[0], task[1], float(config["goal_radius"])


def _until_goal(
    places: Float[np.ndarray, "batch time 2"], goal: tuple[float, float, float]
) -> Bool[np.ndarray, "batch time"]:
    """Return which steps come before the goal is reached, or reach it. An episode ends there."""
    reached = np.linalg.norm(places - np.array(goal[:2]), axis=-1) <= goal[2]
    return np.cumsum(reached, axis=-1) - reached == 0
