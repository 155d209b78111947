"""Checkpoints: whole or not there, checked when read, the last two kept."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from alphamepol.files import fill, pack, to_json, unpack, write_atomically

Tree = TypeVar("Tree")
KEPT = 2


def save_checkpoint(folder: Path, unit: str, done: int, tree: Any, notes: dict[str, Any]) -> None:
    """Write `tree` as the state after `done` steps, each a `unit`.

    The .json with its sum and the notes comes last and makes it valid.
    """
    path = folder / f"{unit}-{done:06d}.safetensors"
    data = pack(tree, {unit: done})
    write_atomically(path, data)
    description = {unit: done, "sha256": hashlib.sha256(data).hexdigest(), **notes}
    write_atomically(path.with_suffix(".json"), to_json(description))
    for old in sorted(folder.glob(f"{unit}-*.json"))[:-KEPT]:
        old.unlink()
        old.with_suffix(".safetensors").unlink(missing_ok=True)


def load_newest_checkpoint(
    folder: Path, unit: str, template: Tree
) -> tuple[tuple[Tree, dict[str, Any]] | None, list[str]]:
    """The newest intact checkpoint with its notes, if there is one, and a sentence on each damaged one."""
    damaged = []
    for description_file in sorted(folder.glob(f"{unit}-*.json"), reverse=True):
        path = description_file.with_suffix(".safetensors")
        try:
            notes = json.loads(description_file.read_text())
            if hashlib.sha256(path.read_bytes()).hexdigest() != notes["sha256"]:
                raise ValueError("its sum does not agree")
            return (fill(template, unpack(path)[1]), notes), damaged
        except (OSError, ValueError, KeyError, TypeError) as error:
            damaged.append(f"checkpoint {path.name} is damaged and was passed over ({error})")
    return None, damaged
