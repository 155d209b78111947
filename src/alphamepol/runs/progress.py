"""The progress display of a run: in a terminal the time left and a live table, elsewhere plain lines."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.names import message_as_text

LINE_EVERY = 10.0
"""The least number of seconds between lines if there is no terminal."""


class RunProgress:
    """The progress display of a loop, as a context manager.

    `total` is the number of steps, and `unit` is the name of a step.
    """

    def __init__(self, title: str, unit: str, total: int, *, quiet: bool):
        self._title, self._unit, self._total, self.quiet = title, unit, total, quiet
        self._console = Console(quiet=quiet, markup=False, emoji=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(),
            *time_columns(),
            console=self._console,
        )
        self._task = self._bar.add_task(unit, total=total)
        self._live = Live(self._bar, console=self._console, refresh_per_second=4, transient=True)
        self._last_line = -math.inf

    def __enter__(self) -> "RunProgress":
        self.say(self._title)
        if self._console.is_terminal:
            _live_displays.append(self._live)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stop_live_display(self._live)

    def say(self, sentence: str) -> None:
        say_in_terminal(self._console, sentence)

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
        _stop_live_display(self._live)
        self._console.print(table)


class TimeLeftColumn(ProgressColumn):
    """The column of the time left. It goes on counting while a step lasts, however long the step is.

    A task may give the size of its current step in the field `step`; by default it is 1.
    """

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._begun: float | None = None
        self._first = self._last = (0.0, 0.0)

    def render(self, task: Task) -> Text:
        now = task.elapsed or 0.0
        if task.start_time != self._begun:
            self._begun = task.start_time
            self._first = self._last = (0.0, task.completed)
        if task.completed > self._last[1]:
            # The first step compiles. It counts only until there is a second step.
            self._first = self._last if self._last[0] > 0 and self._first[0] == 0 else self._first
            self._last = now, task.completed
        left = None
        if task.total is not None and self._last[0] > 0:
            done = self._last[1] - self._first[1]
            left = time_left(
                done,
                task.total - task.completed,
                task.fields.get("step", 1),
                self._last[0] - self._first[0],
                now - self._last[0],
            )
        return Text("--:--" if left is None else _clock(left), style="progress.remaining")


def time_left(done: float | int, to_do: float | int, step: float | int, took: float, since: float) -> float:
    """Return the seconds that are left: `took` for the steps that are done, and `since` in the current step.

    `done` and `to_do` are the sizes of the steps that are done and left, and `step` is that of the current step. While
    the current step lasts no longer than expected, the time counts down. After that it grows, because the step shows
    that steps are slower than they were.
    """
    expected = took * to_do / done - since
    if_it_ended_now = (took + since) * (to_do - step) / (done + step)
    return max(expected, if_it_ended_now, 0.0)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def time_columns() -> tuple[ProgressColumn, ...]:
    """Return the columns of a progress bar that show the elapsed time and the time left."""
    return TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("left"), TimeLeftColumn()


_live_displays: list[Live] = []


@contextmanager
def showing_progress(progress: Progress) -> Iterator[None]:
    """Show a progress bar in a terminal while the context lasts."""
    if not progress.console.is_terminal:
        yield
        return
    _live_displays.append(progress.live)
    progress.start()
    try:
        yield
    finally:
        _stop_live_display(progress.live)


@contextmanager
def showing_table(console: Console) -> Iterator[Callable[[Table], None]]:
    """Give a function that shows a table in the place of the one before, while the context lasts.

    It shows nothing if there is no terminal.
    """
    live = Live(console=console, auto_refresh=False, transient=True)
    if console.is_terminal:
        _live_displays.append(live)
        live.start()
    try:
        yield lambda table: live.update(table, refresh=True)
    finally:
        _stop_live_display(live)


@contextmanager
def counting_progress(total: int, description: str, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar while the context lasts. The context gives a function that counts pieces as done."""
    shown = TextColumn("{task.description}", markup=False)
    progress = Progress(shown, BarColumn(), *time_columns(), console=console, transient=True)
    task = progress.add_task(message_as_text(description), total=total)
    with showing_progress(progress):
        yield lambda pieces: progress.advance(task, pieces)


def track_progress(numbers: Iterable[int], description: str, console: Console | None = None) -> Iterator[int]:
    """Yield the numbers one by one, and show a progress bar for them meanwhile."""
    numbers = list(numbers)
    with counting_progress(len(numbers), description, console) as count:
        for number in numbers:
            yield number
            count(1)


def stop_live_displays() -> None:
    """Stop all displays that are live, so that the terminal is as it was. Any thread may call this function."""
    for live in _live_displays.copy():
        _stop_live_display(live)


def _stop_live_display(live: Live) -> None:
    live.stop()
    if live in _live_displays:
        _live_displays.remove(live)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float | int) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
