"""Compare the estimated cost of pre-training with the true one: `python -m benchmarks.cost_estimate OUT.json`.

Each case is estimated in one process and trained in another, for a few epochs, in alternating rounds. Seconds are the
least over epochs and rounds, because the machine may have other work. The true memory is the peak of the whole run,
with its evaluation and figures.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.progress import track

from alphamepol import PretrainConfig, preset
from alphamepol.compute.machine import machine_cores
from alphamepol.figures.tables import plain_table

EPOCHS = 5
PENDULUMS = "examples/pendulums.py:pendulums"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gridworld-slope": ("gridworld-slope", "paper", {"seeds": 1}),
    "gridworld-slope, α = 1, three seeds": ("gridworld-slope", "paper", {"seeds": 3, "alpha": 1.0}),
    "gridworld-slope, recurrent, small": ("gridworld-slope", "quick", {"memory": "recurrent"}),
    "gridworld-slope, 50 × 2000": (
        "gridworld-slope",
        "quick",
        {"batch": 50, "trajectories": 2000, "neighbours": 100, "max_off_policy_iterations": 10},
    ),
    "multigrid, small": ("multigrid", "quick", {}),
    "minigrid, two seeds": ("minigrid", "paper", {"seeds": 2}),
    "minigrid-counterexample": ("minigrid-counterexample", "paper", {"seeds": 1}),
    "pendulums, memory last": (PENDULUMS, "own", {"memory": "last"}),
    "pendulums, B = 5, small": (PENDULUMS, "quick", {"batch": 5}),
}
"""The class, the preset and other settings of each case."""


def main(out: Path, /, rounds: int = 3) -> None:
    """Measure all cases, print them, and write them to a file.

    Args:
        out: The JSON file to write.
        rounds: The number of times that each case is estimated and trained.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in track(CASES, "measuring"):
        pairs = [(_in_a_process("estimate", name), _in_a_process("train", name)) for _ in range(rounds)]
        estimated, true = ({key: min(one[key] for one in part) for key in part[0]} for part in zip(*pairs, strict=True))
        ratio = {key: estimated[key] / true[key] for key in true}
        found[name] = {"estimated": estimated, "true": true, "ratio": ratio}
        described = {"cores": machine_cores(), "rounds": rounds, "epochs": EPOCHS, "cases": found}
        out.write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n")
    header = ("", "seconds an epoch", "true", "ratio", "GB", "true", "ratio", "seconds to estimate")
    rows = [
        (
            name,
            *(f"{case[part][key]:.2f}" for key in ("epoch", "memory") for part in ("estimated", "true", "ratio")),
            f"{case['estimated']['took']:.1f}",
        )
        for name, case in found.items()
    ]
    Console(width=120).print(plain_table("estimated cost of pre-training", header, rows))


def _in_a_process(what: str, name: str) -> dict[str, float]:
    code = f"from benchmarks.cost_estimate import {what}; {what}({name!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _class_and_settings(name: str) -> tuple[Any, PretrainConfig]:
    from alphamepol.environments.make import make_class

    class_name, of_preset, changed = CASES[name]
    config = dataclasses.replace(preset(of_preset, class_name), epochs=EPOCHS, **changed)  # pyright: ignore
    return make_class(class_name, config.probabilities), config


def estimate(name: str) -> None:
    """Print the estimated seconds of an epoch and its phases, the peak memory in GB, and the time of the estimate."""
    from alphamepol import estimate_pretraining_cost

    environment_class, config = _class_and_settings(name)
    start = time.perf_counter()
    cost = estimate_pretraining_cost(environment_class, config)
    phases = {"sampling": cost.sampling, "neighbours": cost.neighbours, "learning": cost.learning}
    took = time.perf_counter() - start
    print(json.dumps({"epoch": cost.epoch, **phases, "memory": cost.memory / 1e9, "took": took}))


def train(name: str) -> None:
    """Train for a few epochs, and print the true seconds and the true memory."""
    from alphamepol import pretrain
    from alphamepol.compute.devices import device_memory
    from alphamepol.runs.metrics import read_metrics

    environment_class, config = _class_and_settings(name)
    with tempfile.TemporaryDirectory() as folder:
        run = pretrain(environment_class, config, folder=f"{folder}/run", quiet=True)
        lines = [line["seconds"] for line in read_metrics(run.folder / "metrics.jsonl") if line["seed"] == config.seed]
    least = min(lines[1:], key=lambda seconds: sum(seconds.values()))
    print(json.dumps({"epoch": sum(least.values()), **least, "memory": device_memory().peak / 1e9}))


if __name__ == "__main__":
    tyro.cli(main)
