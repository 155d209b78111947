"""A class of your own: pendulums of three masses. The agent does not observe the mass.

Train on it with `alphamepol pretrain examples/pendulums.py:pendulums`.
"""

from functools import partial

import gymnasium
import numpy as np

import alphamepol as am


def pendulum(mass: float) -> gymnasium.Env:
    """Make Gymnasium's pendulum with the given mass."""
    env = gymnasium.make("Pendulum-v1")
    env.unwrapped.m = mass
    return env


def angle_and_speed(observation: np.ndarray) -> tuple[float, float]:
    """Return the quantity to explore: the angle from hanging down, and the angular speed."""
    cosine, sine, speed = observation
    return np.arctan2(-sine, -cosine), speed


def pendulums():
    """Return the class. Light and usual pendulums are common; heavy ones, which the motor can hardly lift, are rare."""
    members = {
        "light": partial(pendulum, 0.5),
        "usual": partial(pendulum, 1.0),
        "heavy": partial(pendulum, 2.0),
    }
    names = ("angle", "speed")
    return am.gymnasium_class(members, probabilities=[0.4, 0.4, 0.2], entropy_on=angle_and_speed, entropy_names=names)
