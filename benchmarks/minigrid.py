"""Compare our MiniGrid with Farama's: the speed as a benchmark, and the steps with `python -m benchmarks.minigrid`.

The command takes many random steps in the same maps, compares them one by one, and prints JSON.
"""

import dataclasses
import json
import multiprocessing
import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.progress import track

from alphamepol.compute.devices import device_name
from alphamepol.compute.machine import machine_cores
from alphamepol.environments.make import make
from alphamepol.environments.minigrid.minigrid import MiniGrid
from benchmarks.measuring import Measurement, Seconds, turn_by_turn

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import minigrid_oracle as oracle

ACTIONS = np.array([0.17, 0.17, 0.4, 0.07, 0.06, 0.1, 0.03])
"""The probability of each action in the comparison. Forward is the most frequent, so that the agent gets around."""
ROOM_ACTIONS = np.array([0.14, 0.14, 0.32, 0.14, 0.08, 0.15, 0.03])
"""The probabilities in the comparison of rooms: objects are handled more often, so that doors are opened."""


def equality(steps: int, seed: int) -> dict:
    """Count the steps at which our MiniGrid and Farama's differ.

    Half of the steps are in the two members, with and without goals, and half in random maps.
    """
    rng = np.random.default_rng(seed)
    members = make("minigrid")
    pairs = [(members["EasyG"], oracle.easy()), (members["AdvG"], oracle.adverse())]
    for goal_of_easy, goal_of_adverse in zip(members["EasyG"].goals, members["AdvG"].goals, strict=True):
        pairs += [
            (members["EasyG"].with_goal(jnp.array(goal_of_easy)), oracle.easy(goal_of_easy)),
            (members["AdvG"].with_goal(jnp.array(goal_of_adverse)), oracle.adverse(goal_of_adverse)),
        ]
    maps = 100
    for _ in range(maps):
        text, farama = oracle.random_layout(rng)
        member = MiniGrid(
            text, legend=oracle.LEGEND, backward=farama.backward, max_steps=farama.max_steps, size=(15, 15)
        )
        pairs.append((member, farama))
    total, ends, goals, different = 0, 0, 0, dict.fromkeys(oracle.Record._fields, 0)
    for number, (member, farama) in enumerate(track(pairs, "comparing")):
        in_members = number < len(pairs) - maps
        count = -(-steps // 2 // (len(pairs) - maps if in_members else maps))
        actions = rng.choice(7, count, p=ACTIONS).astype(np.int32)
        theirs, ours = oracle.record_farama(farama, actions), oracle.record_ours(member, actions)
        for part, differing in oracle.differences(ours, theirs).items():
            different[part] += differing
        total, ends, goals = total + count, ends + int(theirs.ended.sum()), goals + int((theirs.rewards > 0).sum())
    return {"steps": total, "maps": len(pairs), "ends": ends, "goals": goals, "steps_that_differ": different}


def equality_of_rooms(steps: int, layouts: int, seed: int) -> dict:
    """Count the steps at which our Unlock and ObstructedMaze differ from Farama's, in layouts that Farama draws."""
    rng = np.random.default_rng(seed)
    members = make("minigrid-counterexample")
    each = -(-steps // (2 * layouts))
    rewards, different = 0, dict.fromkeys(oracle.Record._fields, 0)
    for name in members.names:
        farama = oracle.rooms(name)
        for layout in track(range(layouts), f"comparing {name}"):
            farama.reset(seed=seed + layout)
            state = oracle.state_of_farama(farama, members[name].reset(key=jax.random.key(0)).cells.shape[0])
            actions = rng.choice(7, each, p=ROOM_ACTIONS).astype(np.int32)
            theirs = oracle.record_rooms_of_farama(farama, actions)
            ours = oracle.record_rooms_of_ours(members[name], state, actions)
            for part, differing in oracle.differences(ours, theirs).items():
                different[part] += differing
            rewards += int((theirs.rewards > 0).any())
    return {
        "steps": 2 * each * layouts,
        "layouts": 2 * layouts,
        "layouts_with_a_reward": rewards,
        "steps_that_differ": different,
    }


def measure(rounds: int) -> list[Measurement]:
    """Measure random steps without a policy. Every observation is made. Farama's has a process per core."""
    return [
        _measure_class(rounds, "minigrid", 244, take_farama_steps),
        # A trajectory has as many steps as in the paper, so that layouts are drawn as often as in a run.
        _measure_class(rounds, "minigrid-counterexample", 150, take_farama_steps_in_rooms),
    ]


def _measure_class(rounds: int, name: str, horizon: int, farama_steps_of: Callable[[int], None]) -> Measurement:
    together = 4096 if jax.default_backend() == "cpu" else 65_536
    farama_steps = 6000
    stacked = make(name).members
    count = iter(range(10**6))
    with multiprocessing.get_context("spawn").Pool(machine_cores()) as pool:

        def farama() -> None:
            pool.map(farama_steps_of, [farama_steps] * machine_cores(), chunksize=1)

        found = turn_by_turn(
            rounds,
            ours=lambda: _random_steps(stacked, jax.random.key(next(count)), together, horizon),
            farama=farama,
        )
    scale = together * horizon / (farama_steps * machine_cores())
    theirs = Seconds(*(scale * part for part in dataclasses.astuple(found["farama"])))
    return Measurement(f"{name}, {together * horizon} random steps", found["ours"], peers={"Farama": theirs})


def take_farama_steps(steps: int) -> None:
    """Take random steps in Farama's environments in this process, half of the steps in each member."""
    rng = np.random.default_rng(0)
    for env in (oracle.easy(), oracle.adverse()):
        env.reset(seed=0)
        for action in rng.integers(0, 7, steps // 2).tolist():
            env.step(action)


def take_farama_steps_in_rooms(steps: int) -> None:
    """Take random steps in Farama's Unlock and ObstructedMaze in this process, with a new layout every 150 steps."""
    rng = np.random.default_rng(0)
    for name in oracle.ROOMS:
        env = oracle.rooms(name)
        for number, action in enumerate(rng.integers(0, 7, steps // 2).tolist()):
            if number % 150 == 0:
                env.reset(seed=number)
            env.step(action)


@partial(jax.jit, static_argnums=(2, 3))
def _random_steps(stacked, key, together: int, steps: int):
    """Take random actions in both members. Return a sum over all observations, so that XLA computes all of them."""

    def one(number, key):
        member = jax.tree.map(lambda leaf: leaf[number], stacked)

        def act(carry, action):
            state, total = carry
            state = member.step(state, action, key=key)
            return (state, total + jnp.sum(member.observe(state), dtype=jnp.int32)), None

        start = member.reset(key=key), jnp.array(0, jnp.int32)
        return jax.lax.scan(act, start, jax.random.randint(key, (steps,), 0, 7))[0][1]

    return jax.vmap(one)(jnp.arange(together) % 2, jax.random.split(key, together))


def main(steps: int = 400_000, rooms: bool = False) -> None:
    """Compare our MiniGrid with Farama's, step by step.

    Args:
        steps: the number of steps.
        rooms: compare Unlock and ObstructedMaze, in 500 layouts each, instead of maps that are given as text.
    """
    versions = {name: version(name) for name in ("minigrid", "jax", "numpy")} | {"python": platform.python_version()}
    found = equality_of_rooms(steps, layouts=500, seed=0) if rooms else equality(steps, seed=0)
    print(json.dumps({"device": device_name(), "versions": versions} | found, indent=2))


if __name__ == "__main__":
    tyro.cli(main)
