"""The fleet of a Gymnasium class: a few worker processes, each with environments of every member."""

import multiprocessing
import signal
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle
import numpy as np
from jaxtyping import Int, Shaped, UInt32

from alphamepol.environments.gymnasium.worker import NOTHING, Recipe, SharedBoard, run_gymnasium_worker
from alphamepol.environments.host import Board, HostMember
from alphamepol.errors import InputError, RunError

STATIONS = 32
"""Rows that the policy is fed at once, used or not. Trajectory i is at station i mod 32, however many run together, so
that what is computed of it is the same to the bit for any number of workers up to that."""


class GymnasiumFleet:
    """Spawned workers that step environments side by side.

    **Arguments**

    - `recipe`: how environments are made and read.
    - `member`: what is known of every member: spaces, size of particles.
    - `workers`: how many processes.
    - `copies`: how many environments of a member each of them holds, and steps one after the other.
    """

    def __init__(self, recipe: Recipe, member: HostMember, workers: int, copies: int):
        self._names = list(recipe.makers)
        # By value: what is defined in a script or a notebook cannot be imported by a worker.
        try:
            self._recipe = cloudpickle.dumps(recipe)
        except Exception as error:
            raise InputError(
                f"members: they cannot be sent to worker processes ({type(error).__name__}: {error}); what is given "
                "must make its environment itself, and hold nothing like open files or environments"
            ) from error
        self._workers = workers
        self._stations = max(STATIONS, workers)
        self._together = min(self._stations, workers * copies)
        self._shared = _shared_gymnasium_fleet_board(member, self._stations, workers)
        views = self._shared.views()
        self._actions, self._now = views["actions"], views["now"]
        parts = (views[name] for name in ("observations", "particles", "rewards", "over", "cut"))
        self._board = Board(*parts, together=self._together)
        self._member_at = np.zeros(self._stations, int)
        self._crew: list[tuple[BaseProcess, Connection]] = []
        weakref.finalize(self, _dismiss_gymnasium_fleet, self._crew)

    def board(self, trajectories: int) -> Board:
        return self._board

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
        self._member_at[stations] = members
        # Neighbouring stations are of different workers, which so have equally much to do.
        order = stations % self._together
        workers, slots = order % self._workers, order // self._workers
        orders = zip(stations.tolist(), slots.tolist(), members.tolist(), seeds.tolist(), strict=True)
        by_worker: list[list[Any]] = [[] for _ in range(self._workers)]
        for worker, one in zip(workers.tolist(), orders, strict=True):
            by_worker[worker].append(one)
        self._do("reset", by_worker)

    def step(
        self, board: Board, stations: Int[np.ndarray, " some"], actions: Shaped[np.ndarray, "stations ..."]
    ) -> None:
        self._actions[:] = actions
        workers = stations % self._together % self._workers
        self._do("step", [stations[workers == worker].tolist() for worker in range(self._workers)])

    def close(self) -> None:
        _dismiss_gymnasium_fleet(self._crew)

    def _do(self, command: str, by_worker: Sequence[list[Any]]) -> None:
        """Let every worker do its part, and wait for all."""
        try:
            if not self._crew:
                self._hire()
            busy = [number for number, part in enumerate(by_worker) if part]
            for number in busy:
                self._tell(number, (command, by_worker[number]))
            for number in busy:
                self._hear(number)
        except BaseException:
            # Interrupted or failed: nobody knows any more who was to answer what.
            self.close()
            raise

    def _hire(self) -> None:
        context = multiprocessing.get_context("spawn")
        with _hide_main_from_gymnasium_fleet():
            for number in range(self._workers):
                here, there = context.Pipe()
                arguments = there, number, self._recipe, self._shared
                process = context.Process(
                    target=run_gymnasium_worker, args=arguments, name=f"environments-{number}", daemon=True
                )
                with _gymnasium_fleet_deaf_to_ctrl_c():
                    process.start()
                there.close()  # so that `here` ends when the worker does
                self._crew.append((process, here))

    def _tell(self, number: int, message: Any) -> None:
        try:
            self._crew[number][1].send(message)
        except OSError as error:
            raise self._death(number) from error

    def _hear(self, number: int) -> None:
        try:
            failure = self._crew[number][1].recv()
        except (EOFError, OSError) as error:
            raise self._death(number) from error
        if failure is not None:
            raise RunError(f"environment {self._stepped(number)}: {failure}")

    def _death(self, number: int) -> RunError:
        process, _ = self._crew[number]
        process.join(5)
        if process.exitcode == -signal.SIGTERM:
            time.sleep(1)  # a cluster that ends a job tells all its processes, this one too: then that is the reason
        return RunError(
            f"environment {self._stepped(number)}: the worker process that ran it died (exit code {process.exitcode}); "
            "look at the environment or at the machine's memory, then continue with --resume"
        )

    def _stepped(self, number: int) -> str:
        """The name of the member that a worker was at."""
        station = int(self._now[number])
        return self._names[0 if station == NOTHING else self._member_at[station]]


def _shared_gymnasium_fleet_board(member: HostMember, stations: int, workers: int) -> SharedBoard:
    """Memory for a board, the actions, and the station that each worker is at."""
    action = member.action_space.shape or ()
    shapes = {
        "observations": (stations, member.observation_size),
        "particles": (stations, member.feature_size),
        "rewards": (stations,),
        "over": (stations,),
        "cut": (stations,),
        "actions": (stations, *action),
        "now": (workers,),
    }
    types = dict.fromkeys(shapes, "float32") | {"over": "bool", "cut": "bool", "now": "int32"}
    types["actions"] = "float32" if action else "int32"
    raw = multiprocessing.get_context("spawn").RawArray
    sizes = {name: int(np.prod(shape)) * np.dtype(types[name]).itemsize for name, shape in shapes.items()}
    shared = SharedBoard({name: raw("b", size) for name, size in sizes.items()}, shapes, types)
    shared.views()["now"][:] = NOTHING
    return shared


def _dismiss_gymnasium_fleet(crew: list[tuple[BaseProcess, Connection]]) -> None:
    for _, connection in crew:
        connection.close()
    end = time.monotonic() + 2
    for process, _ in crew:
        process.join(max(0.0, end - time.monotonic()))
    for process, _ in crew:
        if process.is_alive():
            process.kill()
            process.join()
    crew.clear()


@contextmanager
def _gymnasium_fleet_deaf_to_ctrl_c() -> Iterator[None]:
    """What is started meanwhile does not hear it: it reaches every process of a terminal, and this one leads."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _hide_main_from_gymnasium_fleet() -> Iterator[None]:
    """Keep spawned processes from running the user's script again, which they do not need."""
    main = sys.modules["__main__"]
    kept = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)
