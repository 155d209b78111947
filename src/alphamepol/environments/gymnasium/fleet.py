"""The fleet of a Gymnasium class: its workers, each with environments of every member."""

import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped, UInt32

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree, WorkerProcess
from alphamepol.environments.environment_warnings import name_of_member, show_environment_warnings
from alphamepol.environments.gymnasium.camera import GymnasiumCamera, Picture
from alphamepol.environments.gymnasium.crew import ray_address, read_crew
from alphamepol.environments.gymnasium.pickled_recipe import pickle_recipe
from alphamepol.environments.gymnasium.ray_fleet.workers import run_ray_workers
from alphamepol.environments.gymnasium.shared_board import BoardLayout, SharedBoard
from alphamepol.environments.gymnasium.worker import CREW, LOADING, NOTHING, Recipe, Said, run_gymnasium_worker
from alphamepol.environments.host import Board, HostMember
from alphamepol.errors import RunError
from alphamepol.files.names import message_as_text
from alphamepol.settings.run import WorkersGiven

BATCH = 32
"""The number of rows in the policy's batch, including unused rows.

Trajectory i is always in row i mod 32 of a batch, however many trajectories run together. Therefore its results are the
same to the bit for any number of workers, wherever they are."""
PATIENCE = 2.0
"""The seconds that workers have to close their environments and to end by themselves."""


@dataclass(frozen=True)
class FleetPlan:
    """The environments that a fleet steps, whoever its workers are."""

    names: Sequence[str]
    """The names of the members."""
    recipe: Recipe
    """The functions that make the environments and compute their particles."""
    member: HostMember
    """The description of a member. Spaces and particle sizes are the same for all members."""
    seconds: float
    """The time of a step."""
    copies: int | None
    """The number of environments of each member that a worker holds. None if the time of a step decides it."""


class GymnasiumFleet:
    """A fleet of workers that step environments side by side.

    The workers are processes of this machine, which share memory with this process. If they are actors of a Ray
    cluster, one process of this machine shares the memory and speaks for all of them (`ray_fleet/workers.py`).

    **Arguments**

    - `plan`: the environments.
    - `workers`: the number of worker processes, "ray", "ray:64", or None for one process per core. They start when the
      fleet is first used.
    """

    def __init__(self, plan: FleetPlan, workers: WorkersGiven):
        self._plan = plan
        self._crew = read_crew(workers)
        self._names = list(plan.names)
        self._recipe = pickle_recipe(plan.recipe, by_value=self._crew.on_ray)
        self._shared = SharedBoard()
        self._board: Board | None = None
        self._tree = ProcessTree()
        weakref.finalize(self, _dismiss_gymnasium_fleet, self._tree, self._shared, self._names)

    def with_workers(self, workers: WorkersGiven) -> "GymnasiumFleet":
        """Return a fleet of the same environments with other workers."""
        return GymnasiumFleet(self._plan, workers)

    @property
    def remark(self) -> str:
        """A sentence about the workers if they are not processes of this machine."""
        return self._crew.remark

    def board(self, trajectories: int) -> Board:
        if self._board is None and self._crew.on_ray:
            self._hire()
        return self._board or self._lay_out(self._crew.processes)

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
        # Neighbouring stations belong to different workers, so that all workers have about the same work.
        order = stations % board.together
        workers, slots = order % self._crew.processes, order // self._crew.processes
        orders = zip(stations.tolist(), slots.tolist(), members.tolist(), seeds.tolist(), strict=True)
        by_worker: list[list[Any]] = [[] for _ in range(self._crew.processes)]
        for worker, one in zip(workers.tolist(), orders, strict=True):
            by_worker[worker].append(one)
        self._do("reset", by_worker)

    def step(
        self, board: Board, stations: Int[np.ndarray, " some"], actions: Shaped[np.ndarray, "stations ..."]
    ) -> None:
        self._shared.views["actions"][:] = actions
        workers = stations % board.together % self._crew.processes
        self._do("step", [stations[workers == worker].tolist() for worker in range(self._crew.processes)])

    def camera(self, due: Callable[[int], bool], keep: Callable[[int, Picture], None]) -> GymnasiumCamera:
        """Return a fleet that steps the same environments one at a time and draws them; see `GymnasiumCamera`."""
        return GymnasiumCamera(self._names, pickle_recipe(self._plan.recipe), self._plan.member, BATCH, due, keep)

    def close(self) -> None:
        _dismiss_gymnasium_fleet(self._tree, self._shared, self._names)

    def _do(self, command: str, by_worker: Sequence[list[Any]]) -> None:
        """Send each worker its part of the work, and wait until all workers have answered."""
        if not self._tree.workers:
            self._hire()
        with self._closing_on_errors():
            workers = self._tree.workers
            busy = [number for number, part in enumerate(by_worker) if part]
            for number in busy:
                workers[number].tell((command, by_worker[number]))
            for number in busy:
                _, failure, said = workers[number].answer(workers)
                _show_gymnasium_fleet_warnings(said, self._names)
                if failure is not None:
                    raise RunError(f"{self._occupied(number)}: {failure}")

    def _lay_out(self, workers: int) -> Board:
        """Make the board for a number of workers."""
        copies = self._plan.copies or self._crew.copies(self._plan.seconds)
        # Processes of this machine share its memory, so that they hold fewer environments.
        together = workers * copies if self._crew.on_ray else min(max(BATCH, workers), workers * copies)
        member, stations = self._plan.member, -(-together // BATCH) * BATCH
        sizes = member.observation_size, member.feature_size, tuple(member.action_space.shape or ())
        self._shared.lay_out(BoardLayout.of(*sizes, stations, self._crew.processes))
        views = self._shared.views
        parts = (views[name] for name in ("observations", "particles", "rewards", "over", "cut"))
        self._board = Board(*parts, together=together, batch=BATCH)
        return self._board

    def _hire(self) -> None:
        with self._closing_on_errors():
            if self._crew.on_ray:
                self._hire_on_ray()
                return
            if self._board is None:
                self._lay_out(self._crew.processes)
            self._shared.views["now"][:] = LOADING
            module, function = run_gymnasium_worker.__module__, run_gymnasium_worker.__name__
            for number in range(self._crew.processes):
                arguments = number, self._recipe, self._shared.layout, self._shared.memory
                self._tree.start(module, function, *arguments, files=[self._shared.memory])

    def _hire_on_ray(self) -> None:
        """Start the process that speaks for the actors. It first says how many workers there can be."""
        module, function = run_ray_workers.__module__, run_ray_workers.__name__
        arguments = self._names, self._recipe, self._crew.number, ray_address(), self._shared.memory
        worker = self._tree.start(module, function, *arguments, files=[self._shared.memory])
        failure, workers = worker.answer()
        if failure is None:
            if self._board is None:
                self._lay_out(workers)
            self._shared.views["now"][:] = CREW
            worker.tell(("hire", [self._shared.layout]))
            _, failure, said = worker.answer()
            _show_gymnasium_fleet_warnings(said, self._names)
        if failure is not None:
            raise RunError(f"workers on Ray: {failure}")

    @contextmanager
    def _closing_on_errors(self) -> Iterator[None]:
        try:
            yield
        except DeadWorkerError as error:
            sentence = self._death(error)
            self.close()
            raise RunError(sentence) from error
        except BaseException:
            # After an interrupt or a failure we do not know which workers have yet to answer.
            self.close()
            raise

    def _death(self, error: DeadWorkerError) -> str:
        if self._crew.on_ray:
            return (
                f"workers on Ray: the process that speaks with them died ({error.how}), as it does if the head of the "
                "cluster is lost; continue with --resume when there is a cluster"
            )
        number = self._tree.workers.index(error.worker)
        which = "the worker process that ran it" if self._shared.now(number) >= 0 else "it"
        return (
            f"{self._occupied(number)}: {which} died ({error.how}); "
            "look at the environment or at the machine's memory, then continue with --resume"
        )

    def _occupied(self, number: int) -> str:
        """Return the environment that a worker is resetting or stepping. If there is none, return the worker."""
        now = self._shared.now(number)
        if now >= 0:
            return f"environment {name_of_member(now, self._names)}"
        if now == CREW:
            return "workers on Ray"
        return f"worker process {number}, which was {'idle' if now == NOTHING else 'loading the environments'}"


def _dismiss_gymnasium_fleet(tree: ProcessTree, shared: SharedBoard, names: list[str]) -> None:
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
        # A worker that still owes an answer has not come to its close().
        busy = not closed and not worker.owes_answer and shared.views and shared.now(number) >= 0
        if busy and worker.has_ended(wait=max(0.0, end - time.monotonic())) and not tree.killed:
            said.append((shared.now(number), f"its close() ended the worker process ({worker.how_it_ended()})", True))
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
            worker.owes_answer = False
    return found, False


def _show_gymnasium_fleet_warnings(said: Sequence[Said], names: list[str]) -> None:
    for member, text, each_member in said:
        if member == CREW:
            warnings.warn(message_as_text(text), stacklevel=2)
            continue
        # Modules that are loaded for all members may warn, too.
        name = name_of_member(member, names) if member >= 0 else ", ".join(names)
        show_environment_warnings([(name, text)], each_member=each_member)
