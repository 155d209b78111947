"""The actor of a Ray cluster that holds environments and steps them on request. It does not need JAX."""

import os
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamepol import __version__
from alphamepol.environments.environment_warnings import collect_environment_warnings
from alphamepol.environments.gymnasium.shared_board import BoardLayout
from alphamepol.environments.gymnasium.worker import Said, Worker

RESULTS = ("observations", "particles", "rewards", "over", "cut")
"""The arrays of the board that a worker writes."""


class Introduction(NamedTuple):
    """The place and the version of an actor."""

    node: str
    """The id of the node in the cluster."""
    host: str
    process: int
    version: str


class Past(NamedTuple):
    """A trajectory that another worker has lost: everything that is needed to sample it again."""

    row: int
    """The row of the actor's board."""
    member: int
    seed: int
    actions: np.ndarray
    """The actions since the reset, one in each row."""
    observation: np.ndarray
    """The last observation, which must come out again."""


class Answer(NamedTuple):
    """The answer to a command."""

    failure: str | None
    now: int
    """The number of the member that failed."""
    said: list[Said]
    results: tuple[np.ndarray, ...]
    """The rows of the arrays `RESULTS`, in the order of the command."""


class RayActor:
    """The environments of one actor. They have a row each, on a board of their own.

    **Arguments**

    - `pickled_recipe`: the recipe of the environments.
    - `layout`: the arrays of the board, which gets more rows when they are needed.
    """

    def __init__(self, pickled_recipe: bytes, layout: BoardLayout):
        self._layout = layout
        self._board = layout.arrays()
        self._worker = Worker(0, pickled_recipe, self._board)
        self._warnings = collect_environment_warnings(self._worker.collect)
        self._warnings.__enter__()  # until the actor ends

    def introduce(self) -> Introduction:
        """Return the place and the version of this actor."""
        import ray

        return Introduction(ray.get_runtime_context().get_node_id(), socket.gethostname(), os.getpid(), __version__)

    def work(self, command: str, orders: list[Any], actions: np.ndarray | None, lost: Sequence[Past]) -> Answer:
        """Sample lost trajectories again, and then carry out a command of `Worker`."""
        rows = [one if isinstance(one, int) else one[0] for one in orders]
        self._make_room(max(rows, default=0) + 1)
        failure = next(filter(None, map(self._repeat, lost)), None)
        if failure is None:
            if actions is not None:
                self._board["actions"][rows] = actions
            failure = self._worker.carry_out(command, orders)
        results = tuple(self._board[name][rows] for name in RESULTS)
        return Answer(failure, int(self._board["now"][0]), self._worker.unsent(), results)

    def _make_room(self, rows: int) -> None:
        before = len(self._board["over"])
        if rows > before:
            for name, array in self._layout.resized(rows).arrays().items():
                if name != "now":
                    array[:before] = self._board[name]
                    self._board[name] = array

    def _repeat(self, past: Past) -> str | None:
        """Sample a trajectory again. Return None, or a text that says why this failed."""
        failure = self._worker.carry_out("reset", [(past.row, past.row, past.member, past.seed)])
        for action in past.actions:
            self._board["actions"][past.row] = action
            failure = failure or self._worker.carry_out("step", [past.row])
        if failure is None and not np.array_equal(self._board["observations"][past.row], past.observation):
            self._board["now"][0] = past.member
            failure = (
                f"a worker was lost, and the same seed ({past.seed}) and the same {len(past.actions)} actions now gave "
                "another observation than before; all its randomness must come from its np_random. Continue with "
                "--resume"
            )
        return failure
