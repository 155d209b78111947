"""Our MiniGrid beside Farama's.

    python -m benchmarks.minigrid equality    many random steps in the same maps, compared one by one
    python -m benchmarks.minigrid speed       steps per second with random actions, turn by turn in one run

Both print JSON at the end.
"""

import json
import multiprocessing
import platform
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.progress import track

from alphamepol.environments.minigrid import MiniGrid
from alphamepol.environments.registry import make
from alphamepol.machine import cores
from alphamepol.runs.folder import device_name

sys.path.append(str(Path(__file__).parents[1] / "tests" / "environments"))
import minigrid_oracle as oracle

ACTIONS = np.array([0.17, 0.17, 0.4, 0.07, 0.06, 0.1, 0.03])
"""How often each is taken in the comparison: more steps forward than uniform, so that the agent gets around."""


def equality(steps: int, seed: int) -> dict:
    """Half of the steps in the two members, with and without goals, half in random maps; at how many things differ."""
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


def speed(rounds: int) -> dict:
    """Medians of steps per second: Farama's on one core and on all, ours with many environments at once."""
    together = 4096 if jax.default_backend() == "cpu" else 65_536
    farama_steps = 4000
    rates: dict[str, list[float]] = {"farama_one_core": [], "farama_all_cores": [], "ours": []}
    stacked = make("minigrid").members
    jax.block_until_ready(_random_steps(stacked, jax.random.key(0), together, 150))
    with multiprocessing.get_context("spawn").Pool(cores()) as pool:
        pool.map(farama_rate, [10] * cores(), chunksize=1)
        for number in range(rounds):
            rates["farama_one_core"].append(pool.map(farama_rate, [farama_steps], chunksize=1)[0])
            begin = time.perf_counter()
            pool.map(farama_rate, [farama_steps] * cores(), chunksize=1)
            rates["farama_all_cores"].append(cores() * farama_steps / (time.perf_counter() - begin))
            begin = time.perf_counter()
            jax.block_until_ready(_random_steps(stacked, jax.random.key(number), together, 150))
            rates["ours"].append(together * 150 / (time.perf_counter() - begin))
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    return {
        "cores": cores(),
        "environments_at_once": together,
        "steps_per_second": medians,
        "times_one_core": medians["ours"] / medians["farama_one_core"],
        "times_all_cores": medians["ours"] / medians["farama_all_cores"],
    }


def farama_rate(steps: int) -> float:
    """Of one environment in this process; half of the steps in each member."""
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    for env in (oracle.easy(), oracle.adverse()):
        env.reset(seed=0)
        for action in rng.integers(0, 7, steps // 2).tolist():
            env.step(action)
    return steps / (time.perf_counter() - begin)


@partial(jax.jit, static_argnums=(2, 3))
def _random_steps(stacked, key, together: int, steps: int):
    """Random actions in both members. A sum over all observations is returned, so that none of them is left out."""

    def one(number, key):
        member = jax.tree.map(lambda leaf: leaf[number], stacked)

        def act(carry, action):
            state, total = carry
            state = member.step(state, action, key=key)
            return (state, total + jnp.sum(member.observe(state), dtype=jnp.int32)), None

        start = member.reset(key=key), jnp.array(0, jnp.int32)
        return jax.lax.scan(act, start, jax.random.randint(key, (steps,), 0, 7))[0][1]

    return jax.vmap(one)(jnp.arange(together) % 2, jax.random.split(key, together))


def main(what: Annotated[Literal["equality", "speed"], tyro.conf.Positional], steps: int = 400_000, rounds: int = 9):
    """Compare our MiniGrid with Farama's."""
    found = equality(steps, seed=0) if what == "equality" else speed(rounds)
    versions = {name: version(name) for name in ("minigrid", "jax", "numpy")} | {"python": platform.python_version()}
    print(json.dumps({"what": what, "device": device_name(), "versions": versions} | found, indent=2))


if __name__ == "__main__":
    tyro.cli(main)
