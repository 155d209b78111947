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

from alphamepol.environments.environment_warnings import show_environment_warnings
from alphamepol.environments.gymnasium.worker import NOTHING, Recipe, SharedBoard, run_gymnasium_worker
from alphamepol.environments.host import Board, HostMember
from alphamepol.errors import InputError, RunError

STATIONS = 32
"""The number of rows in the policy's batch, including unused rows.

Trajectory i is always at station i mod 32, however many trajectories run together. Therefore its results are the same
to the bit for any number of workers up to 32."""


class GymnasiumFleet:
    """A fleet of worker processes that step environments side by side.

    **Arguments**

    - `recipe`: the functions that make the environments and compute their particles.
    - `member`: the description of a member. Spaces and particle sizes are the same for all members.
    - `workers`: the number of worker processes. They are spawned at the first reset.
    - `copies`: the number of environments of each member that a worker holds. It steps them one after the other.
    """

    def __init__(self, recipe: Recipe, member: HostMember, workers: int, copies: int):
        self._names = list(recipe.makers)
        # cloudpickle also sends functions from a script or a notebook, which a worker cannot import.
        try:
            self._recipe = cloudpickle.dumps(recipe)
        except Exception as error:
            raise InputError(
                f"members: they cannot be sent to worker processes ({type(error).__name__}: {error}); each function "
                "must make its environment itself, and must not hold objects such as open files or environments"
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
        # Neighbouring stations belong to different workers, so that all workers have about the same work.
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
        """Send each worker its part of the work, and wait until all workers have answered."""
        try:
            if not self._crew:
                self._hire()
            busy = [number for number, part in enumerate(by_worker) if part]
            for number in busy:
                self._tell(number, (command, by_worker[number]))
            for number in busy:
                self._hear(number)
        except BaseException:
            # After an interrupt or a failure we do not know which workers have yet to answer.
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
                there.close()  # so that reading from `here` fails once the worker has died
                self._crew.append((process, here))

    def _tell(self, number: int, message: Any) -> None:
        try:
            self._crew[number][1].send(message)
        except OSError as error:
            raise self._death(number) from error

    def _hear(self, number: int) -> None:
        try:
            failure, said = self._crew[number][1].recv()
        except (EOFError, OSError) as error:
            raise self._death(number) from error
        show_environment_warnings((self._names[self._member_at[station]], text) for text, station in said)
        if failure is not None:
            raise RunError(f"environment {self._stepped(number)}: {failure}")

    def _death(self, number: int) -> RunError:
        process, _ = self._crew[number]
        process.join(5)
        if process.exitcode == -signal.SIGTERM:
            time.sleep(1)  # a cluster that ends a job also signals this process, which then stops for that reason
        return RunError(
            f"environment {self._stepped(number)}: the worker process that ran it died (exit code {process.exitcode}); "
            "look at the environment or at the machine's memory, then continue with --resume"
        )

    def _stepped(self, number: int) -> str:
        """Return the name of the member that a worker was resetting or stepping."""
        station = int(self._now[number])
        return self._names[0 if station == NOTHING else self._member_at[station]]


def _shared_gymnasium_fleet_board(member: HostMember, stations: int, workers: int) -> SharedBoard:
    """Return shared memory for the board, the actions, and the current station of each worker."""
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
    """Let processes that are started in this context ignore Ctrl-C.

    Ctrl-C reaches every process of a terminal, but only the main process shall react to it.
    """
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
    """Keep spawned processes from running the user's script again. They do not need it."""
    main = sys.modules["__main__"]
    kept = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)
