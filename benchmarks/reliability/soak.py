"""Pre-train and fine-tune with the quick settings again and again in one process, and record the resources it uses.

    python -m benchmarks.reliability.soak OUT.json [--minutes 60]

Each round pre-trains on gridworld-slope and fine-tunes from the result, in fresh folders. Memory, threads, open files
and the files of a run must not grow from round to round.
"""

import dataclasses
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.stats
import tyro

import alphamepol as am
from alphamepol.compute.devices import device_name

WARM_UP = 20
"""The number of first rounds that the slope of memory leaves out.

After these rounds everything is compiled, and memory that is not needed has been given back.
"""


def resident_mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def one_round(place: Path, seed: int) -> dict[str, Any]:
    """Pre-train and fine-tune with the given seed, and return the resources in use."""
    start = time.monotonic()
    config = dataclasses.replace(am.preset("quick", "gridworld-slope"), seed=seed)
    am.pretrain("gridworld-slope", config, folder=place / "pretrained", quiet=True)
    tuning = am.TrpoConfig(tasks=3, iterations=10, steps=4000, hidden=config.hidden, seed=seed)
    am.finetune(place / "pretrained", "GWN", tuning, folder=place / "finetuned", quiet=True)
    files = [path for path in place.rglob("*") if path.is_file()]
    return {
        "seconds": time.monotonic() - start,
        "resident_mebibytes": resident_mebibytes(),
        "threads": threading.active_count(),
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
        "files": len(files),
        "mebibytes_of_files": sum(path.stat().st_size for path in files) / 2**20,
    }


def main(out: Annotated[Path, tyro.conf.Positional], minutes: float = 60.0) -> None:
    """Repeat rounds for some minutes, and write the resources that each round used and the slope of memory.

    Args:
        out: the JSON file that is written.
        minutes: the duration in minutes.
    """
    rounds: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        place = Path(tempfile.mkdtemp())
        rounds.append(one_round(place, seed=len(rounds)))
        shutil.rmtree(place)
        print(len(rounds), rounds[-1], flush=True)
        out.write_text(json.dumps({"device": device_name(), **summarise(rounds), "rounds": rounds}, indent=1) + "\n")


def summarise(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the change of memory per round with its 95 % interval, and the other numbers that may grow."""
    steady = rounds[WARM_UP:]
    found: dict[str, Any] = {"minutes": sum(one["seconds"] for one in rounds) / 60, "rounds_done": len(rounds)}
    if len(steady) > 2:
        memory = [one["resident_mebibytes"] for one in steady]
        line = scipy.stats.linregress(np.arange(len(memory)), memory)
        reach = scipy.stats.t.ppf(0.975, len(memory) - 2) * line.stderr
        found["mebibytes_per_round"] = [line.slope, line.slope - reach, line.slope + reach]
        found["deviation_of_memory"] = float(np.std(memory))
    return found | {name: sorted({one[name] for one in rounds}) for name in ("threads", "open_files", "files")}


if __name__ == "__main__":
    tyro.cli(main)
