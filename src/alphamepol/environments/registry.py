"""The classes of environments that have a name, as Gymnasium's registry has environments.

A name stands for an entry point: the file of the class, which is imported when somebody asks for the class. Nothing
here imports JAX.
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
}
"""By the name of a class, the module whose `ENTRY` describes it."""


@runtime_checkable
class Named(Protocol):
    """A class of environments, as far as its name goes."""

    @property
    def name(self) -> str: ...


def registered_name(environment_class: str | Named) -> str:
    """The name of a class that is given by its name or as it is."""
    return environment_class if isinstance(environment_class, str) else environment_class.name


@dataclass(frozen=True)
class StepCost:
    """What a step costs beside the layers of the policy, for estimates of how long runs will take."""

    host_steps_per_second: float | None = None
    """Steps a second and core of environments that are stepped outside of JAX; None for those in JAX."""
    image_multiplications: int = 0
    """Multiplications of the convolutions that see an observation."""


@dataclass(frozen=True)
class GymnasiumId:
    """A Gymnasium environment that is registered for a member."""

    entry_point: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ClassEntry:
    """All that the package knows of a class of environments with a name."""

    name: str
    description: str
    build: Callable[[], Any]
    """Makes the class: an `EnvironmentClass` or a `HostClass`."""
    presets: Mapping[str, Sequence[object]]
    """By the name of a preset, settings: at most one of each kind, such as `PretrainConfig`. `miniature` is the scale
    at which an experiment takes minutes on two cores."""
    gymnasium_ids: Mapping[str, GymnasiumId] = field(default_factory=dict)
    cost: StepCost = StepCost()
    noise_of_random: float = 0.0
    """The feature noise that keeps particles of untrained policies apart, where an agent may stand still."""

    def settings(self, preset: str, kind: type[Settings]) -> Settings | None:
        """The settings of a kind in a preset; None if the preset has none."""
        return next((one for one in self.presets.get(preset, ()) if isinstance(one, kind)), None)


def registered_class_names() -> tuple[str, ...]:
    """The names of all classes."""
    return tuple(ENTRY_POINTS)


@functools.cache
def find_registered_class(name: str) -> ClassEntry | None:
    """The entry of a class; None if no class has that name."""
    if name not in ENTRY_POINTS:
        return None
    return importlib.import_module(ENTRY_POINTS[name]).ENTRY


def registered_member_ids(name: str, **arguments: Any) -> dict[str, GymnasiumId]:
    """The two ids of a member in JAX: `alphamepol/GWS-v0` without reward, say, `alphamepol/GWS-Goal-v0` with a goal."""
    home = "alphamepol.environments.gymnasium.member_environment"
    return {
        f"alphamepol/{name}-v0": GymnasiumId(f"{home}:MemberEnvironment", arguments),
        f"alphamepol/{name}-Goal-v0": GymnasiumId(f"{home}:goal_environment", arguments),
    }


def register_ids() -> None:
    """Register the Gymnasium ids of all classes, their environments by string: nothing heavy is imported."""
    for name in registered_class_names():
        entry = find_registered_class(name)
        assert entry is not None
        for gymnasium_id, environment in entry.gymnasium_ids.items():
            gymnasium.register(gymnasium_id, entry_point=environment.entry_point, kwargs=dict(environment.arguments))
