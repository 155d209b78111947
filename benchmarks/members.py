"""Measure what an epoch costs in classes of few, many and generated members: `python -m benchmarks.members OUT.json`.

Each class has its own process, so that its peak memory is not that of another class. The members are maps of solid
walls with slopes, whose epochs cost the same if the number of members does not count.
"""

import dataclasses
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from alphamepol.compute.machine import machine_cores
from alphamepol.runs.description import describe_run

CLASSES = "10", "1000", "10000", "100000", "generated"
EPOCHS = 12


def main(out: Annotated[Path, tyro.conf.Positional], classes: tuple[str, ...] = CLASSES) -> None:
    """Measure all classes, and write the figures.

    Args:
        out: the JSON file of the figures.
        classes: numbers of members, or "generated" for an endless stream of members.
    """
    found = {which: _in_a_process(which) for which in ("nothing", *classes)}
    described = describe_run("benchmarks.members", "", {})
    about = {"command": "python -m benchmarks.members OUT.json"}
    about |= {part: described[part] for part in ("versions", "commit", "device")}
    out.write_text(json.dumps(about | {"cores": machine_cores(), "classes": found}, indent=1) + "\n")
    for which, row in found.items():
        print(which, json.dumps(row))


def _in_a_process(which: str) -> dict[str, Any]:
    code = f"from benchmarks.members import measure; measure({which!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(which: str) -> None:
    """Print the seconds to build a class, those of an epoch with its metrics, and the memory in MiB."""
    import jax

    jax.block_until_ready(jax.numpy.ones(3) + 1)
    found = {} if which == "nothing" else _measure_class(which)
    print(json.dumps(found | {"peak MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10, 1)}))


def _measure_class(which: str) -> dict[str, Any]:
    import jax

    from alphamepol import EnvironmentClass, generated_class, preset
    from alphamepol.algorithms.alphamepol.epoch import run_epoch
    from alphamepol.algorithms.alphamepol.records import alphamepol_record_lines
    from alphamepol.algorithms.alphamepol.start import start_pretraining
    from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
    from alphamepol.environments.gridworld.generators import draw_rooms
    from alphamepol.measuring.samples import SamplePlan

    began = time.perf_counter()
    if which == "generated":
        environment_class = generated_class(draw_rooms, name="generated")
    else:
        stacked = jax.device_get(jax.jit(jax.vmap(draw_rooms))(jax.random.split(jax.random.key(0), int(which))))
        members = {
            str(number): jax.tree.map(lambda leaf, number=number: leaf[number], stacked) for number in range(int(which))
        }
        environment_class = EnvironmentClass(members, name="many")
    built = time.perf_counter() - began
    config = dataclasses.replace(preset("quick", "gridworld-slope"), coinciding="noise")
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)
    state, seconds, size = start_pretraining(environment_class, config), [], 0
    for epoch in range(EPOCHS + 2):  # the first epochs compile
        began, lap = time.perf_counter(), stopwatch.lap()
        done = run_epoch(state, epoch, plan, config, stopwatch)
        state, plan = done.state, done.plan
        lines = alphamepol_record_lines(epoch, plan, config, done.trajectories, done.report, state, lap())
        size = len(json.dumps(lines))
        seconds.append(time.perf_counter() - began)
    arrays = sum(leaf.nbytes for leaf in jax.tree.leaves(environment_class.members))
    return {
        "seconds to build": round(built, 3),
        "seconds an epoch": round(statistics.median(seconds[2:]), 4),
        "least": round(min(seconds[2:]), 4),
        "arrays MiB": round(arrays / 2**20, 2),
        "bytes of metrics an epoch": size,
    }


if __name__ == "__main__":
    tyro.cli(main)
