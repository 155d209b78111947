"""Measure how long a user waits for help, and for the first and the second start of the same command."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import Measurement, Seconds

TINY = ("--preset", "quick", "--epochs", "1", "--trajectories", "50", "--evaluation-batches", "2")


def measure(rounds: int) -> list[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        helps = Seconds.of([_seconds(place, "--help") for _ in range(rounds)])
        first, second = [], []
        for number in range(rounds):
            # Each round has its own cache, so that it begins with nothing compiled.
            cache = place / f"cache-{number}"
            for found, name in ((first, "first"), (second, "second")):
                run = place / f"{name}-{number}"
                found.append(_seconds(cache, "pretrain", "gridworld-slope", *TINY, "--folder", str(run)))
    return [
        Measurement("alphamepol --help", helps),
        Measurement("a tiny pre-training, nothing compiled yet", Seconds.of(first)),
        Measurement("the same again, compiled programs kept", Seconds.of(second)),
    ]


def measure_demo(rounds: int) -> list[Measurement]:
    """Measure `alphamepol demo` when the compiled programs of an earlier demo are kept."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first = _seconds(place / "cache", "demo", "--folder", str(place / "first"))
        again = [_seconds(place / "cache", "demo", "--folder", str(place / f"{n}")) for n in range(min(rounds, 2))]
    note = f"the first one, which compiles: {first:.0f} s"
    return [Measurement("alphamepol demo, compiled programs kept", Seconds.of(again), note=note)]


def _seconds(cache: Path, *arguments: str) -> float:
    """Measure the seconds of a command in its own process."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "alphamepol", *arguments],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start
