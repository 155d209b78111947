"""The metrics of every step, for every seed or task, in metrics.jsonl."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from alphamepol.errors import InputError
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import from_json


class Mark(NamedTuple):
    """A position in metrics.jsonl."""

    bytes: int
    """The number of bytes before the position."""
    sha256: str
    """The SHA-256 checksum of these bytes."""


class JsonLinesLogger:
    """The writer of metrics.jsonl. It only appends, one JSON object per step and seed or task."""

    def __init__(self, path: Path, keep: Mark | None = None):
        """Open the file, and remove everything after the position `keep`; everything if it is None.

        Lines after this position, whole or not, come from a crash, and will be computed again.
        """
        before = path.read_bytes()[: keep.bytes] if keep and path.exists() else b""
        self._sum = hashlib.sha256(before)
        self._bytes = len(before)
        if keep and self.mark != keep:
            raise InputError(
                f"run: {path} is damaged or not there, and the numbers of the finished steps are lost with it; "
                "restore the file, or begin a new run from its policy with --init"
            )
        if path.exists():
            write_atomically(path, before)
        self._file = path.open("ab")

    @property
    def mark(self) -> Mark:
        return Mark(self._bytes, self._sum.hexdigest())

    def log(self, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode()
        self._file.write(text)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._sum.update(text)
        self._bytes += len(text)

    def close(self) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a metrics.jsonl; none if there is no such file.

    A last line that a crash has cut is left out.
    """
    lines: list[dict[str, Any]] = []
    if not path.is_file():
        return lines
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            lines.append(from_json(text))
        except ValueError:
            break
    return lines
