"""Compare the speed of sampling host environments with the speed of these environments by themselves."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.compute.machine import machine_cores
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.host import HostClass
from alphamepol.policies.policy import stack_policies
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.sampling import host_sampler as host
from alphamepol.settings.policy import PolicySettings
from benchmarks.measuring import Measurement, turn_by_turn

MILLISECONDS = 1.0
"""The duration of a step of the Gymnasium environment, in milliseconds."""


def measure(rounds: int) -> list[Measurement]:
    """Measure a class with one worker per core, and AsyncVectorEnv with one environment per core.

    Each worker holds as many copies of the environment as `gymnasium_class` chooses.
    """
    workers, horizon = machine_cores(), int(1000 / MILLISECONDS)
    make = partial(Busy, MILLISECONDS / 1000)
    ours = gymnasium_class({"busy": make}, workers=workers)
    theirs = gymnasium.vector.AsyncVectorEnv([make] * workers)
    theirs.reset(seed=0)
    together = ours.fleet.board(1).together

    def asynchronous() -> None:
        for _ in range(horizon * together // workers):
            theirs.step(theirs.action_space.sample())

    seconds = turn_by_turn(rounds, ours=sampling(ours, together, horizon, (300, 300)), AsyncVectorEnv=asynchronous)
    theirs.close()
    steps = together * horizon
    floor = steps * MILLISECONDS / 1000 / workers
    name = f"{steps} steps of {MILLISECONDS:g} ms in Gymnasium, with the policy"
    peers = {"AsyncVectorEnv, random actions": seconds["AsyncVectorEnv"]}
    return [Measurement(name, seconds["ours"], floor, "the steps alone, over all cores", peers)]


class Busy(gymnasium.Env[np.ndarray, np.ndarray]):
    """An environment whose step keeps a core busy for a given time."""

    observation_space = gymnasium.spaces.Box(-1, 1, (17,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (6,), np.float32)

    def __init__(self, seconds: float):
        self.seconds = seconds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: np.ndarray):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return np.tanh(np.resize(action, 17)).astype(np.float32), 0.0, False, False, {}


def sampling(
    environment_class: HostClass, trajectories: int, horizon: int, hidden: tuple[int, ...]
) -> Callable[[], None]:
    """Return a function that runs the whole sampler, with its policy."""
    member = environment_class[0]
    shape = PolicyShape.of_spaces(member.observation_space, member.action_space)
    policy = stack_policies([fresh_policy(shape, PolicySettings(hidden), 0, key=jax.random.key(0))])
    members = jnp.zeros((1, trajectories), int)

    def sample() -> None:
        host.collect_on_host(policy, environment_class, members, batch=1, horizon=horizon, keys=jax.random.key(1)[None])

    return sample
