"""Two carts, as a class of Gymnasium environments in a file of the user's own: `carts.py:carts`."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np

import alphamepol as am


class Cart(gymnasium.Env):
    """A cart on a line, which actions push."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, mass: float):
        self.mass = mass

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.state, {}

    def step(self, action: np.ndarray):
        position, speed = self.state
        speed = np.clip(speed + float(action[0]) / self.mass, -1, 1)
        self.state = np.array([np.clip(position + speed, -10, 10), speed], np.float32)
        return self.state, float(position), False, False, {}


def carts() -> am.HostClass:
    members = {"light": partial(Cart, 1.0), "heavy": partial(Cart, 3.0)}
    return am.gymnasium_class(members, [0.5, 0.5], name="carts", workers=2)
