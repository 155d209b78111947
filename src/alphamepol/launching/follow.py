"""Follow many runs: one live table of all runs with the time left, or plain lines where there is no terminal."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from alphamepol.figures.tables import plain_table
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.names import name_as_text
from alphamepol.launching.task import Executor, Task, TaskState
from alphamepol.runs.interrupts import interrupts
from alphamepol.runs.progress import LINE_EVERY, counted, duration, showing_table

ORDER = ("running", "failed", "queued", "waiting", "done")
"""The order of the states in the table."""
COLOURS = {"running": "cyan", "failed": "red", "done": "green"}
ROWS_AROUND = 8
"""The lines of the terminal that are not for rows of the table."""


class Pace:
    """The pace of runs, from the steps that this process has seen. The first step compiles, and does not count."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, int]] = {}
        """When each task was first seen running, and the steps that it had done."""
        self._paced: dict[str, tuple[float, int]] = {}
        """When the first step after that was seen, and the steps that the task had done."""

    def seconds_left(self, task: Task, state: TaskState, done: int, now: float) -> float:
        """Return the seconds that a task will still take; `done` is the number of steps that it has done."""
        if state.name != "running":
            self._begun.pop(task.name, None)
            self._paced.pop(task.name, None)
            return 0.0 if state.ended else task.seconds
        begun, before = self._begun.setdefault(task.name, (now, done))
        if done > before:
            since, first = self._paced.setdefault(task.name, (now, done))
            if done > first:
                return (now - since) / (done - first) * (task.steps - done)
        return max(0.0, task.seconds - (now - begun))


def follow_tasks(tasks: Sequence[Task], executor: Executor, title: str, console: Console) -> dict[str, str]:
    """Show all tasks until each of them is done or has failed. Return the reasons of failed tasks by their names.

    On Ctrl-C or SIGTERM, the executor stops all tasks after they have saved their work.
    """
    pace, last_line = Pace(), -math.inf
    said: set[str] = set()
    with interrupts() as received, received.saving_with(executor.stop), showing_table(console) as show:
        try:
            while True:
                with received.held():
                    states = executor.look()
                received.check()
                steps = {task.name: task.steps_done for task in tasks if states[task.name].name == "running"}
                now = time.monotonic()
                left = {
                    task.name: pace.seconds_left(task, states[task.name], steps.get(task.name, 0), now)
                    for task in tasks
                }
                for task in tasks:
                    if states[task.name].name == "failed" and task.name not in said:
                        said.add(task.name)
                        say_in_terminal(console, f"{name_as_text(task.name)}: {states[task.name].reason}")
                ended = all(state.ended for state in states.values())
                if console.is_terminal:
                    show(_table_of_tasks(tasks, states, steps, left, title, console.height - ROWS_AROUND))
                elif ended or now - last_line >= LINE_EVERY:
                    last_line = now
                    say_in_terminal(console, _sentence_about_tasks(tasks, states, steps, left))
                if ended:
                    return {name: state.reason for name, state in states.items() if state.name == "failed"}
                time.sleep(executor.look_every)
        except KeyboardInterrupt:
            say_in_terminal(console, "stopping; every run saves what it has done")
            executor.stop()
            raise


def seconds_left_of_all(states: Mapping[str, TaskState], left: Mapping[str, float]) -> float:
    """Return the seconds until all tasks are done, if as many go on side by side as now."""
    running = sum(state.name == "running" for state in states.values())
    return max(sum(left.values()) / max(1, running), max(left.values(), default=0.0))


def _table_of_tasks(
    tasks: Sequence[Task],
    states: Mapping[str, TaskState],
    steps: Mapping[str, int],
    left: Mapping[str, float],
    title: str,
    most: int,
) -> Table:
    """Return the table of all tasks, those that are running first. Tasks beyond `most` rows are counted."""
    ordered = sorted(tasks, key=lambda task: ORDER.index(states[task.name].name))
    shown = ordered[: max(1, most)]
    rows = []
    for task in shown:
        state = states[task.name]
        done = f"{steps[task.name]} of {task.steps}" if task.name in steps and task.steps else ""
        time_left = "" if state.ended else f"about {duration(left[task.name])}"
        said = Text(f"{state.name}{f' ({state.reason})' if state.reason else ''}", COLOURS.get(state.name, ""))
        rows.append((name_as_text(task.name), said, done, time_left))
    rest = Counter(states[task.name].name for task in ordered[len(shown) :])
    if rest:
        rows.append((f"and {', '.join(f'{number} {name}' for name, number in rest.items())}", "", "", ""))
    total = _sentence_of_counts(states), "", "", f"about {duration(seconds_left_of_all(states, left))}"
    return plain_table(title, ("run", "state", "steps", "left"), rows, left=("run", "state"), total=total)


def _sentence_of_counts(states: Mapping[str, TaskState]) -> str:
    counts = Counter(state.name for state in states.values())
    return ", ".join(f"{counts[name]} {name}" for name in reversed(ORDER) if counts[name])


def _sentence_about_tasks(
    tasks: Sequence[Task], states: Mapping[str, TaskState], steps: Mapping[str, int], left: Mapping[str, float]
) -> str:
    running = [f"{name_as_text(task.name)} {steps[task.name]} of {task.steps}" for task in tasks if task.name in steps]
    about = seconds_left_of_all(states, left)
    time_left = f"; about {duration(about)} left" if about else ""
    now = f": {', '.join(running[:5])}{' …' if len(running) > 5 else ''}" if running else ""
    return f"{counted(len(tasks), 'run')}: {_sentence_of_counts(states)}{time_left}{now}"
