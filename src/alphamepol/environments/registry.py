"""The registry of named classes of environments, similar to Gymnasium's registry of environments.

A name stands for an entry point: the module that describes the class. The entry point is imported when somebody
first asks for the class. The registry itself does not import JAX.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import gymnasium

Settings = TypeVar("Settings")

ENTRY_POINTS = {
    "gridworld-slope": "alphamepol.classes.gridworld_slope",
    "gridworld-slope-everywhere": "alphamepol.classes.gridworld_slope_everywhere",
    "multigrid": "alphamepol.classes.multigrid",
    "gridworld-counterexample": "alphamepol.classes.gridworld_counterexample",
    "ant-stairs": "alphamepol.classes.ant_stairs",
    "ant-stairs-implicitfast": "alphamepol.classes.ant_stairs_implicitfast",
    "minigrid": "alphamepol.classes.minigrid",
    "minigrid-counterexample": "alphamepol.classes.minigrid_counterexample",
    "generated-rooms": "alphamepol.classes.generated.rooms",
    "generated-mazes": "alphamepol.classes.generated.mazes",
    "generated-minigrid": "alphamepol.classes.generated.minigrid",
}
"""A dictionary from the name of a class to the module whose `ENTRY` describes it."""


@runtime_checkable
class Named(Protocol):
    """A class of environments, of which only the name is needed."""

    @property
    def name(self) -> str: ...


def registered_name(environment_class: str | Named) -> str:
    """Return the name of a class that is given itself or by its name."""
    return environment_class if isinstance(environment_class, str) else environment_class.name


@dataclass(frozen=True)
class StepCost:
    """The cost of one environment step, without the hidden layers of the policy. It serves to estimate run times."""

    host_steps_per_second: float | None = None
    """The environment steps per second and core of a host class. None for a compiled class."""
    image_multiplications: int = 0
    """The number of multiplications that the policy's convolutions need for one observation."""


@dataclass(frozen=True)
class GymnasiumId:
    """A Gymnasium environment that is registered for a member: its entry point and its arguments."""

    entry_point: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ClassEntry:
    """The description of a named class of environments."""

    name: str
    description: str
    build: Callable[[], Any]
    """The function that makes the class: an `EnvironmentClass` or a `HostClass`."""
    presets: Mapping[str, Sequence[object]]
    """A dictionary from the name of a preset to its settings: at most one of each kind, such as `PretrainConfig`.

    The preset `miniature` has settings with which an experiment takes minutes on two cores."""
    gymnasium_ids: Mapping[str, GymnasiumId] = field(default_factory=dict)
    cost: StepCost = StepCost()
    noise_of_random: float = 0.0
    """The feature noise for untrained policies. It keeps particles from coinciding if an agent may stand still."""

    def settings(self, preset: str, kind: type[Settings]) -> Settings | None:
        """Return the settings of one kind in a preset, or None if the preset has no settings of this kind."""
        return next((one for one in self.presets.get(preset, ()) if isinstance(one, kind)), None)


def registered_class_names() -> tuple[str, ...]:
    """Return the names of all registered classes."""
    return tuple(ENTRY_POINTS)


@functools.cache
def find_registered_class(name: str) -> ClassEntry | None:
    """Return the entry of a class, or None if no class has this name."""
    if name not in ENTRY_POINTS:
        return None
    return importlib.import_module(ENTRY_POINTS[name]).ENTRY


def registered_member_ids(name: str, **arguments: Any) -> dict[str, GymnasiumId]:
    """Return the two Gymnasium ids of a member that is written in JAX.

    For example, `alphamepol/GWS-v0` has no reward, and `alphamepol/GWS-Goal-v0` has the reward of a goal.
    """
    home = "alphamepol.environments.gymnasium.member_environment"
    return {
        f"alphamepol/{name}-v0": GymnasiumId(f"{home}:MemberEnvironment", arguments),
        f"alphamepol/{name}-Goal-v0": GymnasiumId(f"{home}:goal_environment", arguments),
    }


def register_ids() -> None:
    """Register the Gymnasium ids of all classes.

    Entry points are given as strings, so that Gymnasium imports an environment only when it is made.
    """
    for name in registered_class_names():
        entry = find_registered_class(name)
        assert entry is not None
        for gymnasium_id, environment in entry.gymnasium_ids.items():
            gymnasium.register(gymnasium_id, entry_point=environment.entry_point, kwargs=dict(environment.arguments))
