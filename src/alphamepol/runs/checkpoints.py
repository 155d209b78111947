"""Checkpoints: the state of a run after some of its steps, and the policies of that state.

A checkpoint consists of three files, such as `epoch-000040.safetensors` (the state), `epoch-000040.json` (notes and a
checksum) and `epoch-000040-policies.safetensors` (the policies, which can be used without the rest).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from alphamepol.files.arrays import fill_with_arrays, pack_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import read_json, to_json
from alphamepol.policies.files import save_policies_together
from alphamepol.policies.policy import Policy

Tree = TypeVar("Tree")


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
    data = pack_arrays(tree, {unit: done})
    write_atomically(path, data)
    notes = {unit: done, **notes}
    write_atomically(path.with_suffix(".json"), to_json({"sha256": _checkpoint_sum(data, notes), **notes}))
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
    folder: Path, unit: str, template: Tree
) -> tuple[tuple[Tree, dict[str, Any]] | None, list[str]]:
    """Return the newest intact checkpoint with its notes, and a sentence on each damaged one.

    If there is no intact checkpoint, the first value is None.
    """
    damaged = []
    begun = {done: path for path in folder.glob(f"{unit}-*") if (done := _steps_of_checkpoint_file(path, unit))}
    for done in sorted(begun, reverse=True):
        path = folder / f"{unit}-{done:06d}.safetensors"
        try:
            notes = read_json(path.with_suffix(".json"))
            if notes.pop("sha256") != _checkpoint_sum(path.read_bytes(), notes):
                raise ValueError("its checksum does not match")
            return (fill_with_arrays(template, unpack_arrays(path)[1]), notes), damaged
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            damaged.append(f"checkpoint {path.stem} is damaged, or was not finished, and was passed over ({error})")
    return None, damaged


def _checkpoint_sum(data: bytes, notes: dict[str, Any]) -> str:
    return hashlib.sha256(data + json.dumps(notes, sort_keys=True).encode()).hexdigest()
