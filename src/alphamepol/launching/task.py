"""A task: one run as a command line, and the state of it."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from alphamepol.files.json_files import value_has_type
from alphamepol.files.reading import open_regular_file
from alphamepol.runs.metrics import last_metrics_line

REFUSED, INTERRUPTED = 2, 130
"""The exit statuses of a command that was given a wrong input, and of a command that was interrupted."""
TRIES = 3
"""The number of starts after which a run has failed, if none of them has come further than the start before it."""
LOG_END = 4096
"""The bytes at the end of a log in which the reason of a failure is looked for."""


@dataclass(frozen=True)
class Task:
    """One run as a command line. To do the task again continues the run from its checkpoint."""

    name: str
    """The name of the run. No two tasks have the same name, and it is a part of paths."""
    words: tuple[str, ...]
    """The words of the command line after `alphamepol`."""
    folder: Path
    """The run folder. The run is done when the folder has a summary.json."""
    log: Path
    """The file that the output of the command is appended to."""
    steps: int
    """The number of epochs or iterations; 0 if the run has no steps."""
    seconds: float
    """An estimate of the seconds that the run will still take."""
    needs: tuple[str, ...] = ()
    """The names of the tasks that must be done before this task."""

    @property
    def done(self) -> bool:
        return (self.folder / "summary.json").is_file()

    @property
    def steps_done(self) -> int:
        """The number of steps that metrics.jsonl has."""
        last = last_metrics_line(self.folder / "metrics.jsonl") or {}
        step = last.get("epoch", last.get("iteration", -1))
        return step + 1 if value_has_type(step, int) else 0

    @property
    def last_words(self) -> str:
        """The last line of the log; empty if there is no log."""
        try:
            with open_regular_file(self.log) as file:
                file.seek(max(0, self.log.stat().st_size - LOG_END))
                lines = file.read(LOG_END).decode(errors="replace").splitlines()
        except (OSError, ValueError):
            return ""
        said = deque((line.strip() for line in lines if line.strip()), maxlen=1)
        return said[0].removeprefix("alphamepol: ") if said else ""


StateName = Literal["waiting", "queued", "running", "done", "failed"]
"""The states of a task. A task waits for other tasks; a queued task waits for a free place."""


@dataclass(frozen=True)
class TaskState:
    """The state of a task, with a reason if there is one."""

    name: StateName
    reason: str = ""

    @property
    def ended(self) -> bool:
        return self.name in ("done", "failed")


@runtime_checkable
class Executor(Protocol):
    """The place in which tasks are done."""

    @property
    def look_every(self) -> float:
        """The seconds between two looks."""
        ...

    def look(self) -> Mapping[str, TaskState]:
        """Return the state of every task by its name. Tasks that can begin are begun."""
        ...

    def stop(self) -> None:
        """Let all tasks save what they have done, and wait until they have ended. Any thread may call this, twice."""
        ...
