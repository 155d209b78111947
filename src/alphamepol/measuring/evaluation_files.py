"""The file of an evaluation: entropies, visited places, and a few trajectories."""

from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.errors import InputError
from alphamepol.files.arrays import seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.visits import VisitMap

FORMAT = "alphamepol-evaluation-1"
PLAIN = ("class_name", "members", "probabilities", "alpha", "seeds", "ceilings", "units", "encoder_seed")
"""The fields that are stored in the header of the file. `place_names` is stored there too, but older files lack it."""


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
        header, arrays = unpack_arrays(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something other than an evaluation")
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
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"run: {path} cannot be read as an evaluation ({error})") from error
