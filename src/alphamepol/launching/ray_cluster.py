"""Runs as tasks of a Ray cluster. Only command lines and paths go to the cluster."""

import os
import signal
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from alphamepol.compute.ray_options import ray_options
from alphamepol.environments.gymnasium.crew import ray_address
from alphamepol.errors import InputError, RunError
from alphamepol.launching.command import RunningCommand
from alphamepol.launching.pool import PATIENCE
from alphamepol.launching.task import INTERRUPTED, Task

LOST = 1
"""The exit status of a run whose worker or node has died."""
SIGNALS = signal.SIGINT, signal.SIGTERM


def run_command_in_ray_task(words: tuple[str, ...], log: str, folder: str) -> int:
    """Run a command `alphamepol …` in a folder, in this process of the cluster, and return its exit status.

    If Ray cancels the task, the command saves its work first.
    """
    os.chdir(folder)
    command = RunningCommand(words, Path(log))
    try:
        while (status := command.status()) is None:
            time.sleep(0.1)
        return status
    finally:
        _end_command_of_ray_task(command)


def _end_command_of_ray_task(command: RunningCommand) -> None:
    if command.status() is None:
        command.stop()
        end = time.monotonic() + PATIENCE
        while command.status() is None and time.monotonic() < end:
            time.sleep(0.05)
        command.kill()


class RayJob:
    """A task that was given to Ray."""

    def __init__(self, ray: Any, reference: Any):
        self._ray, self._reference = ray, reference

    def status(self) -> int | None:
        if not self._ray.wait([self._reference], timeout=0)[0]:
            return None
        try:
            return self._ray.get(self._reference)
        except (self._ray.exceptions.TaskCancelledError, KeyboardInterrupt):
            return INTERRUPTED
        except self._ray.exceptions.RayError:
            return LOST

    def stop(self) -> None:
        self._ray.cancel(self._reference)

    def kill(self) -> None:
        if self.status() is None:
            self._ray.cancel(self._reference, force=True)


class RayStarter:
    """The place that starts tasks on a Ray cluster. It joins a cluster, or starts one of its own on this machine."""

    def __init__(self, address: str | None, cores: int | None, gpus: int):
        if find_spec("ray") is None:
            raise InputError(
                'on: ray was given, but Ray is not installed; install it with pip install "alphamepol[ray]"'
            )
        address = None if address == "local" else address or ray_address()
        options = ray_options(address)
        import ray

        self._ray = ray
        # Ray would take over the signals that end a run.
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            with warnings.catch_warnings():
                # Ray starts its programs with a fork. JAX warns of that, but the programs replace the copy at once.
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
                ray.init(**options, ignore_reinit_error=True)
        except (OSError, RuntimeError, ValueError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise RunError(f"no Ray cluster can be used {where} ({error})") from error
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        there = ray.cluster_resources()
        for field, asked, name in (("cores", cores or 1, "CPU"), ("gpus", gpus, "GPU")):
            most = max((node["Resources"].get(name, 0) for node in ray.nodes() if node["Alive"]), default=0)
            if asked > most:
                raise InputError(
                    f"{field}: {asked} was given for each run; no node of the Ray cluster has more than {most:g} "
                    f"(the cluster has {there.get(name, 0):g})"
                )
        self._run = ray.remote(run_command_in_ray_task).options(num_cpus=cores or 1, num_gpus=gpus, max_retries=0)

    def start(self, task: Task) -> RayJob:
        return RayJob(self._ray, self._run.remote(task.words, str(task.log), os.getcwd()))
