"""Compare the estimated cost of pre-training with the true one: `python -m benchmarks.cost_estimate OUT.json`.

Each case is estimated in one process and trained in another, for a few epochs, in alternating rounds. The true seconds
are the median over epochs, without the first. The true memory is the peak of the whole run with its evaluation.
"""

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro
from rich.console import Console
from rich.progress import track

from alphamepol import PretrainConfig, preset
from alphamepol.figures.tables import plain_table

PENDULUMS = "examples/pendulums.py:pendulums"
EPOCHS = 5
OWN = preset("own", PENDULUMS)
CASES: dict[str, tuple[str, PretrainConfig]] = {
    "gridworld-slope, paper, one seed": (
        "gridworld-slope",
        dataclasses.replace(preset("paper", "gridworld-slope"), seeds=1),
    ),
    "gridworld-slope, paper, α = 1, three seeds": (
        "gridworld-slope",
        dataclasses.replace(preset("paper", "gridworld-slope"), seeds=3, alpha=1.0),
    ),
    "gridworld-slope, quick, recurrent": (
        "gridworld-slope",
        dataclasses.replace(preset("quick", "gridworld-slope"), memory="recurrent"),
    ),
    "multigrid, quick": ("multigrid", preset("quick", "multigrid")),
    "minigrid, paper, two seeds": ("minigrid", dataclasses.replace(preset("paper", "minigrid"), seeds=2)),
    "pendulums, own, memory last": (PENDULUMS, dataclasses.replace(OWN, memory="last")),
    "pendulums, quick, B = 5": (PENDULUMS, dataclasses.replace(preset("quick", PENDULUMS), batch=5)),
    "gridworld-slope, B = 50, N = 2000": (
        "gridworld-slope",
        dataclasses.replace(preset("quick", "gridworld-slope"), batch=50, trajectories=2000, neighbours=100),
    ),
}


def main(out: Path, /, rounds: int = 3) -> None:
    """Measure all cases, print them, and write them to a file.

    Args:
        out: The JSON file to write.
        rounds: The number of times that each case is estimated and trained.
    """
    found = {}
    for name in track(CASES, "measuring"):
        pairs = [(_in_a_process("estimate", name), _in_a_process("train", name)) for _ in range(rounds)]
        estimated, true = ({key: _median([one[key] for one in of]) for key in of[0]} for of in zip(*pairs, strict=True))
        ratios = {key: estimated[key] / true[key] for key in true}
        found[name] = {"estimated": estimated, "true": true, "ratio": ratios}
    out.write_text(json.dumps({"rounds": rounds, "epochs": EPOCHS, "cases": found}, indent=1) + "\n")
    header = ("", "s an epoch", "true", "ratio", "GB", "true", "ratio", "s to estimate")
    Console(width=120).print(plain_table("estimated cost of pre-training", header, list(map(_row, found.items()))))


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _row(case: tuple[str, dict[str, dict[str, float]]]) -> tuple[str, ...]:
    name, of = case
    shown = [f"{of[part][key]:.2f}" for key in ("epoch", "memory") for part in ("estimated", "true", "ratio")]
    return (name, *shown, f"{of['estimated']['took']:.1f}")


def _in_a_process(what: str, name: str) -> dict[str, float]:
    code = f"from benchmarks.cost_estimate import {what}; {what}({name!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def estimate(name: str) -> None:
    """Print the estimate of a case: the seconds of an epoch and of its phases, and the peak memory in GB."""
    from alphamepol import estimate_pretraining_cost
    from alphamepol.environments.make import make_class

    class_name, config = CASES[name]
    environment_class, start = make_class(class_name, config.probabilities), time.perf_counter()
    cost = estimate_pretraining_cost(environment_class, dataclasses.replace(config, epochs=EPOCHS))
    took = time.perf_counter() - start
    phases = {"sampling": cost.sampling, "neighbours": cost.neighbours, "learning": cost.learning}
    print(json.dumps({"epoch": cost.epoch, **phases, "memory": cost.memory / 1e9, "took": took}))


def train(name: str) -> None:
    """Train on a case for a few epochs, and print the same numbers."""
    from alphamepol import pretrain
    from alphamepol.compute.devices import device_memory
    from alphamepol.environments.make import make_class
    from alphamepol.runs.metrics import read_metrics

    class_name, config = CASES[name]
    environment_class = make_class(class_name, config.probabilities)
    with tempfile.TemporaryDirectory() as folder:
        run = pretrain(
            environment_class, dataclasses.replace(config, epochs=EPOCHS), folder=f"{folder}/run", quiet=True
        )
        lines = [line for line in read_metrics(run.folder / "metrics.jsonl") if line["seed"] == config.seed]
    phases = {phase: _median([line["seconds"][phase] for line in lines[1:]]) for phase in lines[0]["seconds"]}
    print(json.dumps({"epoch": sum(phases.values()), **phases, "memory": device_memory().peak / 1e9}))


if __name__ == "__main__":
    tyro.cli(main)
