"""The progress display of a run: in a terminal the time left and a live table, elsewhere plain lines."""

import math
import time
from collections.abc import Iterator
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

LINE_EVERY = 10.0
"""The least number of seconds between lines if there is no terminal."""


class RunProgress:
    """The progress display of a loop, as a context manager.

    `total` is the number of steps, and `unit` is the name of a step.
    """

    def __init__(self, title: str, unit: str, total: int, *, quiet: bool):
        self._title, self._unit, self._total, self.quiet = title, unit, total, quiet
        self._console = Console(quiet=quiet)
        self._bar = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            console=self._console,
        )
        self._task = self._bar.add_task(unit, total=total)
        self._live = Live(self._bar, console=self._console, refresh_per_second=4, transient=True)
        self._last_line = -math.inf

    def __enter__(self) -> "RunProgress":
        self.say(self._title)
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def start_at(self, done: int) -> None:
        """Start a resumed run after `done` steps. These steps do not count for the estimate of the time left."""
        self._bar.reset(self._task, completed=done, total=self._total)

    def advance(self, details: RenderableType, sentence: str) -> None:
        """Count one step as done.

        In a terminal, `details` are shown under the bar. Elsewhere `sentence` is printed at most every ten seconds, and
        after the last step.
        """
        self._bar.advance(self._task)
        self._live.update(Group(self._bar, details))
        task = self._bar.tasks[0]
        if self._console.is_terminal or (time.monotonic() - self._last_line < LINE_EVERY and not task.finished):
            return
        self._last_line = time.monotonic()
        left = f", {duration(task.time_remaining)} left" if task.time_remaining else ""
        self.say(f"{self._unit} {int(task.completed)} of {self._total}{left}: {sentence}")

    def evaluating(self, members: range) -> Iterator[int]:
        """Yield the members one by one, and show a progress bar for them."""
        self.say("evaluating the final policies in every member")
        self._bar.reset(self._task, total=len(members), description="evaluating member")
        self._live.update(self._bar)
        for number in members:
            yield number
            self._bar.advance(self._task)

    def finish(self, table: Table) -> None:
        """Stop the live display and show the table of results."""
        self._live.stop()
        self._console.print(table)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float | int) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
