"""Checkpoints: the state of a run after some of its steps, and the policies of that state.

A checkpoint consists of three files, such as `epoch-000040.safetensors` (the state), `epoch-000040.json` (notes and a
checksum) and `epoch-000040-policies.safetensors` (the policies, which can be used without the rest).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from alphamepol.files.arrays import check_packed_arrays, fill_with_arrays, pack_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import read_json, to_json, value_has_type
from alphamepol.files.reading import open_regular_file
from alphamepol.policies.files import save_policies_together
from alphamepol.policies.policy import Policy

Tree = TypeVar("Tree")
NOTES: dict[str, Any] = {
    "sha256": str,
    "keys": list[list[int]],
    "seconds": dict[str, float | int],
    "metrics": dict[str, int | str],
}
"""The notes of a checkpoint besides the number of its steps, with their types."""


def checkpoint_policies_file(folder: Path, unit: str, done: int) -> Path:
    """Return the file with the policies of a checkpoint."""
    return folder / f"{unit}-{done:06d}-policies.safetensors"


def save_checkpoint(
    folder: Path,
    unit: str,
    done: int,
    tree: Any,
    notes: dict[str, Any],
    policies: Mapping[str, Policy],
    keep: int | str = 2,
) -> None:
    """Write `tree` as the state after `done` steps, with its policies, and delete all but the newest checkpoints.

    `unit` is the name of a step, e.g. epoch. The .json file is written last and makes the checkpoint valid. It holds
    the notes, and a checksum of the arrays and the notes. `keep` is the number of checkpoints that stay, or "all".
    """
    save_policies_together(policies, checkpoint_policies_file(folder, unit, done))
    path = folder / f"{unit}-{done:06d}.safetensors"
    write_atomically(path, pack_arrays(tree, {unit: done}))
    notes = {unit: done, **notes}
    write_atomically(path.with_suffix(".json"), to_json({"sha256": _checkpoint_sum(path, notes), **notes}))
    delete_old_checkpoints(folder, unit, keep)


def delete_old_checkpoints(folder: Path, unit: str, keep: int | str) -> None:
    """Delete all but the newest checkpoints, and what is left of older ones. `keep` is their number, or "all"."""
    if keep == "all":
        return
    kept = saved_checkpoints(folder, unit)[-int(keep) :]
    for old in folder.glob(f"{unit}-*"):
        if _steps_of_checkpoint_file(old, unit) not in kept:
            old.unlink(missing_ok=True)


def saved_checkpoints(folder: Path, unit: str) -> list[int]:
    """Return the numbers of steps after which there is a whole checkpoint, in ascending order."""
    found = (_steps_of_checkpoint_file(path, unit) for path in folder.glob(f"{unit}-*.json"))
    return sorted(done for done in found if done is not None)


def _steps_of_checkpoint_file(path: Path, unit: str) -> int | None:
    name = re.match(rf"{unit}-(\d+)(-policies)?\.(json|safetensors)$", path.name)
    return int(name[1]) if name else None


def load_newest_checkpoint(
    folder: Path, unit: str, template: Tree, keys: tuple[int, ...]
) -> tuple[tuple[Tree, dict[str, Any]] | None, list[str]]:
    """Return the newest intact checkpoint with its notes, and a sentence on each damaged one.

    `template` has the structure of the state, and `keys` is the shape of the words of its random keys. If there is no
    intact checkpoint, the first value is None.
    """
    damaged = []
    begun = {done: path for path in folder.glob(f"{unit}-*") if (done := _steps_of_checkpoint_file(path, unit))}
    for done in sorted(begun, reverse=True):
        path = folder / f"{unit}-{done:06d}.safetensors"
        try:
            notes = read_json(path.with_suffix(".json"))
            _check_checkpoint_notes(notes, unit, done, keys)
            arrays = unpack_arrays(path, partial(_check_checkpoint_arrays, path, notes, template))[1]
            return (fill_with_arrays(template, arrays), notes), damaged
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            damaged.append(f"checkpoint {path.stem} is damaged, or was not finished, and was passed over ({error})")
    return None, damaged


def _check_checkpoint_notes(notes: Any, unit: str, done: int, keys: tuple[int, ...]) -> None:
    """Raise ValueError if the notes are not those of `save_checkpoint`."""
    if not isinstance(notes, dict) or notes.get(unit) != done:
        raise ValueError(f"its notes are not about {unit} {done}")
    for name, kind in NOTES.items():
        if not value_has_type(notes.get(name), kind):
            raise ValueError(f"its notes have no {name} that can be used")
    words = np.array(notes["keys"], np.uint32)  # raises an error if the words are not of 32 bits
    if words.shape != keys:
        raise ValueError(f"its notes have keys of shape {words.shape} instead of {keys}")
    if "total" not in notes["seconds"]:
        raise ValueError("its notes do not say how long the run took")
    position = notes["metrics"]
    if position.keys() != {"bytes", "sha256"} or not value_has_type(position["bytes"], int) or position["bytes"] < 0:
        raise ValueError("its notes have no position in metrics.jsonl")


def _check_checkpoint_arrays(path: Path, notes: dict[str, Any], template: Any, _: Any, packed: Any) -> None:
    """Raise ValueError if the arrays of a checkpoint are not those of the template, or if a byte has changed."""
    check_packed_arrays(template, packed)
    if notes["sha256"] != _checkpoint_sum(path, {name: notes[name] for name in notes if name != "sha256"}):
        raise ValueError("its checksum does not match")


def _checkpoint_sum(path: Path, notes: dict[str, Any]) -> str:
    with open_regular_file(path) as file:
        found = hashlib.file_digest(file, "sha256")
    found.update(json.dumps(notes, sort_keys=True).encode())
    return found.hexdigest()
