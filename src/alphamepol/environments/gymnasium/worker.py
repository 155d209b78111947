"""The worker process of a Gymnasium class. It holds environments and steps them on request, and does not need JAX."""

import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol, runtime_checkable

import cloudpickle
import gymnasium
import numpy as np

from alphamepol.environments.environment_warnings import collect_environment_warnings
from alphamepol.environments.gymnasium.observations import ObservationError, ObservationReader
from alphamepol.environments.gymnasium.shared_board import BoardLayout

EntropyOn = Callable[..., Any] | int | Sequence[int] | np.ndarray | slice | None
"""The quantity whose entropy is maximised: components of the flat observation, or a function of it or of `info`."""

NOTHING, LOADING, CREW = -1, -2, -3
"""The numbers in place of a member's number: for a worker that is idle, for one that is starting, and for the workers
themselves, whose warnings are always shown."""

MOST_HELD = 64
"""The most environments that a slot of a worker keeps open. A class may have any number of members."""

Said = tuple[int, str, bool]
"""A warning: the number of the member, the text, and True if each member shall be warned of."""


@dataclass(frozen=True)
class Recipe:
    """The functions that make the environments of a class and compute their particles."""

    makers: Mapping[str, Callable[[], gymnasium.Env]]
    particle: "Particle"
    unnamed: Callable[[int], gymnasium.Env] | None = None
    """The function that makes a member without a name from its number; None if all members have names."""

    def make(self, member: int) -> gymnasium.Env:
        """Make the environment of a member. The first numbers are those of members with names."""
        if member < len(self.makers):
            return list(self.makers.values())[member]()
        assert self.unnamed is not None
        return self.unnamed(member)


class Particle:
    """The function that computes the particle of a step: the vector that counts for the entropy.

    It is called with the observation as the environment returns it, the flat observation, and the `info` of the step.
    """

    def __init__(self, entropy_on: EntropyOn = None):
        self.entropy_on = entropy_on
        # Look up the parameters of the function only once: this takes a quarter of the step of a cheap environment.
        self.arguments = _particle_arguments_in_worker(entropy_on) if callable(entropy_on) else ()

    def __call__(self, observation: Any, flat: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        try:
            if self.entropy_on is None:
                return flat
            if not callable(self.entropy_on):
                return np.atleast_1d(flat[self.entropy_on])
            given = {name: info if name == "info" else observation for name in self.arguments}
            found = self.entropy_on(**given) if given else self.entropy_on(observation)
            return np.atleast_1d(np.asarray(found, np.float32)).ravel()
        except BaseException as error:  # also sys.exit
            raise ParticleError(f"entropy_on failed ({describe_environment_error(error)})") from error


class ParticleError(ValueError):
    """The error of a particle that cannot be computed."""


def _particle_arguments_in_worker(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments to call a function with: `info`, and other parameters without a default.

    The result is empty if the function has no parameter `info`. Then its only argument is the observation.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()  # a callable without a signature, such as operator.itemgetter
    if "info" not in [parameter.name for parameter in parameters]:
        return ()
    needed = [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]
    return tuple({"info": None} | dict.fromkeys(needed))


class Station:
    """One environment with its current episode. `tell` is called with sentences for the user."""

    def __init__(self, env: gymnasium.Env, recipe: Recipe, tell: Callable[[str], None]):
        self.env = env
        self.recipe = recipe
        self.reader = ObservationReader(env.observation_space, tell)
        self.particle_size: int | None = None

    def reset(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Begin an episode. Return the flat observation and the particle of its start."""
        self.seed, self.steps = seed, 0
        observation, info = self.env.reset(seed=seed)
        flat = self._flatten(observation)
        try:
            particle = self.recipe.particle(observation, flat, info)
        except ParticleError:
            particle = np.array(np.nan)  # `info` of the start may lack what `info` of a step has
        return flat, particle

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        """Take a step. Return the flat observation, the particle, the reward, and two flags.

        The first flag is true if the episode has ended, the second if it was truncated.
        """
        self.steps += 1
        observation, reward, terminated, truncated, info = self.env.step(self._applied(action))
        flat = self._flatten(observation)
        particle = self.recipe.particle(observation, flat, info)
        self.particle_size = self.particle_size or particle.size
        if particle.size != self.particle_size:
            raise ParticleError(f"entropy_on gave {particle.size} numbers, but {self.particle_size} before")
        if not np.all(np.isfinite(particle)):
            raise NotFiniteError("entropy_on gave a particle", particle, self)
        reward = float(reward)
        if not math.isfinite(reward):
            raise NotFiniteError("it gave a reward", np.array(reward), self)
        return flat, particle, reward, bool(terminated), bool(truncated)

    def _flatten(self, observation: Any) -> np.ndarray:
        flat = self.reader.flatten(observation)
        if not self.reader.contains(flat):
            if not np.all(np.isfinite(flat)):
                raise NotFiniteError("it gave an observation", flat, self)
            self.reader.tell_outside(flat)
        return flat

    def _applied(self, action: np.ndarray) -> Any:
        """Return the action as the environment expects it: within its bounds and in its shape."""
        space = self.env.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(action) + int(space.start)
        assert isinstance(space, gymnasium.spaces.Box)
        return np.clip(action.reshape(space.shape), space.low, space.high).astype(space.dtype)


class NotFiniteError(ArithmeticError):
    """The error of an environment that gave a value that is not finite."""

    def __init__(self, what: str, given: np.ndarray, station: Station):
        number = int(np.argmin(np.isfinite(given).ravel()))
        super().__init__(
            f"{what} that is not finite ({given.ravel()[number]} at index {number}), after reset(seed={station.seed}) "
            f"and {station.steps} steps"
        )


def close_gymnasium_environment(env: gymnasium.Env, tell: Callable[[str], None]) -> None:
    """Close an environment. An error is only told, because all steps have been taken."""
    try:
        env.close()
    except BaseException as error:  # also sys.exit
        tell(f"its close() failed ({describe_environment_error(error)})")


def describe_environment_error(error: BaseException) -> str:
    """Return the type and the message of an error."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def run_gymnasium_worker(
    connection: Connection, number: int, pickled_recipe: bytes, layout: BoardLayout, memory: int
) -> None:
    """Carry out the commands that come through the connection, until it closes."""
    serve_fleet_commands(connection, Worker(number, pickled_recipe, layout.views(memory)))


@runtime_checkable
class Serves(Protocol):
    """The interface of the object that carries out commands, in a worker process or for a whole cluster."""

    def carry_out(self, command: str, stations: list[Any]) -> str | None:
        """Carry out a command at the given stations. Return None, or a text that says why the command failed."""
        ...

    def collect(self, text: str) -> None:
        """Remember a warning."""
        ...

    def unsent(self) -> list[Said]:
        """Return the warnings that the main process does not know yet."""
        ...


def serve_fleet_commands(connection: Connection, worker: Serves) -> None:
    """Let a worker carry out the commands that come through the connection, until it closes."""
    try:
        with collect_environment_warnings(worker.collect):
            command = ""
            while command != "close":
                command, stations = connection.recv()
                connection.send((command, worker.carry_out(command, stations), worker.unsent()))
    except (EOFError, OSError):
        worker.carry_out("close", [])  # the main process has closed the connection, or has died
    sys.stdout.flush()


class Worker:
    """The environments of one worker process.

    **Arguments**

    - `number`: the number of the worker.
    - `pickled_recipe`: the recipe of the environments.
    - `board`: the arrays that all workers share.
    """

    def __init__(self, number: int, pickled_recipe: bytes, board: Mapping[str, np.ndarray]):
        self._number = number
        self._pickled = pickled_recipe
        self._board = board
        self._recipe: Recipe | None = None
        self._held: dict[int, dict[int, Station]] = {}  # for each slot, environments by member, the latest one last
        self._at: dict[int, tuple[int, Station]] = {}  # the member and the environment at each station
        self._said: dict[str, Said] = {}  # the warnings, each with the member that it came from first
        self._sent = 0  # the number of warnings that the main process knows
        self._remarks: list[Said] = []  # our own warnings, which the main process does not know yet

    def carry_out(self, command: str, stations: list[Any]) -> str | None:
        """Carry out a command at the given stations. Return None, or a text that says why the command failed."""
        try:
            for one in stations:
                self._reset(*one) if command == "reset" else self._step(one)
            if command == "close":
                self._close()
            self._board["now"][self._number] = NOTHING
        except (NotFiniteError, ParticleError, ObservationError) as error:
            return str(error)
        except BaseException:  # also sys.exit
            return f"it failed in {command}:\n{traceback.format_exc()}"

    def collect(self, text: str) -> None:
        """Remember a warning."""
        self._said.setdefault(text, (int(self._board["now"][self._number]), text, False))

    def unsent(self) -> list[Said]:
        """Return the warnings that the main process does not know yet."""
        unsent = [*list(self._said.values())[self._sent :], *self._remarks]
        self._sent, self._remarks = len(self._said), []
        return unsent

    def _reset(self, station: int, slot: int, member: int, seed: int) -> None:
        board = self._board
        recipe = self._recipe = self._recipe or cloudpickle.loads(self._pickled)
        board["now"][self._number] = member
        at = self._hold(slot, member, recipe)
        self._at[station] = member, at
        observation, particle = at.reset(seed)
        board["observations"][station], board["particles"][station] = observation, particle
        board["rewards"][station], board["over"][station], board["cut"][station] = 0.0, False, False

    def _hold(self, slot: int, member: int, recipe: Recipe) -> Station:
        """Return the environment of a member in a slot. It is made if it is not there.

        A stream of members seldom meets a member again, so that the slot then keeps no other environment.
        """
        held = self._held.setdefault(slot, {})
        if member not in held and len(held) >= (MOST_HELD if recipe.unnamed is None else 1):
            oldest = next(iter(held))
            self._board["now"][self._number] = oldest
            close_gymnasium_environment(held.pop(oldest).env, partial(self._remark, oldest))
            self._board["now"][self._number] = member
        at = held.pop(member, None) or Station(recipe.make(member), recipe, partial(self._remark, member))
        held[member] = at
        return at

    def _step(self, station: int) -> None:
        board = self._board
        board["now"][self._number], at = self._at[station]
        observation, particle, reward, over, cut = at.step(board["actions"][station])
        board["observations"][station], board["particles"][station] = observation, particle
        board["rewards"][station], board["over"][station], board["cut"][station] = reward, over, cut

    def _close(self) -> None:
        for member, station in [one for held in self._held.values() for one in held.items()]:
            self._board["now"][self._number] = member
            close_gymnasium_environment(station.env, partial(self._remark, member))
        self._held.clear()

    def _remark(self, member: int, text: str) -> None:
        self._remarks.append((member, text, True))
