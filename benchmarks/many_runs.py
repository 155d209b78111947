"""Measure the parts from which docs/sweeps.md estimates 10,000 runs: `python -m benchmarks.many_runs OUT.json`.

The rates of Slurm are measured if SLURM_CONF names a cluster, such as that of `benchmarks/slurm/start.sh FOLDER`. The
rate of Ray is measured if Ray is installed.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import alphamepol as am
from alphamepol.compute.machine import machine_cores
from alphamepol.reproduction.store import Store

RUNS, JOBS, TASKS = 400, 200, 500
"""The numbers of runs in a store, of jobs in a Slurm array, and of tasks of Ray."""


def run_folder(folder: Path) -> dict[str, Any]:
    """Return the files and bytes of a run at the size of the paper: its networks, its ten seeds, its evaluation.

    Only two epochs are done, because all files but the metrics have the same size after any number of epochs.
    """
    config = dataclasses.replace(am.preset("paper", "gridworld-slope"), epochs=2, trajectories=10, horizon=60)
    config = dataclasses.replace(config, checkpoint_every=1, feature_noise=1e-3, neighbours=10)
    am.pretrain("gridworld-slope", config, folder=folder, quiet=True)
    sizes = {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    parts: dict[str, int] = {}
    for path, size in sizes.items():
        parts[path.parts[0]] = parts.get(path.parts[0], 0) + size
    metrics = parts.pop("metrics.jsonl") / config.epochs
    return {"files": len(sizes), "bytes": sum(parts.values()), "bytes_of": parts, "metrics_bytes_per_epoch": metrics}


def store_seconds(run: Path, folder: Path) -> dict[str, Any]:
    """Return the seconds that a store of many runs needs to be read, and to be asked for a run."""
    described = json.loads((run / "config.json").read_text())
    for number in range(RUNS):
        place = folder / "runs" / f"run-{number}"
        place.mkdir(parents=True)
        described["config"]["seed"] = number
        (place / "config.json").write_text(json.dumps(described))
        shutil.copy(run / "summary.json", place / "summary.json")
    start = time.perf_counter()
    store = Store(folder)
    assert len(store.all()) == RUNS
    return {"runs": RUNS, "seconds_per_run": (time.perf_counter() - start) / RUNS}


def slurm_rates(folder: Path) -> dict[str, Any]:
    """Return the seconds to submit an array and to list it, and the elements that Slurm starts and ends in a second."""
    script = folder / "nothing.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --output=/dev/null\n#SBATCH --array=0-{JOBS - 1}\ntrue\n")
    start = time.perf_counter()
    subprocess.run(["sbatch", "--parsable", str(script)], check=True, capture_output=True)
    submitted = time.perf_counter() - start
    squeue = ["squeue", "--noheader", "--array"]
    subprocess.run(squeue, check=True, capture_output=True)
    listed = time.perf_counter() - start - submitted
    while subprocess.run(squeue, check=True, capture_output=True, text=True).stdout.strip():
        time.sleep(0.2)
    rate = JOBS / (time.perf_counter() - start)
    shown = subprocess.run(["scontrol", "show", "config"], check=True, capture_output=True, text=True).stdout
    limit = next(line.split("=")[1].strip() for line in shown.splitlines() if line.startswith("MaxArraySize"))
    return {
        "submit_seconds": submitted,
        "list_seconds": listed,
        "elements_per_second": rate,
        "MaxArraySize": int(limit),
    }


def ray_rate() -> dict[str, Any]:
    """Return the tasks that do nothing which Ray ends in a second."""
    import ray

    ray.init(address="local", log_to_driver=False, include_dashboard=False)
    nothing = ray.remote(num_cpus=1)(lambda: None)
    ray.get(nothing.remote())
    start = time.perf_counter()
    ray.get([nothing.remote() for _ in range(TASKS)])
    rate = TASKS / (time.perf_counter() - start)
    ray.shutdown()
    return {"tasks_per_second": rate}


def main() -> None:
    found: dict[str, Any] = {"cores": machine_cores(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found["run_folder"] = run_folder(folder / "run")
        found["store"] = store_seconds(folder / "run", folder / "store")
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "alphamepol", "--version"], check=True, capture_output=True)
        found["start_seconds"] = time.perf_counter() - start
        if os.environ.get("SLURM_CONF"):
            found["slurm"] = slurm_rates(folder)
        if find_spec("ray"):
            found["ray"] = ray_rate()
    text = json.dumps(found, indent=2)
    print(text)
    Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
