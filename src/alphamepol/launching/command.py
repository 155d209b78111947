"""A command line of this package in a process of its own, and the place that starts such processes on this machine."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from alphamepol.compute.machine import machine_cores
from alphamepol.compute.process_tree import ProcessTree
from alphamepol.errors import InputError
from alphamepol.launching.task import Task

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that holds the GPUs which a process may use."""


class RunningCommand:
    """A command `alphamepol …` that runs. It does not outlive this process, not even if SIGKILL ends this process."""

    def __init__(
        self, words: Sequence[str], log: Path, variables: Mapping[str, str] | None = None, cores: Sequence[int] = ()
    ):
        self._tree = ProcessTree()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            command = [sys.executable, "-m", "alphamepol", *words]
            self._process = self._tree.run(command, output, variables or {})
        if cores:
            os.sched_setaffinity(self._process.pid, cores)

    def status(self) -> int | None:
        """Return the exit status; None while the command has not ended."""
        status = self._process.poll()
        if status is not None:
            self._tree.end(0.0)
        return status

    def stop(self) -> None:
        """Ask the command to save its work and to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End the command, and all processes that it has started, at once."""
        self._tree.end(0.0)


class LocalStarter:
    """The place that starts tasks as processes of this machine.

    Every run has a slot, which has its own cores and GPUs.
    """

    def __init__(self, at_once: int, cores: int | None, gpus: int):
        if cores is not None and at_once * cores > machine_cores():
            raise InputError(
                f"cores: {cores} was given for each of {at_once} runs at once; this machine has {machine_cores()} cores"
            )
        if cores is not None and not hasattr(os, "sched_setaffinity"):
            raise InputError("cores: this system cannot give cores to a process; leave --cores out")
        self._cores, self._gpus = cores, gpus
        seen = [word for word in os.environ.get(VISIBLE, "").split(",") if word]
        if seen and at_once * gpus > len(seen):
            raise InputError(f"gpus: {gpus} was given for each of {at_once} runs at once; {VISIBLE} has {len(seen)}")
        self._visible = seen or [str(number) for number in range(at_once * gpus)]
        self._slots: list[RunningCommand | None] = [None] * at_once

    def start(self, task: Task) -> RunningCommand:
        """Start a task in a free slot. There are as many slots as runs at once."""
        slot = next(i for i, used in enumerate(self._slots) if used is None or used.status() is not None)
        variables, cores = {}, []
        if self._gpus:
            variables[VISIBLE] = ",".join(self._visible[slot * self._gpus : (slot + 1) * self._gpus])
        if self._cores is not None:
            cores = sorted(os.sched_getaffinity(0))[slot * self._cores : (slot + 1) * self._cores]
        started = self._slots[slot] = RunningCommand(task.words, task.log, variables, cores)
        return started
