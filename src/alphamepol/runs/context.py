"""The context of a run: all that travels through its functions and has nothing to do with what it computes."""

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
from alphamepol.runs.interrupts import Interrupts, RunInterrupted, interrupts
from alphamepol.runs.progress import RunProgress


@dataclass(frozen=True)
class Work:
    """What a run does, for its title and its progress bar."""

    title: str
    unit: str
    """The name of a step: epoch or iteration."""
    total: int
    """How many steps there are."""
    phases: tuple[str, ...]
    """The phases of a step, whose seconds are counted."""


@dataclass(frozen=True)
class RunContext:
    """Where a run leaves its files, what it shows, what interrupts it, how long it takes, and on how many devices."""

    folder: RunFolder
    progress: RunProgress
    interrupts: Interrupts
    stopwatch: Stopwatch
    devices: int = 1

    def totals(self, steps: int) -> dict[str, Any]:
        """The end of every summary: speed, of so many environment steps, seconds, and the device."""
        return {
            "steps_per_second": steps / self.stopwatch.working,
            "seconds": self.stopwatch.so_far(),
            "device": device_name(),
        }

    def finish(self, summary: dict[str, Any], table: Table) -> None:
        """Write the summary, which comes last, so that a run that has one is whole; and show the result."""
        write_atomically(self.folder.summary, to_json(summary))
        self.progress.finish(table)


@contextmanager
def running_in_context(
    folder: RunFolder, work: Work, *, precision: str, quiet: bool, devices: int = 1
) -> Iterator[RunContext]:
    """Surround a run with its context. An interrupt ends it with `RunInterrupted`."""
    try:
        with (
            jax.default_matmul_precision(precision),
            interrupts() as received,
            RunProgress(work.title, work.unit, work.total, quiet=quiet) as progress,
        ):
            yield RunContext(folder, progress, received, Stopwatch(*work.phases), devices)
    except KeyboardInterrupt as interrupt:
        raise RunInterrupted from interrupt
