"""The metrics of every step, for every seed or task, in metrics.jsonl."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from alphamepol.errors import InputError
from alphamepol.files.json_files import from_json, value_has_type
from alphamepol.files.reading import open_regular_file

LONGEST_LINE = 2**22
"""The most bytes of a line. A class of 10 000 members needs about a tenth of this."""
MOST_DRAWN = 2000
"""The most steps that a figure shows. Of a longer run, every second step is drawn, or every third, and so on."""


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
        self._sum, self._bytes = hashlib.sha256(), 0
        if keep is not None and path.exists():
            with open_regular_file(path) as file:
                while piece := file.read(min(2**20, keep.bytes - self._bytes)):
                    self._sum.update(piece)
                    self._bytes += len(piece)
        if keep and self.mark != keep:
            raise _damaged_metrics(path)
        self._file = path.open("ab")
        self._file.truncate(self._bytes)

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


def read_metrics(path: Path, fields: Mapping[str, Any] = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """Yield the lines of a metrics.jsonl one after the other, so that a file of any length takes little memory.

    There are none if there is no such file. Reading ends at a line that is not whole, not a JSON object, longer than
    `LONGEST_LINE`, or that does not have the `fields`, which are names with their types. A crash can have cut the last
    line. Reading also ends at a line of an earlier step than the line before, which no run writes.
    """
    if not path.is_file():
        return
    before = 0
    with open_regular_file(path) as file:
        while text := file.readline(LONGEST_LINE):
            try:
                line = from_json(text)
            except ValueError:
                return
            if not (text.endswith(b"\n") and isinstance(line, dict)):
                return
            if not all(name in line and value_has_type(line[name], kind) for name, kind in fields.items()):
                return
            step = line.get("epoch", line.get("iteration", before))
            if not isinstance(step, int) or step < before:
                return
            before = step
            yield line


def check_metrics(path: Path, unit: str, steps: int, rows: int, fields: Mapping[str, Any]) -> None:
    """Raise an `InputError` unless the file has `rows` lines for each of `steps` steps, and every line has the fields.

    A checksum tells nothing about a file that somebody has written.
    """
    count = 0
    for line in read_metrics(path, {unit: int, **fields}):
        if line[unit] != count // rows:
            raise _damaged_metrics(path)
        count += 1
    if count != steps * rows:
        raise _damaged_metrics(path)


def _damaged_metrics(path: Path) -> InputError:
    return InputError(
        f"run: {path} is damaged or not there, and the numbers of the finished steps are lost with it; restore the "
        "file, or begin a new run from its policy with --init"
    )


def last_metrics_line(path: Path) -> dict[str, Any] | None:
    """Return the last complete line of a metrics.jsonl, without reading the lines before; None if there is none."""
    if not path.is_file():
        return None
    with open_regular_file(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * LONGEST_LINE))
        for text in reversed(file.read(2 * LONGEST_LINE).split(b"\n")[:-1]):
            with suppress(ValueError):
                if isinstance(line := from_json(text), dict):
                    return line
    return None


def thinned_metrics(path: Path, unit: str, fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield lines of a metrics.jsonl for a figure: those of every step, or of about `MOST_DRAWN` steps at most."""
    last = last_metrics_line(path)
    steps = last.get(unit, 0) if last else 0
    stride = 1 + max(0, steps) // MOST_DRAWN if value_has_type(steps, int) else 1
    return (line for line in read_metrics(path, {unit: int, **fields}) if line[unit] % stride == 0)
