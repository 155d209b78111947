"""Compare actors of a Ray cluster with an ideal rate and local workers: `python -m benchmarks.ray_workers OUT.json`.

The environments sleep instead of keeping a core busy, so that there can be more workers than this machine has cores.
The cluster is on this machine. Its messages do not cross a network, but all its processes share the cores with the
policy.
"""

import json
import os
import statistics
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from alphamepol.compute.machine import machine_cores
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.host import HostClass
from benchmarks.hosts import sampling
from benchmarks.measuring import turn_by_turn

WORKERS = 8
ROUNDS = 3
SECONDS = 3.0
"""The least time of a round without any overhead."""
MESSAGES = 200
"""The number of rounds of messages whose time is measured by itself."""


class Sleeping(gymnasium.Env[np.ndarray, np.ndarray]):
    """An environment whose step sleeps for a given time."""

    observation_space = gymnasium.spaces.Box(-1, 1, (17,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (6,), np.float32)

    def __init__(self, seconds: float):
        self.seconds = seconds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 17).astype(np.float32), {}

    def step(self, action: np.ndarray):
        time.sleep(self.seconds)
        return np.tanh(np.resize(action, 17)).astype(np.float32), 0.0, False, False, {}


def measure(milliseconds: float) -> dict[str, Any]:
    """Measure the rate of steps of the whole sampler, with its policy, for environments with a step of this time."""
    make = partial(Sleeping, milliseconds / 1000)
    classes = {name: gymnasium_class({"sleeping": make}, workers=name) for name in (f"ray:{WORKERS}", WORKERS)}
    trajectories = classes[f"ray:{WORKERS}"].fleet.board(1).together
    horizon = max(10, round(1000 * SECONDS / (trajectories / WORKERS * milliseconds)))
    steps, alone = trajectories * horizon, partial(_step_alone, make(), count=round(1000 / milliseconds))
    contestants = {
        "ray" if name != WORKERS else "local": sampling(one, trajectories, horizon, (300, 300))
        for name, one in classes.items()
    }
    seconds = turn_by_turn(ROUNDS, **contestants, alone=alone)
    one_step = seconds.pop("alone").median / round(1000 / milliseconds)
    ideal = WORKERS / one_step
    messages = {number: _seconds_of_messages(classes[f"ray:{WORKERS}"], number) for number in (1, 2, 4, 8)}
    for one in classes.values():
        one.fleet.close()
    return {
        "step_ms": milliseconds,
        "step_alone_ms": 1000 * one_step,
        "workers": WORKERS,
        "environments_per_worker": trajectories // WORKERS,
        "steps": steps,
        "ideal_steps_per_second": ideal,
        **{
            name: {
                "steps_per_second": steps / one.median,
                "share_of_ideal": steps / one.median / ideal,
                "least_share": steps / one.most / ideal,
                "most_share": steps / one.least / ideal,
            }
            for name, one in seconds.items()
        },
        "message_ms": {str(number): 1000 * message for number, message in messages.items()},
    }


def _step_alone(env: gymnasium.Env[Any, Any], count: int) -> None:
    """Step one environment in this process, with nothing else between the steps.

    A sleep takes longer than it should, the more so on a busy machine. Therefore this takes part in every round.
    """
    env.reset(seed=0)
    action = np.zeros(6, np.float32)
    for _ in range(count):
        env.step(action)


def _seconds_of_messages(made: HostClass, workers: int) -> float:
    """Return the median time to reset one environment in each of some workers, which takes no time by itself."""
    board, stations, found = made.fleet.board(workers), np.arange(workers), []
    for number in range(MESSAGES):
        begin = time.perf_counter()
        made.fleet.reset(board, stations, np.zeros(workers, int), np.full(workers, number, np.uint32))
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def main(out: Path) -> None:
    found = []
    for milliseconds in (10.0, 1.0, 0.1):
        found.append(measure(milliseconds))
        print(json.dumps(found[-1]), flush=True)
    machine = {
        "command": f"python -m benchmarks.ray_workers {out}",
        "cores": machine_cores(),
        "load_average": os.getloadavg(),
        "niceness": os.nice(0),
        "versions": {name: version(name) for name in ("alphamepol", "jax", "ray")},
        "device": jax.devices()[0].platform,
    }
    out.write_text(json.dumps({"machine": machine, "measurements": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
