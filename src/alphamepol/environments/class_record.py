"""The record of a class in a run folder (class.json), so that a run can be used without the program of the class."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.environments.registry import find_registered_class
from alphamepol.errors import InputError
from alphamepol.files.json_files import value_has_type
from alphamepol.files.reading import ODD

RECORDED: dict[str, Any] = {
    "class": str,
    "members": list[str],
    "probabilities": list[float | int],
    "observation_space": dict[str, Any],
    "action_space": dict[str, Any],
    "entropy_names": list[str],
    "units": list[float | int] | None,
    "entropy_ceilings": list[float | int | None],
    "time_limit": float | int | None,
    "maps": list[dict[str, Any] | None],
}
"""The parts of class.json that commands read, with their types."""
LARGEST_SPACE = 2**25
"""The most bytes of an observation or action that a record may describe."""


def record_class(environment_class: AnyClass, units: Sequence[float] | None) -> dict[str, Any]:
    """Return the content of class.json: the spaces of a class, its units, the names of its features, and its maps.

    Infinite numbers become None, because JSON has no infinity. `units` are the units of particles; None if particles
    are not divided by units.
    """
    members = [environment_class[number] for number in range(len(environment_class))]
    entry = find_registered_class(environment_class.name)
    if isinstance(environment_class, HostClass) and entry is None:
        ids: Any = environment_class.description
    else:
        ids = list(entry.gymnasium_ids) if entry else []
    return {
        "class": environment_class.name,
        "members": list(environment_class.names),
        "probabilities": list(environment_class.probabilities),
        "ids": ids,
        "observation_space": _record_space(members[0].observation_space),
        "action_space": _record_space(members[0].action_space),
        "entropy_names": list(members[0].entropy_names),
        "units": None if units is None else list(units),
        "entropy_ceilings": [_finite_in_record(member.entropy_ceiling) for member in members],
        "time_limit": _finite_in_record(min(member.time_limit for member in members)),
        "maps": [member.map and dataclasses.asdict(member.map) for member in members],
    }


def check_class_record(record: dict[str, Any]) -> None:
    """Raise ValueError if the content of a class.json is not what `record_class` returns."""
    for name, kind in RECORDED.items():
        if name not in record:
            raise ValueError(f"it has no {name}")
        if not value_has_type(record[name], kind):
            raise ValueError(f"its {name} is {record[name]!r:.80}")
    if not len(record["members"]) == len(record["probabilities"]) == len(record["entropy_ceilings"]):
        raise ValueError("it has not one probability and one ceiling for each member")
    if not all(unit > 0 for unit in record["units"] or ()):
        raise ValueError("its units are not all above 0")


def recorded_spaces(record: dict[str, Any]) -> tuple[gymnasium.Space, gymnasium.Space]:
    """Return the observation space and the action space of a recorded class.

    Raises an `InputError` if the record does not describe spaces.
    """
    try:
        return _recorded_space(record["observation_space"]), _recorded_space(record["action_space"])
    except ODD as error:
        raise InputError(f"run: its class.json does not describe spaces ({error})") from error


def _finite_in_record(number: float | int) -> float | None:
    return float(number) if math.isfinite(number) else None


def _record_space(space: gymnasium.Space) -> dict[str, Any]:
    if isinstance(space, gymnasium.spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n)}
    if not isinstance(space, gymnasium.spaces.Box):
        return {"kind": type(space).__name__}
    bounds: dict[str, Any] = {}
    for name, ends in (("low", space.low), ("high", space.high)):
        # The bounds of an image are one number, instead of one per pixel.
        same = ends.size and np.all(ends == ends.flat[0])
        bounds[name] = (
            _finite_in_record(ends.flat[0].item())
            if same
            else [_finite_in_record(end) for end in ends.ravel().tolist()]
        )
    return {"kind": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}


def _recorded_space(record: dict[str, Any]) -> gymnasium.Space:
    if record["kind"] == "Discrete":
        return gymnasium.spaces.Discrete(int(record["n"]))
    if record["kind"] != "Box":
        raise ValueError(f"its kind is {record['kind']!r}")
    shape, dtype = tuple(int(size) for size in record["shape"]), np.dtype(record["dtype"])
    if dtype.kind not in "fiub" or str(dtype) != record["dtype"]:
        raise ValueError(f"its dtype is {record['dtype']!r:.80}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > LARGEST_SPACE:
        raise ValueError(f"its shape is {shape}, which is not possible or too large")
    ends = []
    for name, infinite in (("low", -math.inf), ("high", math.inf)):
        if isinstance(record[name], list):
            bounds = [infinite if bound is None else bound for bound in record[name]]
            ends.append(np.array(bounds, dtype).reshape(shape))
        else:
            ends.append(np.full(shape, infinite if record[name] is None else record[name], dtype))
    return gymnasium.spaces.Box(*ends, dtype=dtype.type)
