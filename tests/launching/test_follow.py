"""Test what a user sees of many runs, and the end of all of them on Ctrl-C."""

import io
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from alphamepol.launching.follow import Pace, follow_tasks, seconds_left_of_all
from alphamepol.launching.task import Task, TaskState
from alphamepol.runs.interrupts import RunInterrupted

pytestmark = pytest.mark.quick


def task_in(folder: Path, name: str) -> Task:
    return Task(name, ("pretrain",), folder / name, folder / f"{name}.log", 10, 100.0)


class Scripted:
    """An executor that tells one list of states after the other."""

    look_every = 0.0

    def __init__(self, *looks: Mapping[str, TaskState], signal_at: int = -1):
        self.looks, self.signal_at, self.number, self.stopped = looks, signal_at, 0, 0

    def look(self) -> Mapping[str, TaskState]:
        if self.number == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)
        self.number += 1
        return self.looks[min(self.number, len(self.looks)) - 1]

    def stop(self) -> None:
        self.stopped += 1


def test_the_time_left_comes_from_the_estimate_and_then_from_the_steps(tmp_path) -> None:
    task, pace = task_in(tmp_path, "a"), Pace()
    assert pace.seconds_left(task, TaskState("queued"), 0, now=0.0) == 100.0
    assert pace.seconds_left(task, TaskState("running"), 2, now=10.0) == 100.0
    assert pace.seconds_left(task, TaskState("running"), 2, now=30.0) == 80.0
    # The first step is compiled, and does not count. Two more take 20 seconds, so the five that are left take 50.
    assert pace.seconds_left(task, TaskState("running"), 3, now=50.0) == 60.0
    assert pace.seconds_left(task, TaskState("running"), 5, now=70.0) == 50.0
    assert pace.seconds_left(task, TaskState("done"), 10, now=90.0) == 0.0


def test_the_time_left_of_all_tasks() -> None:
    running = {"a": TaskState("running"), "b": TaskState("running"), "c": TaskState("queued")}
    assert seconds_left_of_all(running, {"a": 10.0, "b": 20.0, "c": 30.0}) == 30.0
    assert seconds_left_of_all(running, {"a": 50.0, "b": 60.0, "c": 90.0}) == 100.0


def test_failures_are_told_once_and_returned(tmp_path) -> None:
    tasks, failed = [task_in(tmp_path, name) for name in "ab"], TaskState("failed", "no \x1b[31m memory")
    executor = Scripted(
        {"a": TaskState("running"), "b": failed},
        {"a": TaskState("done"), "b": failed},
    )
    shown = io.StringIO()
    assert follow_tasks(tasks, executor, "a sweep", Console(file=shown, width=200)) == {"b": "no \x1b[31m memory"}
    lines = shown.getvalue().splitlines()
    assert sum("memory" in line for line in lines) == 1
    assert "\x1b" not in shown.getvalue()
    assert lines[-1] == "2 runs: 1 done, 1 failed"


def test_a_terminal_shows_one_table_that_fits(tmp_path) -> None:
    names = [f"run-{number}" for number in range(40)]
    tasks = [task_in(tmp_path, name) for name in names]
    states = {name: TaskState("queued") for name in names} | {"run-7": TaskState("running")}
    executor = Scripted(states, dict.fromkeys(names, TaskState("done")))
    shown = io.StringIO()
    follow_tasks(tasks, executor, "a sweep", Console(file=shown, force_terminal=True, width=120, height=20))
    first = shown.getvalue().split("and ")[0]
    assert "run-7" in first  # what is running comes first
    assert "0 of 10" in first
    assert "28 queued" in shown.getvalue()  # 20 lines have room for 12 rows
    assert "about 1 h 6 min" in shown.getvalue()


def test_a_signal_stops_all_runs(tmp_path) -> None:
    executor = Scripted({"a": TaskState("running")}, signal_at=2)
    with pytest.raises(RunInterrupted):
        follow_tasks([task_in(tmp_path, "a")], executor, "a sweep", Console(file=io.StringIO()))
    assert executor.stopped == 1
