"""Curves of a metrics.jsonl that grows. No byte of the file is read twice, unless the file was cut or replaced."""

import io
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from alphamepol.errors import InputError
from alphamepol.files.json_files import from_json, value_has_type
from alphamepol.files.names import name_as_text
from alphamepol.files.reading import check_folder_is_plain, open_regular_file
from alphamepol.runs.folder import UNITS
from alphamepol.runs.metrics import LONGEST_LINE
from alphamepol.settings.fields import LARGEST_COUNT

MOST_POINTS = 1000
"""The most steps of a curve. Of a longer run, every second step is shown, or every fourth, and so on."""
MOST_SERIES = 60
"""The most curves of a run."""
MOST_ROWS = 5000
"""The most lines of a step, one for each seed or task, that are drawn."""
PIECE = 2**20
"""The number of bytes that are read at a time."""
LARGEST_NUMBER = 1e100
"""The largest number that is drawn."""
BEFORE = 64
"""The number of bytes before the position that must be as they were."""
_STEP = re.compile(rb'\{"(epoch|iteration)": (\d{1,12})[,}]')


class Series(NamedTuple):
    """The name of a curve: a field of the metrics, and its part, e.g. a member. The part is empty if there is none."""

    field: str
    part: str


SECONDS = Series("seconds", "")


class MetricsTail:
    """The curves of one metrics.jsonl, and the position up to which the file is read."""

    def __init__(self, path: Path):
        self._path = path
        self.trouble = ""
        """A sentence if the file could not be read at the last look; else empty."""
        self.generation = 0
        """A number that changes whenever earlier points do: when the curves start again, or are thinned."""
        self._start_again()

    def _start_again(self) -> None:
        self.generation += 1
        self.unit = ""
        """The name of a step: epoch or iteration; empty if nothing is read yet."""
        self.newest = -1
        """The number of the newest step; -1 if there is none."""
        self.problem = ""
        """A sentence if the file cannot be read on, because a line is damaged; else empty."""
        self.position = self.size = 0
        self.stride = 1
        self._at_the_end = False
        self._before = b""
        self._newest_lines: list[bytes] = []
        self._points: dict[int, dict[Series, list[float]]] = {}
        self._series: dict[Series, None] = {}

    @property
    def reading(self) -> bool:
        """True if there is more to read at once."""
        return not (self._at_the_end or self.problem)

    @property
    def seconds_per_step(self) -> float | None:
        """The mean seconds of the newest points; None if there are none."""
        newest = list(self._points.values())[-10:]
        seconds = [point[SECONDS][0] for point in newest if SECONDS in point]
        return sum(seconds) / len(seconds) if seconds else None

    def advance(self, seconds: float) -> None:
        """Read what is new in the file, for about so many seconds at most."""
        end, self.trouble = time.monotonic() + seconds, ""
        try:
            check_folder_is_plain(self._path.parent, [self._path.name])
            if not self._path.exists():
                self._at_the_end = True
                return
            with open_regular_file(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                if self._has_changed_before(file, size):
                    self._start_again()
                if size == self.size and not self.reading:
                    return
                self.size, self._at_the_end = size, False
                file.seek(self.position)
                while self.reading and time.monotonic() < end:
                    self._read_piece(file)
            self._add_newest()
        except (OSError, ValueError, InputError) as error:
            self.trouble = str(error) if isinstance(error, InputError) else f"metrics.jsonl cannot be read ({error})"

    def _has_changed_before(self, file: io.BufferedReader, size: int) -> bool:
        """Tell if the file before the position is no longer what was read: a resumed run cuts and rewrites it."""
        if size < self.position:
            return True
        file.seek(self.position - len(self._before))
        return file.read(len(self._before)) != self._before

    def _read_piece(self, file: io.BufferedReader) -> None:
        """Read some whole lines from the position on."""
        piece = file.read(PIECE)
        if b"\n" not in piece and len(piece) == PIECE:
            piece += file.read(LONGEST_LINE - PIECE)
        end = piece.rfind(b"\n") + 1
        if end == 0 and len(piece) >= LONGEST_LINE:
            self.problem = f"metrics.jsonl has a line of more than {LONGEST_LINE} bytes"
        elif end == 0:
            self._at_the_end = True  # the next line is still being written
        else:
            for line in piece[: end - 1].split(b"\n"):
                if not self._take_line(line):
                    self.problem = f"metrics.jsonl is damaged after {self.unit or 'step'} {max(self.newest, 0)}"
                    break
            self._before = piece[max(0, end - BEFORE) : end]
            self.position += end
            file.seek(self.position)

    def _take_line(self, text: bytes) -> bool:
        """Take one line. Return if it is one of a run."""
        step: Any
        if found := _STEP.match(text):  # most lines are not parsed any further
            unit, step = found[1].decode(), int(found[2])
        else:
            line = _line_as_dict(text)
            unit = next((name for name in UNITS if name in line), "")
            step = line.get(unit)
            if not value_has_type(step, int) or step > LARGEST_COUNT:
                return False
        if step < max(self.newest, 0):
            return False
        self.unit = self.unit or unit
        if step > self.newest:
            self._add_newest()
            self.newest, self._newest_lines = step, []
        if len(self._newest_lines) < MOST_ROWS and len(self._newest_lines) * len(text) <= LONGEST_LINE:
            self._newest_lines.append(text)
        return True

    def _add_newest(self) -> None:
        """Add the newest step to the points, unless thinning leaves it out."""
        if self.newest < 0 or self.newest % self.stride:
            return
        self._points[self.newest] = self._newest_point()
        while len(self._points) > MOST_POINTS:
            self.generation += 1
            self.stride *= 2
            self._points = {step: point for step, point in self._points.items() if step % self.stride == 0}

    def _newest_point(self) -> dict[Series, list[float]]:
        """Return the values of the newest step over its lines, which are those of seeds or tasks, for every curve."""
        found: dict[Series, list[float]] = {}
        for text in self._newest_lines:
            for name, value in _numbers_of_line(_line_as_dict(text), self.unit):
                if name in self._series or len(self._series) < MOST_SERIES:
                    self._series[name] = None
                    found.setdefault(name, []).append(value)
        return found

    def curves_since(self, generation: int, known: int) -> dict[str, Any]:
        """Return the points of all curves that a viewer does not have, ready for JSON.

        The viewer has `known` points of a `generation`. It cuts its curves to `start` points and appends these. The
        newest step is always the last point. It is not one of the `fixed` points if later thinning leaves it out.
        """
        steps = list(self._points)
        start = max(0, min(known, len(steps)) - 1) if generation == self.generation else 0
        rows = [self._points[step] for step in steps[start:]]
        shown = steps[start:]
        if self.newest >= 0 and self.newest not in self._points:
            shown, rows = [*shown, self.newest], [*rows, self._newest_point()]
        curves = []
        for name in self._series:
            values = [row.get(name) for row in rows]
            curve: dict[str, Any] = {
                "field": name_as_text(name.field, 60),
                "part": name.part and name_as_text(name.part, 60),
                "mean": [value and _short(sum(value) / len(value)) for value in values],
            }
            if any(value and len(value) > 1 for value in values):
                curve["low"] = [value and _short(min(value)) for value in values]
                curve["high"] = [value and _short(max(value)) for value in values]
            curves.append(curve)
        return {
            "generation": self.generation,
            "start": start,
            "fixed": len(steps),
            "stride": self.stride,
            "steps": shown,
            "curves": curves,
        }


def _line_as_dict(text: bytes) -> dict[str, Any]:
    """Return a metrics line; an empty dict if the text is not a JSON object."""
    try:
        line = from_json(text)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def _numbers_of_line(line: dict[str, Any], unit: str) -> Iterator[tuple[Series, float]]:
    """Yield the numbers of a metrics line that are drawn: its own, the entropies of members, and the seconds."""
    entropies: Any = line.get("entropy")
    seconds: Any = line.get("seconds")
    found = [(Series(name, ""), value) for name, value in line.items() if name not in (unit, "seed", "task")]
    if isinstance(entropies, dict):
        found += [(Series("entropy", part), value) for part, value in entropies.items()]
    if value_has_type(seconds, dict[str, float | int]):
        found.append((SECONDS, sum(seconds.values())))
    for name, value in found:
        if value_has_type(value, float | int) and abs(value) < LARGEST_NUMBER:
            yield name, float(value)


def _short(value: float) -> float:
    return float(f"{value:.6g}")
