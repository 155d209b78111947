"""Measure how time and memory grow with the size of a problem: `python -m benchmarks.growth OUT_FOLDER`.

Each point runs in its own process, so that its peak memory is not that of another point. Exponents are fitted to the
points. growth.json also has the largest exponents that the mathematics allows.
"""

import dataclasses
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.progress import track

BASE = {"trajectories": 100, "horizon": 200, "neighbours": 15, "members": 2, "seeds": 1}
AXES: dict[str, tuple[str, tuple[int, ...]]] = {
    "trajectories": ("trajectories N", (100, 200, 400)),
    "horizon": ("horizon T", (100, 200, 400)),
    "neighbours": ("neighbours k", (15, 30, 60)),
    "members": ("members of the class", (2, 10, 50)),
    "seeds": ("seeds", (1, 2, 4)),
    "tasks": ("tasks (TRPO)", (1, 2, 4)),
}
EXPECTED = {
    "trajectories": {"sampling": 1, "neighbours": 1, "learning": 1, "memory": 1},
    "horizon": {"sampling": 1, "neighbours": 1, "learning": 1, "memory": 1},
    "neighbours": {"sampling": 0, "neighbours": 1, "learning": 1, "memory": 1},
    "members": {"sampling": 0, "neighbours": 0, "learning": 0, "memory": 0},
    "seeds": {"sampling": 1, "neighbours": 1, "learning": 1, "memory": 1},
    "tasks": {"sampling": 1, "learning": 1, "memory": 1},
}
"""The largest allowed exponents. The search of the tree is linear up to a logarithm."""
ROUNDS = 3


def main(out: Path, /) -> None:
    """Measure all points, fit exponents, and draw them.

    Args:
        out: The folder for growth.json and growth.png.
    """
    points = [(axis, size) for axis, (_, sizes) in AXES.items() for size in sizes]
    idle = _in_a_process("nothing", 0)["memory"]
    found: dict[str, list[dict[str, float]]] = {axis: [] for axis in AXES}
    for axis, size in track(points, "measuring"):
        measured = _in_a_process(axis, size)
        # The memory of the interpreter and of JAX without any work is not part of the growth.
        found[axis].append({"size": size, **measured, "memory": measured["memory"] - idle})
    exponents = {axis: _fit(rows) for axis, rows in found.items()}
    described = {"base": BASE, "idle_gib": idle, "points": found, "exponents": exponents, "expected": EXPECTED}
    out.mkdir(parents=True, exist_ok=True)
    (out / "growth.json").write_text(json.dumps(described, indent=1) + "\n")
    _draw(found, exponents, out / "growth.png")
    for axis, fitted in exponents.items():
        parts = ", ".join(f"{name} {value:.2f}" for name, value in fitted.items())
        print(f"{AXES[axis][0]}: {parts}")


def _in_a_process(axis: str, size: int) -> dict[str, float]:
    code = f"from benchmarks.growth import measure; measure({axis!r}, {size})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(axis: str, size: int) -> None:
    """Print the seconds of each phase and the peak memory in GiB.

    The seconds are the least of several rounds, because the machine may have other work.
    """
    import jax

    jax.block_until_ready(jax.numpy.ones(3) + 1)
    if axis == "nothing":
        phases: dict[str, float] = {}
    elif axis == "tasks":
        phases = _finetune(size)
    else:
        phases = _pretrain(BASE | {axis: size})
    print(json.dumps(phases | {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def _pretrain(sizes: dict[str, Any]) -> dict[str, float]:
    from alphamepol import EnvironmentClass, Gridworld, preset
    from alphamepol.algorithms.alphamepol.epoch import run_epoch
    from alphamepol.algorithms.alphamepol.start import start_pretraining
    from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
    from alphamepol.environments.gridworld.layouts import MULTIGRID
    from alphamepol.measuring.samples import SamplePlan

    sizes = dict(sizes)
    count = sizes.pop("members")
    members = {str(number): Gridworld(MULTIGRID[number % len(MULTIGRID)]) for number in range(count)}
    environment_class = EnvironmentClass(members, probabilities=[1 / count] * count, name="growing")
    config = dataclasses.replace(preset("quick", "gridworld-slope"), hidden=(300, 300), batch=5, alpha=0.2, **sizes)
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)
    state, laps = start_pretraining(environment_class, config), []
    for epoch in range(ROUNDS + 1):
        lap = stopwatch.lap()
        state, *_ = run_epoch(state, epoch, plan, config, stopwatch)
        laps.append(lap())
    return {phase: min(lap[phase] for lap in laps[1:]) for phase in stopwatch.phases}


def _finetune(tasks: int) -> dict[str, float]:
    import equinox as eqx
    import jax.numpy as jnp

    from alphamepol import Goal, TrpoConfig, make
    from alphamepol.algorithms.finetuning.finetuner import find_finetuner
    from alphamepol.algorithms.finetuning.iteration import Plan, run_finetuning_iteration, start_finetuning_iterations
    from alphamepol.compute.stopwatch import LEARNING, SAMPLING, Stopwatch

    goals, config = [Goal((-0.9, 0.9))] * tasks, TrpoConfig()
    plan = Plan(make("gridworld-slope"), "GWS", goals, config, find_finetuner("trpo"))
    stacked = plan.task_of_rows()
    stopwatch = Stopwatch(SAMPLING, LEARNING)
    state, laps = start_finetuning_iterations([], plan), []
    # TRPO skips the step until a task has given a reward. Here every iteration must take the step.
    state = eqx.tree_at(lambda state: state.learners.rewarded, state, jnp.ones(tasks, bool))
    for iteration in range(ROUNDS + 1):
        lap = stopwatch.lap()
        state, _ = run_finetuning_iteration(state, iteration, plan, stacked, stopwatch)
        laps.append(lap())
    return {phase: min(lap[phase] for lap in laps[1:]) for phase in stopwatch.phases}


def _fit(rows: list[dict[str, float]]) -> dict[str, float]:
    """Fit the exponent of each quantity: the slope of its logarithm over the logarithm of the size."""
    sizes = np.log([row["size"] for row in rows])
    return {
        name: float(np.polyfit(sizes, np.log([max(row[name], 1e-9) for row in rows]), 1)[0])
        for name in rows[0]
        if name != "size"
    }


def _draw(found: dict[str, list[dict[str, float]]], exponents: dict[str, dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    colours = {"sampling": "#0072B2", "neighbours": "#D55E00", "learning": "#009E73", "memory": "#000000"}
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.6), layout="constrained")
    for panel, (axis, rows) in zip(axes.flat, found.items(), strict=True):
        sizes = [row["size"] for row in rows]
        for name, exponent in exponents[axis].items():
            style = {"linestyle": "--"} if name == "memory" else {}
            label = f"{name} {exponent:.2f}"
            panel.loglog(sizes, [row[name] for row in rows], "o", color=colours[name], label=label, **style)
            panel.loglog(sizes, [row[name] for row in rows], color=colours[name], **style)
        panel.set_xlabel(AXES[axis][0])
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * 6)  # room for the legend
        panel.legend(frameon=False, fontsize=7, loc="upper left", ncols=2, columnspacing=0.8, handletextpad=0.2)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes[:, 0]:
        panel.set_ylabel("seconds, GiB")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    tyro.cli(main)
