"""The worker process of a Gymnasium class. It holds environments and steps them on request, and does not need JAX."""

import inspect
import math
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from ctypes import Array as CArray
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatdim, flatten

from alphamepol.environments.environment_warnings import collect_environment_warnings

EntropyOn = Callable[..., Any] | int | Sequence[int] | np.ndarray | slice | None
"""The quantity whose entropy is maximised: components of the flat observation, or a function of it or of `info`."""

NOTHING = -1
"""The number in place of a station's number for a worker that is idle."""


@dataclass(frozen=True)
class Recipe:
    """The functions that make the environments of a class and compute their particles."""

    makers: Mapping[str, Callable[[], gymnasium.Env]]
    particle: "Particle"


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
        except Exception as error:
            raise ParticleError(f"entropy_on failed ({type(error).__name__}: {error})") from error


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
    """One environment with its current episode."""

    def __init__(self, env: gymnasium.Env, recipe: Recipe):
        self.env = env
        self.recipe = recipe
        self.size = flatdim(env.observation_space)
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
        flat = np.asarray(flatten(self.env.observation_space, observation), np.float32).ravel()
        if flat.size != self.size:
            raise ValueError(f"it gave an observation of {flat.size} numbers, its space has {self.size}")
        if not np.all(np.isfinite(flat)):
            raise NotFiniteError("it gave an observation", flat, self)
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


@dataclass(frozen=True)
class SharedBoard:
    """The arrays in shared memory. Their rows are stations, except that the rows of `now` are workers."""

    arrays: Mapping[str, CArray]
    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]

    def views(self) -> dict[str, np.ndarray]:
        """Return NumPy arrays of the same memory."""
        return {
            name: np.frombuffer(memoryview(array), self.types[name]).reshape(self.shapes[name])
            for name, array in self.arrays.items()
        }


def run_gymnasium_worker(connection: Connection, number: int, pickled_recipe: bytes, shared: SharedBoard) -> None:
    """Carry out the commands that come through the connection, until it closes."""
    # Ctrl-C reaches every process of a terminal. The main process decides when the workers stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    board = shared.views()
    recipe: Recipe | None = None
    held: dict[tuple[int, int], Station] = {}  # one environment for each slot and member
    at: dict[int, Station] = {}  # the environment at each station, by its number
    said: dict[str, int] = {}  # the warnings, each with the number of the station that it came from first
    sent = 0  # the number of warnings that the main process knows

    def begin(station: int, slot: int, member: int, seed: int) -> None:
        board["now"][number] = station
        if (slot, member) not in held:
            assert recipe is not None
            held[slot, member] = Station(list(recipe.makers.values())[member](), recipe)
        at[station] = held[slot, member]
        observation, particle = at[station].reset(seed)
        board["observations"][station], board["particles"][station] = observation, particle
        board["rewards"][station], board["over"][station], board["cut"][station] = 0.0, False, False

    def step(station: int) -> None:
        board["now"][number] = station
        observation, particle, reward, over, cut = at[station].step(board["actions"][station])
        board["observations"][station], board["particles"][station] = observation, particle
        board["rewards"][station], board["over"][station], board["cut"][station] = reward, over, cut

    try:
        with collect_environment_warnings(lambda text: said.setdefault(text, int(board["now"][number]))):
            while True:
                command, stations = connection.recv()
                failure = None
                try:
                    if recipe is None:
                        recipe = cloudpickle.loads(pickled_recipe)
                    for one in stations:
                        begin(*one) if command == "reset" else step(one)
                    board["now"][number] = NOTHING
                except (NotFiniteError, ParticleError) as error:
                    failure = str(error)
                except Exception:
                    failure = f"it failed in {command}:\n{traceback.format_exc()}"
                connection.send((failure, list(said.items())[sent:]))
                sent = len(said)
    except (EOFError, OSError):
        pass  # the main process has closed the connection, or has died
    finally:
        for station in held.values():
            station.env.close()
        sys.stdout.flush()
