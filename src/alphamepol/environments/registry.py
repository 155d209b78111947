"""The classes that have a name."""

import difflib
from collections.abc import Callable, Sequence

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.gridworld import MAX_STEP, Gridworld
from alphamepol.environments.layouts import FOUR_ROOMS, MULTIGRID, TWO_HALLS
from alphamepol.errors import InputError


def make(name: str) -> EnvironmentClass:
    """Build a class by its name, e.g. `make("gridworld-slope")`."""
    if name not in CLASSES:
        hint = difflib.get_close_matches(name, CLASSES, 1)
        cure = f"did you mean {hint[0]!r}?" if hint else "in Python, give a class of your own by itself"
        raise InputError(f"class: {name!r} is not known, only {', '.join(CLASSES)}; {cure}")
    return CLASSES[name]()


def resolve_class(environment_class: EnvironmentClass | str, probabilities: Sequence[float] = ()) -> EnvironmentClass:
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


CLASSES: dict[str, Callable[[], EnvironmentClass]] = {
    "gridworld-slope": gridworld_slope,
    "multigrid": multigrid,
    "gridworld-counterexample": gridworld_counterexample,
}
