"""Gymnasium environments for tests. They can end early, fail, kill their process or be slow if told to.

Worker processes import the module of an environment. This one imports little, so that they start soon.
"""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Walk(gymnasium.Env[np.ndarray, np.ndarray]):
    """A walk in the plane: a step is the action, the wind, and a little noise. The reward is the distance moved east.

    **Arguments**

    - `wind`: the displacement that is added to every step.
    - `unit`: the unit of observations and actions.
    - `ends`: the probability that a step is the last one.
    - `nap`: the seconds that every step sleeps.
    - `trouble`: the failure at the 30th step: "nan", "raise" or "die". It happens only while `where` exists.
    - `where`: the path of a file.
    """

    def __init__(
        self,
        wind: tuple[float, float] = (0.0, 0.0),
        unit: float = 1.0,
        ends: float = 0.0,
        nap: float = 0.0,
        trouble: str | None = None,
        where: str | None = None,
    ):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-0.5 * unit, 0.5 * unit, (2,), np.float32)
        self.wind, self.unit, self.ends, self.nap = np.array(wind), unit, ends, nap
        self.trouble, self.where = trouble, where

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1, 1, 2), 0
        return self._observe(), {}

    def step(self, action: np.ndarray):
        assert self.action_space.contains(action)
        time.sleep(self.nap)
        self.steps += 1
        move = action / self.unit + self.wind + 0.05 * self.np_random.normal(size=2)
        self.place = self.place + move
        if self.trouble and self.steps == 30 and self.where and Path(self.where).exists():
            self._fail()
        ended = bool(self.np_random.uniform() < self.ends)
        return self._observe(), float(move[0]), ended, False, {"distance": np.linalg.norm(self.place)}

    def _observe(self) -> np.ndarray:
        return (self.unit * self.place).astype(np.float32)

    def _fail(self) -> None:
        if self.trouble == "die":
            os._exit(3)
        if self.trouble == "raise":
            raise ZeroDivisionError("on demand")
        self.place = np.full(2, np.nan)


def windy_walk(seed: int) -> Walk:
    """Return a walk whose wind depends on the seed."""
    return Walk(wind=tuple(np.random.default_rng(seed).uniform(-0.3, 0.3, 2)))


def walk_seen_in(unit: float, **more: Any) -> gymnasium.Env:
    """Return a walk whose first number is observed in another unit."""
    env, units = Walk(**more), np.array([unit, 1.0], np.float32)
    return gymnasium.wrappers.TransformObservation(env, lambda place: units * place, env.observation_space)


class Corridor(gymnasium.Env[Any, Any]):
    """A row of five places, with two actions that are counted from 1, and an observation of several parts."""

    def __init__(self) -> None:
        place = gymnasium.spaces.Discrete(5)
        clock = gymnasium.spaces.Box(0, 100, (2, 2), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"place": place, "clock": clock})
        self.action_space = gymnasium.spaces.Discrete(2, start=1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.place, self.steps = 2, 0
        return self._observe(), {}

    def step(self, action: int):
        assert self.action_space.contains(action)
        self.place = min(4, max(0, self.place + (1 if action == 2 else -1)))
        self.steps += 1
        return self._observe(), 0.0, self.place == 4, False, {}

    def _observe(self) -> dict[str, Any]:
        return {"place": self.place, "clock": np.full((2, 2), self.steps, np.float32)}


class DrawnCorridor(Corridor):
    """A corridor that can be drawn: the first pixel is the place, the second one the step.

    **Arguments**

    - `picture`: the thing that `render` returns: "good", "grey" for a picture without colours, or "raise".
    """

    metadata = {"render_modes": ["human", "rgb_array"]}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(self, picture: str = "good") -> None:
        super().__init__()
        self.picture = picture

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        if self.picture == "raise":
            raise ModuleNotFoundError("No module named 'pygame'")
        pixels = np.zeros((6, 8, 3), np.uint8)
        pixels[0, :2] = np.array([[self.place], [self.steps]])
        return pixels[..., 0] if self.picture == "grey" else pixels


class Painting(gymnasium.Env[np.ndarray, np.ndarray]):
    """An environment whose actions move a bright patch over an image. Its episodes end after 5 steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (9, 8, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, stride: int = 1):
        self.stride = stride

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self._paint(), {}

    def step(self, action):
        self.place, self.steps = (self.place + self.stride * (action - 1)) % 7, self.steps + 1
        return self._paint(), 0.0, self.steps % 5 == 0, False, {}

    def _paint(self):
        image = np.zeros((9, 8, 1), np.uint8)
        image[self.place : self.place + 2, self.place : self.place + 1] = 255
        return image
