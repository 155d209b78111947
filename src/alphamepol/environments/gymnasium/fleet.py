"""The fleet of a Gymnasium class: a few worker processes, each with environments of every member."""

import os
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped, UInt32

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree, WorkerProcess
from alphamepol.environments.environment_warnings import show_environment_warnings
from alphamepol.environments.gymnasium.worker import LOADING, NOTHING, BoardLayout, Said, run_gymnasium_worker
from alphamepol.environments.host import Board, HostMember
from alphamepol.errors import RunError

STATIONS = 32
"""The number of rows in the policy's batch, including unused rows.

Trajectory i is always at station i mod 32, however many trajectories run together. Therefore its results are the same
to the bit for any number of workers up to 32."""


PATIENCE = 2.0
"""The seconds that workers have to close their environments and to end by themselves."""


class GymnasiumFleet:
    """A fleet of worker processes that step environments side by side.

    **Arguments**

    - `names`: the names of the members.
    - `pickled_recipe`: the functions that make the environments and compute their particles (a pickled `Recipe`).
    - `member`: the description of a member. Spaces and particle sizes are the same for all members.
    - `workers`: the number of worker processes. They are started at the first reset.
    - `copies`: the number of environments of each member that a worker holds. It steps them one after the other.
    """

    def __init__(self, names: Sequence[str], pickled_recipe: bytes, member: HostMember, workers: int, copies: int):
        self._names = list(names)
        self._recipe = pickled_recipe
        self._workers = workers
        self._stations = max(STATIONS, workers)
        self._together = min(self._stations, workers * copies)
        self._layout = _gymnasium_fleet_layout(member, self._stations, workers)
        self._memory = _gymnasium_fleet_memory(self._layout.size)
        views = self._layout.views(self._memory)
        self._actions, self._now = views["actions"], views["now"]
        parts = (views[name] for name in ("observations", "particles", "rewards", "over", "cut"))
        self._board = Board(*parts, together=self._together)
        self._tree = ProcessTree()
        weakref.finalize(self, os.close, self._memory)
        weakref.finalize(self, _dismiss_gymnasium_fleet, self._tree, self._now, self._names)

    def board(self, trajectories: int) -> Board:
        return self._board

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
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
        _dismiss_gymnasium_fleet(self._tree, self._now, self._names)

    def _do(self, command: str, by_worker: Sequence[list[Any]]) -> None:
        """Send each worker its part of the work, and wait until all workers have answered."""
        try:
            if not self._tree.workers:
                self._hire()
            workers = self._tree.workers
            busy = [number for number, part in enumerate(by_worker) if part]
            for number in busy:
                workers[number].tell((command, by_worker[number]))
            for number in busy:
                _, failure, said = workers[number].answer(workers)
                _show_gymnasium_fleet_warnings(said, self._names)
                if failure is not None:
                    raise RunError(f"{self._occupied(number)}: {failure}")
        except DeadWorkerError as error:
            sentence = self._death(error)
            self.close()
            raise RunError(sentence) from error
        except BaseException:
            # After an interrupt or a failure we do not know which workers have yet to answer.
            self.close()
            raise

    def _hire(self) -> None:
        self._now[:] = LOADING
        module, function = run_gymnasium_worker.__module__, run_gymnasium_worker.__name__
        for number in range(self._workers):
            arguments = number, self._recipe, self._layout, self._memory
            self._tree.start(module, function, *arguments, files=[self._memory])

    def _death(self, error: DeadWorkerError) -> str:
        number = self._tree.workers.index(error.worker)
        which = "the worker process that ran it" if self._now[number] >= 0 else "it"
        return (
            f"{self._occupied(number)}: {which} died ({error.how}); "
            "look at the environment or at the machine's memory, then continue with --resume"
        )

    def _occupied(self, number: int) -> str:
        """Return the environment that a worker is resetting or stepping. If there is none, return the worker."""
        now = int(self._now[number])
        if now >= 0:
            return f"environment {self._names[now]}"
        return f"worker process {number}, which was {'idle' if now == NOTHING else 'loading the environments'}"


def _gymnasium_fleet_layout(member: HostMember, stations: int, workers: int) -> BoardLayout:
    """Return the layout of the board, the actions, and the number of the member that each worker is busy with."""
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
    return BoardLayout(shapes, types)


def _gymnasium_fleet_memory(size: int) -> int:
    """Return the number of an open file of zeros, which processes can share as memory."""
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("alphamepol")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    os.truncate(memory, size)
    return memory


def _dismiss_gymnasium_fleet(tree: ProcessTree, now: Int[np.ndarray, " workers"], names: list[str]) -> None:
    """Let all workers close their environments, end them, and show the warnings of `close`."""
    if tree.owner != os.getpid():
        return  # this process is a fork of the one that has the workers
    end = time.monotonic() + PATIENCE
    said: list[Said] = []
    asked = [(number, worker) for number, worker in enumerate(tree.workers) if not worker.has_ended()]
    for _, worker in asked:
        with suppress(OSError):
            worker.connection.send(("close", []))
    for number, worker in asked:
        words, closed = _last_words_in_gymnasium_fleet(worker, end)
        said += words
        lost = not closed and now[number] >= 0 and worker.has_ended(wait=max(0.0, end - time.monotonic()))
        if lost and not tree.killed:
            said.append((int(now[number]), f"its close() ended the worker process ({worker.how_it_ended()})", True))
    tree.end(max(0.0, end - time.monotonic()))
    _show_gymnasium_fleet_warnings(said, names)


def _last_words_in_gymnasium_fleet(worker: WorkerProcess, end: float) -> tuple[list[Said], bool]:
    """Return the warnings that a worker still has, and True if it has closed its environments before the time `end`."""
    found: list[Said] = []
    with suppress(EOFError, OSError):
        while worker.connection.poll(max(0.0, end - time.monotonic())):
            command, _, said = worker.connection.recv()
            found += said
            if command == "close":
                return found, True
    return found, False


def _show_gymnasium_fleet_warnings(said: Sequence[Said], names: list[str]) -> None:
    for member, text, each_member in said:
        # Modules that are loaded for all members may warn, too.
        name = names[member] if member >= 0 else ", ".join(names)
        show_environment_warnings([(name, text)], each_member=each_member)
