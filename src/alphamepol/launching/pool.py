"""A pool of tasks that this process starts, each when the tasks that it needs are done."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from alphamepol.launching.task import INTERRUPTED, REFUSED, TRIES, Task, TaskState

PATIENCE = 60.0
"""The seconds that stopped tasks have to save what they have done."""


@runtime_checkable
class Job(Protocol):
    """A task that was started."""

    def status(self) -> int | None:
        """Return the exit status of the command; None while it has not ended."""
        ...

    def stop(self) -> None:
        """Ask the command to save its work and to end."""
        ...

    def kill(self) -> None:
        """End the command at once."""
        ...


@runtime_checkable
class Starter(Protocol):
    """The place in which a pool starts its tasks."""

    def start(self, task: Task) -> Job: ...


class Pool:
    """The executor of tasks that end when this process ends."""

    look_every = 0.5

    def __init__(self, tasks: Sequence[Task], starter: Starter, at_once: int | None):
        self._tasks = {task.name: task for task in tasks}
        self._starter = starter
        self._at_once = len(tasks) if at_once is None else at_once
        self._states = {task.name: TaskState("done" if task.done else "waiting") for task in tasks}
        self._jobs: dict[str, Job] = {}
        self._tries = dict.fromkeys(self._tasks, 0)
        self._reached = dict.fromkeys(self._tasks, -1)
        self._ending = threading.Lock()
        self._stopped = False

    def look(self) -> Mapping[str, TaskState]:
        with self._ending:
            for name, job in list(self._jobs.items()):
                if (status := job.status()) is not None:
                    del self._jobs[name]
                    self._states[name] = self._state_after(self._tasks[name], status)
            for name in [] if self._stopped else [name for name, state in self._states.items() if not state.ended]:
                self._begin_if_possible(self._tasks[name])
            return dict(self._states)

    def stop(self) -> None:
        with self._ending:
            self._stopped = True
            for job in self._jobs.values():
                job.stop()
            end = time.monotonic() + PATIENCE
            while any(job.status() is None for job in self._jobs.values()) and time.monotonic() < end:
                time.sleep(0.05)
            for job in self._jobs.values():
                job.kill()
            self._jobs.clear()

    def _begin_if_possible(self, task: Task) -> None:
        if task.name in self._jobs:
            return
        needed = {name: self._states[name].name for name in task.needs}
        if failed := [name for name, state in needed.items() if state == "failed"]:
            self._states[task.name] = TaskState("failed", f"it needs {failed[0]}")
        elif any(state != "done" for state in needed.values()):
            self._states[task.name] = TaskState("waiting", self._states[task.name].reason)
        elif len(self._jobs) >= self._at_once:
            self._states[task.name] = TaskState("queued", self._states[task.name].reason)
        else:
            self._jobs[task.name] = self._starter.start(task)
            self._states[task.name] = TaskState("running", self._states[task.name].reason)

    def _state_after(self, task: Task, status: int) -> TaskState:
        """Return the state of a task whose command has ended. It fails only if it does not come further any more."""
        if status == 0 and task.done:
            return TaskState("done")
        reached = task.steps_done
        self._tries[task.name] = 1 if reached > self._reached[task.name] else self._tries[task.name] + 1
        self._reached[task.name] = max(reached, self._reached[task.name])
        said = task.last_words or f"exit status {status}"
        if status == REFUSED or self._tries[task.name] >= TRIES:
            return TaskState("failed", said)
        return TaskState("queued", "interrupted, tried again" if status == INTERRUPTED else "failed, tried again")
