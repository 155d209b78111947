"""The context of a run: everything that its functions need apart from what they compute."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from rich.table import Table

from alphamepol.compute.devices import device_name
from alphamepol.compute.stopwatch import Stopwatch
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.runs.callbacks import Callback, check_log_target
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import Interrupts, interrupts
from alphamepol.runs.progress import RunProgress
from alphamepol.settings.run import LogTarget


@dataclass(frozen=True)
class Work:
    """The work of a run, as its title and its progress bar show it."""

    title: str
    unit: str
    """The name of a step: epoch or iteration."""
    total: int
    """The number of steps."""
    phases: tuple[str, ...]
    """The phases of a step, whose seconds are counted."""
    remark: str = ""
    """A sentence that the run says at its start; none if it is empty."""


@dataclass(frozen=True)
class Way:
    """The options of a run that do not change what it computes."""

    resume: bool = False
    devices: int = 1
    quiet: bool = False
    log: LogTarget = "tensorboard"
    callbacks: Sequence[Callback] = ()

    def check(self) -> None:
        """Raise an `InputError` if the run cannot log to where it should."""
        check_log_target(self.log)


@dataclass(frozen=True)
class RunContext:
    """The folder of a run, its progress display, its interrupts, its stopwatch, and the way in which it is done."""

    folder: RunFolder
    progress: RunProgress
    interrupts: Interrupts
    stopwatch: Stopwatch
    way: Way

    @property
    def devices(self) -> int:
        return self.way.devices

    def totals(self, steps: int) -> dict[str, Any]:
        """Return the last part of every summary: the environment steps per second, the seconds, and the device.

        `steps` is the number of environment steps of the run.
        """
        return {
            "steps_per_second": steps / self.stopwatch.working,
            "seconds": self.stopwatch.so_far(),
            "device": device_name(),
        }

    def finish(self, summary: dict[str, Any], table: Table) -> None:
        """Write the summary and show the result. The summary is the last file, so a run that has one is complete."""
        write_atomically(self.folder.summary, to_json(summary))
        self.progress.finish(table)


@contextmanager
def running_in_context(folder: RunFolder, work: Work, way: Way, *, precision: str) -> Iterator[RunContext]:
    """Give a run its context while it lasts. An interrupt ends the run with `RunInterrupted`."""
    with (
        jax.default_matmul_precision(precision),
        interrupts() as received,
        RunProgress(work.title, work.unit, work.total, quiet=way.quiet) as progress,
    ):
        if work.remark:
            progress.say(work.remark)
        yield RunContext(folder, progress, received, Stopwatch(*work.phases), way)
