"""The context of a run: everything that its functions need apart from what they compute."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from rich.table import Table

from alphamepol.compute.devices import device_name
from alphamepol.compute.stopwatch import Stopwatch
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import Interrupts, interrupts
from alphamepol.runs.progress import RunProgress


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


@dataclass(frozen=True)
class RunContext:
    """The folder of a run, its progress display, its interrupts, its stopwatch, and its number of devices."""

    folder: RunFolder
    progress: RunProgress
    interrupts: Interrupts
    stopwatch: Stopwatch
    devices: int = 1

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
def running_in_context(
    folder: RunFolder, work: Work, *, precision: str, quiet: bool, devices: int = 1
) -> Iterator[RunContext]:
    """Give a run its context while it lasts. An interrupt ends the run with `RunInterrupted`."""
    with (
        jax.default_matmul_precision(precision),
        interrupts() as received,
        RunProgress(work.title, work.unit, work.total, quiet=quiet) as progress,
    ):
        yield RunContext(folder, progress, received, Stopwatch(*work.phases), devices)
