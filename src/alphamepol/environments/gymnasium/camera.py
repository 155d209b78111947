"""A fleet of one environment of a Gymnasium class, which is drawn while it is stepped. A worker process runs it."""

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from jaxtyping import Int, Shaped, UInt8, UInt32

from alphamepol.compute.process_tree import DeadWorkerError, ProcessTree
from alphamepol.environments.environment_warnings import (
    collect_environment_warnings,
    name_of_member,
    show_environment_warnings,
)
from alphamepol.environments.gymnasium.worker import (
    Recipe,
    Station,
    close_gymnasium_environment,
    describe_environment_error,
)
from alphamepol.environments.host import Board, HostMember
from alphamepol.errors import InputError, RunError
from alphamepol.files.names import WIDTH, name_as_text

Picture = UInt8[np.ndarray, "_ _ 3"]
RGB = "rgb_array"
"""Gymnasium's name of the render mode in which environments return pictures."""
PATIENCE = 2.0
"""The seconds that the worker has to close its environment."""


class GymnasiumCamera:
    """A fleet that steps one environment, and draws the first episode.

    **Arguments**

    - `names`: the names of the members.
    - `pickled_recipe`: the functions that make the environments (a pickled `Recipe`).
    - `member`: the description of a member.
    - `stations`: the rows of the board. Only the first one is used. The policy computes the same bits as with another
      fleet if there are as many rows.
    - `due`: a function that tells from the number of a step whether its picture is wanted. The picture of the last
      state is always kept.
    - `keep`: a function that is called with the number of each drawn step, and its picture.
    """

    def __init__(
        self,
        names: list[str],
        pickled_recipe: bytes,
        member: HostMember,
        stations: int,
        due: Callable[[int], bool],
        keep: Callable[[int, Picture], None],
    ):
        self._names, self._recipe, self._due, self._keep = names, pickled_recipe, due, keep
        self._board = Board.empty(stations, member, together=1)
        self._tree = ProcessTree()
        self._member, self._step, self._drawn = 0, 0, -1
        self._filming = True

    def board(self, trajectories: int) -> Board:
        return self._board

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
        if self._tree.workers:  # the first episode has ended
            self.finish()
        self._member = int(members[0])
        self._ask("reset", (self._member, int(seeds[0])))

    def step(
        self, board: Board, stations: Int[np.ndarray, " some"], actions: Shaped[np.ndarray, "stations ..."]
    ) -> None:
        self._step += 1
        self._ask("step", actions[0])

    def finish(self) -> None:
        """Draw the state that is there now, if it is the last one of the first episode and has no picture yet."""
        if self._filming and self._drawn < self._step:
            self._ask("draw", None, draw=True)
        self._filming = False

    def close(self) -> None:
        """End the worker process."""
        self._tree.end(PATIENCE)

    def _ask(self, command: str, argument: Any, *, draw: bool = False) -> None:
        try:
            if not self._tree.workers:
                self._tree.start(__name__, run_gymnasium_camera.__name__, self._recipe)
            (worker,) = self._tree.workers
            worker.tell((command, argument, self._filming and (draw or self._due(self._step))))
            failure, values, picture, said = worker.answer()
        except DeadWorkerError as error:
            raise RunError(f"environment {self._shown}: the worker process that ran it died ({error.how})") from error
        show_environment_warnings((self._shown, text) for text in said)
        if failure is not None:
            cannot_draw, sentence = failure
            raise (InputError if cannot_draw else RunError)(f"environment {self._shown}: {sentence}")
        if values is not None:
            board = self._board
            (board.observations[0], board.particles[0], board.rewards[0], board.over[0], board.cut[0]) = values
        if picture is not None:
            self._drawn = self._step
            self._keep(self._step, picture)

    @property
    def _shown(self) -> str:
        return name_as_text(name_of_member(self._member, self._names), WIDTH)


class CannotDrawError(ValueError):
    """The error of an environment that returns no picture."""


def run_gymnasium_camera(connection: Connection, pickled_recipe: bytes) -> None:
    """Carry out the commands that come through the connection, until it closes."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # else pygame complains that it finds no display
    stage = _Stage(pickled_recipe)
    try:
        while True:
            said: list[str] = []
            with collect_environment_warnings(said.append):
                command, argument, draw = connection.recv()
                answer = stage.carry_out(command, argument, draw, said.append)
            connection.send((*answer, said))
    except (EOFError, OSError):
        stage.close()


class _Stage:
    """The environment of the worker process."""

    def __init__(self, pickled_recipe: bytes):
        self._pickled = pickled_recipe
        self._station: Station | None = None

    def carry_out(self, command: str, argument: Any, draw: bool, tell: Callable[[str], None]) -> tuple[Any, Any, Any]:
        """Return the failure, if any, the values of the board after the command, and the picture."""
        try:
            values = None
            if command == "reset":
                member, seed = argument
                station = self._station = self._station or self._make(member, tell)
                values = (*station.reset(seed), 0.0, False, False)
            station = self._station
            assert station is not None
            if command == "step":
                values = station.step(argument)
            return None, values, _picture_of_gymnasium_camera(station.env) if draw else None
        except CannotDrawError as error:
            return (True, str(error)), None, None
        except BaseException as error:  # also sys.exit
            return (False, f"it failed in {command} ({describe_environment_error(error)})"), None, None

    def _make(self, member: int, tell: Callable[[str], None]) -> Station:
        recipe: Recipe = cloudpickle.loads(self._pickled)
        env = recipe.make(member)
        if env.render_mode != RGB:
            known = env.metadata.get("render_modes") or []
            if RGB not in known:
                modes = ", ".join(map(str, known)) or "none"
                raise CannotDrawError(f"it cannot be drawn: its render modes are {modes}; pictures need {RGB}")
            # The functions of a class make environments without pictures, which training does not need.
            env.unwrapped.render_mode = RGB
        return Station(env, recipe, tell)

    def close(self) -> None:
        if self._station is not None:
            close_gymnasium_environment(self._station.env, lambda text: None)


def _picture_of_gymnasium_camera(env: gymnasium.Env) -> Picture:
    try:
        picture = np.asarray(env.render())
    except BaseException as error:  # such as a library that is not installed, or OpenGL that does not work
        raise CannotDrawError(f"it cannot be drawn ({describe_environment_error(error)})") from error
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or 0 in picture.shape:
        raise CannotDrawError(
            f"it cannot be drawn: render() returned {picture.dtype}{list(picture.shape)}; a picture is uint8 of shape "
            "(height, width, 3)"
        )
    return picture
