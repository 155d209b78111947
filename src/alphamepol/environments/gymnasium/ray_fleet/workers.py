"""The workers of a fleet on a Ray cluster: one process of this machine speaks for all actors. It does not need JAX.

Ray's log lines, signal handlers and failures stay in this process. Its cluster, if it is our own, and its actors end
with it, because `ProcessTree` ends it with the main process.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np

from alphamepol.environments.environment_warnings import name_of_member
from alphamepol.environments.gymnasium.ray_fleet.actor import RESULTS, Answer, Past
from alphamepol.environments.gymnasium.ray_fleet.cluster import Actor, NoActorError, RayCluster, why_ray_failed
from alphamepol.environments.gymnasium.shared_board import BoardLayout
from alphamepol.environments.gymnasium.worker import CREW, NOTHING, Said, serve_fleet_commands

MOST_LOSSES = 3
"""The times that a worker may be lost within one command. The environment then probably ends its process itself."""
CLOSING = 1.5
"""The seconds that actors have to close their environments."""


def run_ray_workers(
    connection: Connection,
    names: list[str],
    pickled_recipe: bytes,
    number: int | None,
    address: str | None,
    memory: int,
) -> None:
    """Connect to a cluster, and carry out the commands that come through the connection, until it closes.

    The first message says why there is no connection, or how many workers there can be.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)  # Ray writes to the terminal in many ways
    cluster = RayCluster(pickled_recipe)
    try:
        failure = cluster.connect(address, number)
        connection.send((failure, 0 if failure else number or cluster.cores()))
        if failure is None:
            serve_fleet_commands(connection, RayWorkers(cluster, names, number, memory))
    finally:
        cluster.leave()


@dataclass
class Trajectory:
    """The trajectory in a slot. Its key has determined the seed and, through the policy, the actions."""

    station: int
    member: int
    seed: int
    actions: list[np.ndarray] = field(default_factory=list)
    """The actions since the reset."""


class RayWorkers:
    """The actors of a cluster, which together carry out the commands for one `Worker`.

    Slot i belongs to actor i mod n, as its row i div n. If an actor is lost, another one takes its number. The new
    actor samples a trajectory of the lost one again when the trajectory takes its next step.

    **Arguments**

    - `cluster`: the cluster.
    - `names`: the names of the members.
    - `number`: the number of workers that the user asks for.
    - `memory`: the number of the open file that the main process shares.
    """

    def __init__(self, cluster: RayCluster, names: Sequence[str], number: int | None, memory: int):
        self._cluster = cluster
        self._names = names
        self._number = number
        self._memory = memory
        self._board: dict[str, np.ndarray] = {}
        self._actors: list[Actor] = []
        self._slots: dict[int, int] = {}  # the slot of each station
        self._trajectories: dict[int, Trajectory] = {}  # the trajectory in each slot
        self._said: list[Said] = []

    def collect(self, text: str) -> None:
        """Ignore a warning of this process, which is one of Ray."""

    def unsent(self) -> list[Said]:
        """Return the warnings that the main process does not know yet."""
        said, self._said = self._said, []
        return said

    def carry_out(self, command: str, stations: list[Any]) -> str | None:
        """Carry out a command at the given stations. Return None, or a text that says why the command failed."""
        try:
            if command == "hire":
                return self._hire(*stations)
            if command == "close":
                return self._close()
            if command == "reset":
                for station, slot, member, seed in stations:
                    self._slots[station] = slot
                    self._trajectories[slot] = Trajectory(station, member, seed)
                return self._work(command, [slot for _, slot, _, _ in stations])
            failure = self._work(command, slots := [self._slots[station] for station in stations])
            for slot in slots:
                trajectory = self._trajectories[slot]
                trajectory.actions.append(self._board["actions"][trajectory.station].copy())
            return failure
        except NoActorError as error:
            return str(error)
        except self._cluster.errors as error:
            return f"the cluster failed ({why_ray_failed(error)}); continue with --resume when it works again"

    def _hire(self, layout: BoardLayout) -> str | None:
        """Start the actors. There may be fewer than were asked for."""
        self._board = layout.views(self._memory)
        asked = self._number or self._cluster.cores()
        self._actors, why = self._cluster.start(asked, layout)
        if len(self._actors) < asked:
            self._say(
                f"workers: {asked} were asked for, but only {len(self._actors)} could be started on Ray ({why}); the "
                "run goes on with these, and its results stay the same"
            )
        return None

    def _work(self, command: str, slots: Sequence[int]) -> str | None:
        """Let the actors carry out a command in some slots, however often an actor is lost. Return the first failure.

        The main process does not ask again after a failure, so that the state of the actors may then be anything.
        """
        waiting: dict[int, list[int]] = {}
        for slot in slots:
            waiting.setdefault(slot % len(self._actors), []).append(slot)
        losses = dict.fromkeys(waiting, 0)
        failure = None
        while waiting:
            lost: dict[int, Exception] = {}
            asked = {number: self._ask(command, number, part) for number, part in waiting.items()}
            for number, answer in self._cluster.answers(asked).items():
                if isinstance(answer, Exception):
                    lost[number] = answer
                    losses[number] += 1
                else:
                    failure = failure or self._take(answer, number, waiting[number])
            again = {number: waiting[number] for number in lost}
            if failure is None and lost:
                failure = self._replace(lost, again, max(losses.values()))
            waiting = {} if failure else again
        return failure

    def _ask(self, command: str, number: int, slots: Sequence[int]) -> Any:
        """Send an actor its part of a command, and the trajectories that it needs for this and does not have."""
        actor, rows = self._actors[number], [slot // len(self._actors) for slot in slots]
        mine = [self._trajectories[slot] for slot in slots]
        if command == "reset":
            orders = [(row, row, one.member, one.seed) for row, one in zip(rows, mine, strict=True)]
            return actor.handle.work.remote(command, orders, None, [])
        observations, actions = self._board["observations"], self._board["actions"]
        lost = [
            Past(row, one.member, one.seed, np.array(one.actions), observations[one.station])
            for row, one in zip(rows, mine, strict=True)
            if row not in actor.holds
        ]
        return actor.handle.work.remote(command, rows, actions[[one.station for one in mine]], lost)

    def _take(self, answer: Answer, number: int, slots: Sequence[int]) -> str | None:
        """Write the results of an actor to the board. Return the text of a failure."""
        self._said += answer.said
        if answer.failure is not None:
            self._board["now"][0] = answer.now
            return answer.failure
        self._actors[number].holds.update(slot // len(self._actors) for slot in slots)
        stations = [self._trajectories[slot].station for slot in slots]
        for name, rows in zip(RESULTS, answer.results, strict=True):
            self._board[name][stations] = rows
        return None

    def _replace(self, lost: Mapping[int, Exception], parts: Mapping[int, Sequence[int]], most: int) -> str | None:
        """Start actors in place of those that were lost, and say so. `parts` are the slots that each was busy with."""
        gone = {number: self._actors[number] for number in lost}
        if most >= MOST_LOSSES:
            return (
                f"{self._members(next(iter(parts.values())))}: the workers that ran it were lost {most} times in a row "
                f"({why_ray_failed(next(iter(lost.values())))}); look at the environment or at the memory of the "
                "nodes, then continue with --resume"
            )
        found = dict(zip(lost, self._cluster.replace(list(gone.values())), strict=True))
        for number, actor in found.items():
            self._actors[number] = actor
            count = len(parts[number])
            self._say(
                f"worker {number} on Ray was lost ({gone[number].where}) while it ran {self._members(parts[number])}: "
                f"{why_ray_failed(lost[number])}; {count} {'trajectory is' if count == 1 else 'trajectories are'} "
                f"sampled again, from the same seed and with the same actions, in a new worker ({actor.where})"
            )
        return None

    def _members(self, slots: Sequence[int]) -> str:
        members = sorted({self._trajectories[slot].member for slot in slots})
        shown = [name_of_member(member, self._names) for member in members[:3]]
        more = f" and {len(members) - 3} more" if len(members) > 3 else ""
        return f"environment{'s' * (len(members) > 1)} {', '.join(shown)}{more}"

    def _say(self, text: str) -> None:
        self._said.append((CREW, text, False))

    def _close(self) -> None:
        """Let all actors close their environments, and end them."""
        if self._actors:
            asked = {n: actor.handle.work.remote("close", [], None, []) for n, actor in enumerate(self._actors)}
            for answer in self._cluster.answers(asked, patience=CLOSING).values():
                if not isinstance(answer, Exception):
                    self._said += cast(Answer, answer).said
            self._cluster.end(self._actors)
            self._actors = []
        if self._board:
            self._board["now"][0] = NOTHING
