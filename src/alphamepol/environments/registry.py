"""The classes that have a name."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.gridworld import MAX_STEP, Gridworld
from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.environments.layouts import FOUR_ROOMS, MULTIGRID, TWO_HALLS
from alphamepol.environments.minigrid import MiniGrid
from alphamepol.environments.minigrid_map import ADVERSE, ADVERSE_GOALS, EASY, EASY_GOALS
from alphamepol.errors import InputError


def make(name: str) -> AnyClass:
    """Build a class by its name, e.g. `make("gridworld-slope")`, or by `FILE.py:FUNCTION`, which returns one."""
    if ":" in name:
        return _call(name).renamed(name)
    if name not in CLASSES:
        hint = difflib.get_close_matches(name, CLASSES, 1)
        cure = f"did you mean {hint[0]!r}?" if hint else "name one of your own as FILE.py:FUNCTION"
        raise InputError(f"class: {name!r} is not known, only {', '.join(CLASSES)}; {cure}")
    return CLASSES[name]()


def _call(name: str) -> AnyClass:
    """The class that a function in a user's file returns."""
    file, _, function = name.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not function.isidentifier():
        raise InputError(f"class: {name!r} was given; a class of your own is named as FILE.py:FUNCTION")
    if not path.is_file():
        raise InputError(
            f"class: there is no file {path} (looked for in {Path.cwd()}); of a run from elsewhere, say with --class "
            f"where its class is, as FILE.py:{function}"
        )
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # its neighbours can be imported, here and in worker processes
    try:
        module = importlib.import_module(path.stem)
    except Exception as error:
        raise InputError(f"class: {path} cannot be imported ({type(error).__name__}: {error})") from error
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise InputError(f"class: {path} has the name of another module, {module.__file__}; give the file another name")
    if not callable(getattr(module, function, None)):
        raise InputError(f"class: {path} has no function {function}")
    try:
        made = getattr(module, function)()
    except InputError:
        raise
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(line.filename).name}, line {line.lineno}"
        raise InputError(f"class: {name} failed ({type(error).__name__}: {error}; {where})") from error
    if not isinstance(made, EnvironmentClass | HostClass):
        raise InputError(
            f"class: {name} returned {type(made).__name__}; it must return a class of environments, as "
            "alphamepol.gymnasium_class and alphamepol.EnvironmentClass do"
        )
    return made


def resolve_class(environment_class: AnyClass | str, probabilities: Sequence[float] = ()) -> AnyClass:
    """A class or the one of that name, under other probabilities if some are given."""
    if isinstance(environment_class, str):
        environment_class = make(environment_class)
    return environment_class.with_probabilities(probabilities) if probabilities else environment_class


def gridworld_slope() -> EnvironmentClass[Gridworld]:
    """Four rooms; the slope of the north half helps towards the south (GWS) or holds in the north (GWN)"""
    members = {
        "GWS": Gridworld(FOUR_ROOMS, slope="south", slope_mean=MAX_STEP / 2, slope_above=0.0),
        "GWN": Gridworld(FOUR_ROOMS, slope="north", slope_mean=MAX_STEP / 2, slope_above=0.0),
    }
    return EnvironmentClass(members, [0.8, 0.2], name="gridworld-slope")


def gridworld_slope_everywhere() -> EnvironmentClass[Gridworld]:
    """The same with the slope on the whole map"""
    members = {
        "GWS": Gridworld(FOUR_ROOMS, slope="south", slope_mean=MAX_STEP / 2),
        "GWN": Gridworld(FOUR_ROOMS, slope="north", slope_mean=MAX_STEP / 2),
    }
    return EnvironmentClass(members, [0.8, 0.2], name="gridworld-slope-everywhere")


def multigrid() -> EnvironmentClass[Gridworld]:
    """Ten maps with different walls and slopes, equally likely; MG0 is the adverse one"""
    slopes = ["north", "east", "south", "south-east", None, "east", "south", None, None, "east"]
    members = {
        f"MG{i}": Gridworld(
            layout,
            slope=slope,
            slope_mean=MAX_STEP / (2.6 if i == 0 else 3.2),
            slope_above=0.0 if i == 0 else -1.0,
        )
        for i, (layout, slope) in enumerate(zip(MULTIGRID, slopes, strict=True))
    }
    return EnvironmentClass(members, name="multigrid")


def gridworld_counterexample() -> EnvironmentClass[Gridworld]:
    """Two level maps about equally hard, where a risk-averse objective should make no difference"""
    members = {"four-rooms": Gridworld(FOUR_ROOMS), "two-halls": Gridworld(TWO_HALLS)}
    return EnvironmentClass(members, [0.8, 0.2], name="gridworld-counterexample")


def ant_stairs() -> HostClass:
    """A MuJoCo Ant on stairs that it walks down (Down) or has to climb (Up); needs MuJoCo"""
    from alphamepol.environments.ant_fleet import ant_stairs

    return ant_stairs()


def ant_stairs_implicitfast() -> HostClass:
    """The same with MuJoCo's implicitfast integrator instead of RK4: three times as fast, other trajectories"""
    from alphamepol.environments.ant_fleet import ant_stairs

    return ant_stairs(integrator="implicitfast")


def minigrid() -> EnvironmentClass[MiniGrid]:
    """Grids seen through a 7 x 7 view: a large easy one, and one behind a door where the agent moves backward"""
    size = (18, 18)
    members = {
        "EasyG": MiniGrid(EASY, goals=EASY_GOALS, size=size),
        "AdvG": MiniGrid(ADVERSE, backward=True, goals=ADVERSE_GOALS, size=size),
    }
    return EnvironmentClass(members, [0.8, 0.2], name="minigrid")


def minigrid_counterexample() -> HostClass:
    """Farama's Unlock and ObstructedMaze, where a risk-averse objective should make no difference; needs MiniGrid"""
    from alphamepol.environments.farama_minigrid import minigrid_counterexample

    return minigrid_counterexample()


CLASSES: dict[str, Callable[[], AnyClass]] = {
    "gridworld-slope": gridworld_slope,
    "gridworld-slope-everywhere": gridworld_slope_everywhere,
    "multigrid": multigrid,
    "gridworld-counterexample": gridworld_counterexample,
    "ant-stairs": ant_stairs,
    "ant-stairs-implicitfast": ant_stairs_implicitfast,
    "minigrid": minigrid,
    "minigrid-counterexample": minigrid_counterexample,
}
