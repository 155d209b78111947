"""Checkpoints. A checkpoint is valid only if it is complete, which a checksum shows. The last two are kept."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from alphamepol.files.arrays import fill_with_arrays, pack_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import read_json, to_json

Tree = TypeVar("Tree")
KEPT = 2


def save_checkpoint(folder: Path, unit: str, done: int, tree: Any, notes: dict[str, Any]) -> None:
    """Write `tree` as the state after `done` steps, and delete all but the last two checkpoints.

    `unit` is the name of a step, e.g. epoch. The .json file is written last and makes the checkpoint valid. It holds
    the notes, and a checksum of the arrays and the notes.
    """
    path = folder / f"{unit}-{done:06d}.safetensors"
    data = pack_arrays(tree, {unit: done})
    write_atomically(path, data)
    notes = {unit: done, **notes}
    write_atomically(path.with_suffix(".json"), to_json({"sha256": _checkpoint_sum(data, notes), **notes}))
    kept = sorted(file.stem for file in folder.glob(f"{unit}-*.json"))[-KEPT:]
    for old in folder.glob(f"{unit}-*"):
        if old.stem not in kept:
            old.unlink(missing_ok=True)


def load_newest_checkpoint(
    folder: Path, unit: str, template: Tree
) -> tuple[tuple[Tree, dict[str, Any]] | None, list[str]]:
    """Return the newest intact checkpoint with its notes, and a sentence on each damaged one.

    If there is no intact checkpoint, the first value is None.
    """
    damaged = []
    for stem in sorted({file.stem for file in folder.glob(f"{unit}-*")}, reverse=True):
        path = folder / f"{stem}.safetensors"
        try:
            notes = read_json(path.with_suffix(".json"))
            if notes.pop("sha256") != _checkpoint_sum(path.read_bytes(), notes):
                raise ValueError("its checksum does not match")
            return (fill_with_arrays(template, unpack_arrays(path)[1]), notes), damaged
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            damaged.append(f"checkpoint {stem} is damaged, or was not finished, and was passed over ({error})")
    return None, damaged


def _checkpoint_sum(data: bytes, notes: dict[str, Any]) -> str:
    return hashlib.sha256(data + json.dumps(notes, sort_keys=True).encode()).hexdigest()
