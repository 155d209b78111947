"""The metrics of every step, for every seed or task: in metrics.jsonl and in TensorBoard."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from alphamepol.errors import InputError
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import from_json


@runtime_checkable
class Logger(Protocol):
    """A destination of metrics."""

    def log(self, lines: list[dict[str, Any]]) -> None:
        """Take the metrics of one step: one line per seed or task, as in metrics.jsonl."""

    def log_picture(self, name: str, number: int, pixels: np.ndarray) -> None:
        """Take a picture of shape (height, width, 3) and type uint8."""

    def close(self) -> None:
        """Finish writing."""


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
                "restore the file, or start again in another --folder"
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

    def log_picture(self, name: str, number: int, pixels: np.ndarray) -> None:
        """Ignore the picture, because it cannot be stored in JSON."""

    def close(self) -> None:
        self._file.close()


class TensorBoardLogger:
    """The writer of the same numbers as TensorBoard scalars, and of the pictures.

    `labels` are the fields that tell to which seed or task a line belongs. If there is one such field, each of its
    values has its own curve. If there are several, one curve shows the mean over all lines.
    """

    def __init__(self, folder: Path, unit: str, labels: tuple[str, ...], *, keep: int = 0):
        # tensorboardX's SummaryWriter is not used, because it writes in a thread. An error there, such as a full disk,
        # would not be noticed.
        with _without_torch():
            from tensorboardX import summary
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto import event_pb2, summary_pb2

        self._unit, self._labels = unit, labels
        self._image, self._summary, self._event = summary.image, summary_pb2.Summary, event_pb2.Event  # pyright: ignore[reportAttributeAccessIssue] (made by protobuf)
        resumed = folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}")
        if resumed:
            # This event tells TensorBoard to forget the steps that will be computed again.
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)  # pyright: ignore[reportAttributeAccessIssue]
            self._writer.write_event(self._event(step=keep, session_log=start))

    def log(self, lines: list[dict[str, Any]]) -> None:
        number = lines[0][self._unit]
        flat = [_flatten_metrics(line) for line in lines]
        curves = {"": flat}
        if len(self._labels) == 1:
            curves = {f"/{self._labels[0]}-{line[self._labels[0]]}": [line] for line in flat}
        values = [
            self._summary.Value(tag=f"{tag}{suffix}", simple_value=sum(line[tag] for line in of_curve) / len(of_curve))
            for suffix, of_curve in curves.items()
            for tag in of_curve[0].keys() - {self._unit, *self._labels}
        ]
        self._write(number, self._summary(value=values))

    def log_picture(self, name: str, number: int, pixels: np.ndarray) -> None:
        self._write(number, self._image(name, pixels, dataformats="HWC"))

    def _write(self, number: int, summary: Any) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=number, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


@contextmanager
def _without_torch() -> Iterator[None]:
    """Keep tensorboardX from importing PyTorch where it is installed: that takes seconds, and nothing here needs it."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # pyright: ignore[reportArgumentType] (which makes `import torch` an ImportError)
    try:
        yield
    finally:
        del sys.modules["torch"]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a metrics.jsonl. A last line that a crash has cut is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            lines.append(from_json(text))
        except ValueError:
            break
    return lines


def _flatten_metrics(value: Any, path: str = "") -> dict[str, float | int]:
    """Return the numbers by their paths: {"entropy": {"GWS": 0.5}} becomes {"entropy/GWS": 0.5}."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {tag: number for name, part in parts for tag, number in _flatten_metrics(part, f"{path}/{name}").items()}
    return {path.removeprefix("/"): value}
