"""One run that a page follows: its settings, its progress and its curves."""

import hashlib
import time
from collections import deque
from pathlib import Path
from typing import Any

from alphamepol.errors import InputError
from alphamepol.files.json_files import value_has_type
from alphamepol.files.names import WIDTH, message_as_text, name_as_text
from alphamepol.files.reading import refusing_odd_files
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.progress import counted
from alphamepol.watching.metrics_tail import MetricsTail

SILENT = 120.0
"""The fewest seconds without a new line after which a run that has not ended counts as silent."""
SLOW_STEPS = 10.0
"""The number of steps that may pass without a new line before a run counts as silent."""
LOOKS = 20
"""The number of looks at new steps that tell how long a step takes."""
COUNTED = "seeds", "tasks"
SHOWN_SETTINGS = ("method", "algorithm", "alpha", "memory", *COUNTED)
"""The settings that the page shows beside the name of a run, if the run has them."""


class FollowedRun:
    """A run folder, and what was read of it so far. Nothing is ever written."""

    def __init__(self, path: Path, name: str):
        self.path = path
        self.folder = RunFolder(path)
        self.key = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
        """The name of the run in addresses."""
        self.tail = MetricsTail(self.folder.metrics)
        self.described: dict[str, Any] = {}
        """The content of config.json; empty if it cannot be read."""
        self._name = name_as_text(name, WIDTH)
        self._problem = ""
        self._config_time: int | None = None
        self._changed = 0.0
        self._seen: deque[tuple[float, int]] = deque(maxlen=LOOKS)
        """The moments at which new steps were seen, and the number of steps that were done then."""

    def advance(self, seconds: float) -> None:
        """Read what is new in the folder, for about so many seconds at most."""
        try:
            changed = self.folder.config.stat().st_mtime_ns
            if changed != self._config_time:
                with refusing_odd_files(self.path):
                    self.described = self.folder.read_config()
                self._config_time, self._problem = changed, ""
        except (InputError, OSError) as error:
            self.described, self._problem = {}, str(error)
            return
        before = self.tail.position
        self.tail.advance(seconds)
        if self.tail.position != before:
            if not self.tail.reading:
                self._seen.append((time.monotonic(), self.done))
            try:
                self._changed = min(self.folder.metrics.stat().st_mtime, time.time())
            except OSError:
                self._changed = time.time()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run; empty if config.json has none."""
        found = self.described.get("config")
        return found if isinstance(found, dict) else {}

    @property
    def command(self) -> str:
        """The command that made the run, e.g. pretrain; empty if config.json does not tell."""
        return str(self.described.get("command", ""))

    @property
    def done(self) -> int:
        """The number of steps that are done."""
        return self.tail.newest + 1

    @property
    def total(self) -> int | None:
        """The number of steps that are planned; None if config.json does not tell."""
        total = self.settings.get(f"{self.tail.unit}s")
        return total if value_has_type(total, int) else None

    def summarise(self) -> dict[str, Any]:
        """Return the name, the settings and the progress of the run, ready for JSON."""
        now, per_step = time.time(), self._seconds_per_step()
        left = None if per_step is None or self.total is None else max(0, self.total - self.done) * per_step
        return {
            "key": self.key,
            "name": self._name,
            "command": name_as_text(self.command, WIDTH) if self.command else "",
            "class": name_as_text(str(self.described.get("class", "")), WIDTH),
            "settings": self._words_of_settings(),
            "state": self._state(now, per_step),
            "unit": self.tail.unit,
            "done": self.done,
            "total": self.total,
            "seconds_left": left,
            "seconds_since": round(now - self._changed) if self._changed else None,
            "read": round(self.tail.position / self.tail.size, 3) if self.tail.reading and self.tail.size else 1,
            "problem": message_as_text(self._problem or self.tail.problem or self.tail.trouble),
        }

    def _seconds_per_step(self) -> float | None:
        """Return the seconds of a step while the run was watched, else those in its metrics; None if unknown."""
        if len(self._seen) > 1:
            (start, before), (end, after) = self._seen[0], self._seen[-1]
            if after > before:
                return (end - start) / (after - before)
        return self.tail.seconds_per_step

    def _state(self, now: float, per_step: float | None) -> str:
        if not self.described:
            return "unreadable"
        if self.folder.ended:
            return "finished"
        if self.done == 0:
            return "starting"
        if now - self._changed > max(SILENT, SLOW_STEPS * (per_step or 0)):
            return "silent"
        return "evaluating" if self.done == self.total else "training"

    def _words_of_settings(self) -> list[str]:
        """Return the settings that tell runs of one class apart, each as one short text."""
        found = {**self.settings, **{name: self.described[name] for name in ("algorithm",) if name in self.described}}
        words = [name_as_text(str(self.described["member"]), WIDTH)] if "member" in self.described else []
        for name in SHOWN_SETTINGS:
            value: Any = found.get(name)
            if name == "tasks" and found.get("method") == "diayn":
                continue  # its skills are no tasks
            if name in COUNTED and value_has_type(value, int):
                words.append(counted(value, name[:-1]))
            elif name not in COUNTED and value_has_type(value, str | float | int) and value != "none":
                word = {"alpha": "α = ", "memory": "memory "}.get(name, "")
                text = value if isinstance(value, str) else f"{value:g}"
                words.append(name_as_text(f"{word}{text}", WIDTH))
        return words
