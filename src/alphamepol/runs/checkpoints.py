"""Checkpoints: whole or not there, checked when read, the last two kept."""

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
    """Write `tree` as the state after `done` steps, each a `unit`.

    The .json with the notes and the sum of both comes last and makes it valid.
    """
    path = folder / f"{unit}-{done:06d}.safetensors"
    data = pack_arrays(tree, {unit: done})
    write_atomically(path, data)
    notes = {unit: done, **notes}
    write_atomically(path.with_suffix(".json"), to_json({"sha256": _checkpoint_sum(data, notes), **notes}))
    kept = sorted(file.stem for file in folder.glob(f"{unit}-*.json"))[-KEPT:]
    for old in folder.glob(f"{unit}-*"):
        if old.stem not in kept:
            old.unlink()


def load_newest_checkpoint(
    folder: Path, unit: str, template: Tree
) -> tuple[tuple[Tree, dict[str, Any]] | None, list[str]]:
    """The newest intact checkpoint with its notes, if there is one, and a sentence on each damaged one."""
    damaged = []
    for stem in sorted({file.stem for file in folder.glob(f"{unit}-*")}, reverse=True):
        path = folder / f"{stem}.safetensors"
        try:
            notes = read_json(path.with_suffix(".json"))
            if notes.pop("sha256") != _checkpoint_sum(path.read_bytes(), notes):
                raise ValueError("its sum does not agree")
            return (fill_with_arrays(template, unpack_arrays(path)[1]), notes), damaged
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            damaged.append(f"checkpoint {stem} is damaged, or was not finished, and was passed over ({error})")
    return None, damaged


def _checkpoint_sum(data: bytes, notes: dict[str, Any]) -> str:
    return hashlib.sha256(data + json.dumps(notes, sort_keys=True).encode()).hexdigest()
