"""A worker process of a Gymnasium class: it holds environments and steps them when told to. It does not need JAX."""

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
from gymnasium.spaces.utils import flatten

EntropyOn = Callable[..., Any] | Sequence[int] | slice | None
"""What the entropy is taken of: some numbers of the flat observation, or a function of the observation or `info`."""

NOTHING = -1
"""In place of the number of a station, while none is being stepped."""


@dataclass(frozen=True)
class Recipe:
    """How the environments of a class are made and read."""

    makers: Mapping[str, Callable[[], gymnasium.Env]]
    entropy_on: EntropyOn = None

    def particle(self, observation: Any, flat: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        """The vector whose entropy counts, of a state that shows this observation, flat observation and info."""
        if self.entropy_on is None:
            return flat
        if not callable(self.entropy_on):
            return flat[self.entropy_on if isinstance(self.entropy_on, slice) else list(self.entropy_on)]
        names = list(inspect.signature(self.entropy_on).parameters)
        if names == ["info"]:
            found = self.entropy_on(info)
        elif "info" in names:
            found = self.entropy_on(observation, info=info)
        else:
            found = self.entropy_on(observation)
        return np.atleast_1d(np.asarray(found, np.float32)).ravel()


class Station:
    """One environment and its episode."""

    def __init__(self, env: gymnasium.Env, recipe: Recipe):
        self.env = env
        self.recipe = recipe

    def reset(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The flat observation and the particle of the start."""
        self.seed, self.steps = seed, 0
        observation, info = self.env.reset(seed=seed)
        flat = self._flatten(observation)
        try:
            particle = self.recipe.particle(observation, flat, info)
        except KeyError:
            particle = np.array(np.nan)  # what `info` tells of steps it need not tell of the start
        return flat, particle

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        """The flat observation, the particle, the reward, whether the episode is over, and whether it was cut."""
        self.steps += 1
        observation, reward, terminated, truncated, info = self.env.step(self._applied(action))
        flat = self._flatten(observation)
        particle = self.recipe.particle(observation, flat, info)
        if not np.all(np.isfinite(particle)):
            raise NotFiniteError("entropy_on gave a particle", particle, self)
        reward = float(reward)
        if not math.isfinite(reward):
            raise NotFiniteError("it gave a reward", np.array(reward), self)
        return flat, particle, reward, bool(terminated), bool(truncated)

    def _flatten(self, observation: Any) -> np.ndarray:
        flat = np.asarray(flatten(self.env.observation_space, observation), np.float32).ravel()
        if not np.all(np.isfinite(flat)):
            raise NotFiniteError("it gave an observation", flat, self)
        return flat

    def _applied(self, action: np.ndarray) -> Any:
        """The action as the environment takes it: within its bounds, in its shape."""
        space = self.env.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(action) + int(space.start)
        assert isinstance(space, gymnasium.spaces.Box)
        return np.clip(action.reshape(space.shape), space.low, space.high).astype(space.dtype)


class NotFiniteError(ArithmeticError):
    """An environment gave something that is not a number."""

    def __init__(self, what: str, given: np.ndarray, station: Station):
        number = int(np.argmin(np.isfinite(given).ravel()))
        super().__init__(
            f"{what} that is not finite ({given.ravel()[number]} as number {number}), after reset(seed={station.seed}) "
            f"and {station.steps} steps"
        )


@dataclass(frozen=True)
class SharedBoard:
    """The arrays that all processes see; rows are stations, in `now` workers."""

    arrays: Mapping[str, CArray]
    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]

    def views(self) -> dict[str, np.ndarray]:
        """The same memory as NumPy arrays."""
        return {
            name: np.frombuffer(memoryview(array), self.types[name]).reshape(self.shapes[name])
            for name, array in self.arrays.items()
        }


def work(connection: Connection, number: int, pickled_recipe: bytes, shared: SharedBoard) -> None:
    """Do what comes through the connection until it closes."""
    # Ctrl-C reaches every process of a terminal; the one that leads says when it is over.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    board = shared.views()
    recipe: Recipe | None = None
    held: dict[tuple[int, int], Station] = {}  # by slot and member: one environment each
    at: dict[int, Station] = {}  # by the number of the station

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
        while True:
            command, stations = connection.recv()
            reply = None
            try:
                if recipe is None:
                    recipe = cloudpickle.loads(pickled_recipe)
                for one in stations:
                    begin(*one) if command == "reset" else step(one)
                board["now"][number] = NOTHING
            except NotFiniteError as error:
                reply = str(error)
            except Exception:
                reply = f"it failed in {command}:\n{traceback.format_exc()}"
            connection.send(reply)
    except (EOFError, OSError):
        pass  # nobody leads any more
    finally:
        for station in held.values():
            station.env.close()
        sys.stdout.flush()
