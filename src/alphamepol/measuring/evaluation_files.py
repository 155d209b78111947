"""The file of an evaluation: entropies, visited places, and a few trajectories."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.errors import InputError
from alphamepol.files.arrays import PackedArray, seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import value_has_type
from alphamepol.files.reading import ODD
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.visits import VisitMap

FORMAT = "alphamepol-evaluation-1"
PLAIN: dict[str, Any] = {
    "class_name": str,
    "members": list[str],
    "probabilities": list[float | int],
    "alpha": float | int,
    "seeds": list[int],
    "ceilings": list[Any],
    "units": list[float | int] | None,
    "encoder_seed": int | None,
}
"""The fields that are stored in the header of the file, with their types. `place_names` is stored there too, but older
files lack it."""
SHAPES = {
    "entropies": ("seeds", "members", "minibatches"),
    "trajectory_entropies": ("seeds", "members", "trajectories"),
    "visits": ("seeds", "members", "rows", "columns"),
    "trails": ("members", "batch", "time", "coordinates"),
    "cells": ("seeds", "members"),
}
"""The axes of each array."""
LARGEST_NUMBER, LARGEST_PLACE = 1e9, 1e18
"""The largest entropy or number of cells, and the farthest end of a map, that pages can draw."""


def save_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Write an evaluation as safetensors.

    Shares of visits and trails are stored in half precision, which is enough for pictures.
    """
    arrays = {"entropies": evaluation.entropies, "trajectory_entropies": evaluation.trajectory_entropies}
    if evaluation.trails is not None:
        arrays["trails"] = evaluation.trails.astype(np.float16)
    for per, cells in (evaluation.cells or {}).items():
        arrays[f"cells_per_{per}"] = cells
    header: dict[str, Any] = {field: getattr(evaluation, field) for field in (*PLAIN, "place_names", "feature_noise")}
    if evaluation.visits is not None:
        arrays["visits"] = evaluation.visits.shares.astype(np.float16)
        header["extent"] = evaluation.visits.extent
    write_atomically(path, seal_arrays(arrays, {"format": FORMAT, **header}))


def load_evaluation(path: Path) -> Evaluation:
    """Read an evaluation that `save_evaluation` wrote. Reading a file never runs a program."""
    try:
        header, arrays = unpack_arrays(path, _check_evaluation_file)
        for name, array in arrays.items():
            _check_evaluation_numbers(name, array)
        plain: dict[str, Any] = {
            name: tuple(header[name]) if isinstance(header[name], list) else header[name] for name in PLAIN
        }
        visits, trails = (arrays[name].astype(float) if name in arrays else None for name in ("visits", "trails"))
        cells = {name.removeprefix("cells_per_"): value for name, value in arrays.items() if name.startswith("cells")}
        return Evaluation(
            class_name=plain["class_name"],
            members=plain["members"],
            probabilities=plain["probabilities"],
            alpha=plain["alpha"],
            seeds=plain["seeds"],
            ceilings=plain["ceilings"],
            units=plain["units"],
            encoder_seed=plain["encoder_seed"],
            feature_noise=float(header.get("feature_noise", 0.0)),
            entropies=arrays["entropies"],
            trajectory_entropies=arrays["trajectory_entropies"],
            visits=None if visits is None else VisitMap(visits, tuple(header["extent"])),
            trails=trails,
            cells=cells or None,
            place_names=tuple(header.get("place_names", ())),
        )
    except (*ODD, OSError) as error:
        raise InputError(f"run: {path} cannot be read as an evaluation ({error})") from error


def _check_evaluation_file(header: dict[str, Any], packed: Mapping[str, PackedArray]) -> None:
    """Raise ValueError or KeyError if the header and the shapes of the arrays are not those of an evaluation."""
    if header.get("format") != FORMAT:
        raise ValueError("it holds something other than an evaluation")
    for name, kind in PLAIN.items():
        if not value_has_type(header[name], kind):
            raise ValueError(f"its {name} is {header[name]!r:.80}")
    seeds, members = len(header["seeds"]), len(header["members"])
    if not (seeds and members == len(header["probabilities"]) == len(header["ceilings"])):
        raise ValueError("it has not one probability and one ceiling for each member")
    if not all(isinstance(ceiling, float | int) for ceiling in header["ceilings"]):
        raise ValueError("its ceilings are not numbers")  # they may be infinite
    if "visits" in packed and not _is_extent_of_visits(header["extent"]):
        raise ValueError(f"its extent is {header['extent']!r:.80}")
    if not value_has_type(header.get("place_names", []), list[str]):
        raise ValueError("its place_names are not words")
    for name, array in packed.items():
        wanted = SHAPES.get("cells" if name.startswith("cells_per_") else name)
        if wanted is None:
            raise ValueError(f"it has the array {name}, which no evaluation has")
        known = {"seeds": seeds, "members": members, "coordinates": 2}
        sizes = tuple(known.get(word, size) for word, size in zip(wanted, array.shape, strict=False))
        if len(array.shape) != len(wanted) or sizes != array.shape or 0 in sizes or array.dtype.kind not in "fiu":
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)} for {seeds} seeds and {members} members")
    if missing := {"entropies", "trajectory_entropies"} - packed.keys():
        raise ValueError(f"it has no {missing.pop()}")


def _is_extent_of_visits(extent: Any) -> bool:
    if not (value_has_type(extent, list[float | int]) and len(extent) == 4):
        return False
    west, east, south, north = extent
    return west < east and south != north and all(abs(end) < LARGEST_PLACE for end in extent)


def _check_evaluation_numbers(name: str, array: np.ndarray) -> None:
    """Raise ValueError if an array holds numbers that no evaluation has."""
    # A trail of an episode that has ended goes on as NaN, and the entropy of coinciding particles is infinite.
    finite = np.abs(array[np.isfinite(array)].astype(float))
    if finite.max(initial=0.0) > LARGEST_NUMBER:
        raise ValueError(f"{name} has numbers above {LARGEST_NUMBER:g}")
    if name == "visits":
        shares = array.astype(float)
        if not (shares.min() >= 0 and np.allclose(shares.sum(axis=(-1, -2)), 1, atol=0.05)):
            raise ValueError("its visits are not shares that sum to 1")
    if name.startswith("cells_per_") and not array.min() >= 0:
        raise ValueError(f"{name} has numbers below 0")
