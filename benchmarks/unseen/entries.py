"""The entries of OUT.json. Commands that run side by side may add entries to the same file."""

import json
import sys
from pathlib import Path
from typing import Any

from filelock import FileLock

from alphamepol.files.atomic import write_atomically
from alphamepol.files.names import join_command_words
from alphamepol.runs.description import describe_run
from alphamepol.settings.conversion import settings_to_dict


def read_entries(out: Path) -> dict[str, Any]:
    return json.loads(out.read_text()) if out.exists() else {}


def keep_entry(out: Path, name: str, entry: dict[str, Any]) -> None:
    """Add an entry to the file, or replace it. Other entries stay, also those that other processes add meanwhile."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(out.with_suffix(".lock")):
        write_atomically(out, json.dumps(read_entries(out) | {name: entry}, indent=1) + "\n")


def describe_command(module: str, config: Any, folder: Path, out: Path) -> dict[str, Any]:
    """Return the settings, commit, versions, device and command line of an entry.

    The command line has the words FOLDER and OUT.json instead of the two places on this machine.
    """
    described = describe_run(module, "", {"config": settings_to_dict(config)})
    words = [{folder: "FOLDER", out: "OUT.json"}.get(Path(word), word) for word in sys.argv[1:]]
    described["command_line"] = join_command_words(["python", "-m", module, *words])
    return {part: described[part] for part in ("config", "commit", "versions", "device", "command_line")}
