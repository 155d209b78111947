"""The numbers of every step and of all that runs side by side: metrics.jsonl, and TensorBoard."""

import json
import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from alphamepol.files import write_atomically


@runtime_checkable
class Logger(Protocol):
    """Where metrics go."""

    def log(self, lines: list[dict[str, Any]]) -> None:
        """Take the metrics of one step, a line per seed or task, as they are in metrics.jsonl."""

    def log_picture(self, name: str, number: int, pixels: np.ndarray) -> None:
        """Take a picture (height, width, 3), uint8."""

    def close(self) -> None:
        """Finish writing."""


class JsonLinesLogger:
    """metrics.jsonl: append-only, one JSON object per step and seed or task."""

    def __init__(self, path: Path, unit: str, *, keep: int = 0):
        """Lines of steps from number `keep` on, or half lines, are of a crash and will be computed again."""
        if path.exists():
            kept = [line for line in read_metrics(path) if line[unit] < keep]
            write_atomically(path, "".join(_to_line(line) for line in kept))
        self._file = path.open("a", encoding="utf-8")

    def log(self, lines: list[dict[str, Any]]) -> None:
        self._file.write("".join(_to_line(line) for line in lines))
        self._file.flush()
        os.fsync(self._file.fileno())

    def log_picture(self, name: str, number: int, pixels: np.ndarray) -> None:
        """Pictures have no place in JSON."""

    def close(self) -> None:
        self._file.close()


class TensorBoardLogger:
    """The same numbers as TensorBoard scalars, and the pictures.

    If one field says whose a line is, each of its values has a curve; if several do, there is one curve, the mean.
    """

    def __init__(self, folder: Path, unit: str, labels: tuple[str, ...], *, keep: int = 0):
        from tensorboardX import SummaryWriter
        from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue] (made by protobuf)

        self._unit, self._labels = unit, labels
        self._summary = Summary
        # Events of steps that will be computed again are to be forgotten.
        self._writer = SummaryWriter(str(folder), purge_step=keep if folder.exists() else None)

    def log(self, lines: list[dict[str, Any]]) -> None:
        number = lines[0][self._unit]
        flat = [_flatten(line) for line in lines]
        curves = {"": flat}
        if len(self._labels) == 1:
            curves = {f"/{self._labels[0]}-{line[self._labels[0]]}": [line] for line in flat}
        values = [
            self._summary.Value(tag=f"{tag}{suffix}", simple_value=sum(line[tag] for line in of_curve) / len(of_curve))
            for suffix, of_curve in curves.items()
            for tag in of_curve[0].keys() - {self._unit, *self._labels}
        ]
        # As one event: ten seeds have 150 numbers, and `add_scalar` takes a tenth of a millisecond for each.
        self._writer.file_writer.add_summary(self._summary(value=values), number)  # pyright: ignore[reportOptionalMemberAccess]

    def log_picture(self, name: str, number: int, pixels: np.ndarray) -> None:
        self._writer.add_image(name, pixels, number, dataformats="HWC")

    def close(self) -> None:
        self._writer.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics.jsonl; a last line cut by a crash is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def _flatten(value: Any, path: str = "") -> dict[str, float | int]:
    """Numbers by their path: {"entropy": {"GWS": 0.5}} becomes {"entropy/GWS": 0.5}."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {tag: number for name, part in parts for tag, number in _flatten(part, f"{path}/{name}").items()}
    return {path.removeprefix("/"): value}


def _to_line(line: dict[str, Any]) -> str:
    return json.dumps(line, allow_nan=False) + "\n"
