"""Interrupt commands at random moments, and measure how long they take to end.

    python -m benchmarks.reliability.interrupt OUT.json [--times 6] [--commands check evaluate …]

Every process compiles anew, so that signals come while it compiles, computes, draws and writes. A command must end with
status 130 and one sentence, and leave no temporary file. A worker process that survived would keep this script waiting,
because it holds the error output.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import rich.progress
import tyro

ROOT = Path(__file__).parents[2]
ENDLESS = "ENDLESS FOLDER/begun"
COMMANDS = {
    "check gridworld-slope": ("-m alphamepol check gridworld-slope --folder FOLDER/page", 40.0),
    "check minigrid": ("-m alphamepol check minigrid --folder FOLDER/page", 60.0),
    "evaluate": ("-m alphamepol evaluate minigrid/alpha-0.2 random --folder FOLDER/numbers", 30.0),
    "report": ("-m alphamepol report FOLDER/results", 30.0),
    "reproduce": ("-m alphamepol reproduce slope-adverse --folder FOLDER/reproduction", 40.0),
    "demo": ("-m alphamepol demo --folder FOLDER/demo", 40.0),
    "export": ("-m alphamepol export gridworld-slope/alpha-0.2 FOLDER/policy.zip --to sb3", 3.0),
    "check, endless learning": (f"{ENDLESS} 0 check gridworld-slope --folder FOLDER/page", 40.0),
    "pretrain, endless epoch": (f"{ENDLESS} 3 pretrain gridworld-slope --preset quick --folder FOLDER/run", 40.0),
}
"""The commands, with the seconds within which signals come. They start after the first second, which imports.

In the last two, compiled work never ends."""


def interrupt(line: str, folder: Path, number: signal.Signals, after: float) -> dict[str, Any]:
    """Run a command in a folder, send it a signal after some seconds, and return how it ended."""
    if "results" in line:
        shutil.copytree(ROOT / "results", folder / "results")
    line = line.replace("FOLDER", str(folder)).replace("ENDLESS", str(ROOT / "benchmarks/reliability/endless.py"))
    words = [sys.executable, *line.split()]
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    sent = time.monotonic()
    _, errors = process.communicate()
    seconds = time.monotonic() - sent
    if process.returncode != 0:  # it may have ended before the signal came
        assert process.returncode == 130, (process.returncode, errors)
        assert errors.startswith("alphamepol: interrupted; "), errors
        assert errors.count("\n") == 1, errors
    assert not list(folder.rglob("*.alphamepol-tmp"))
    return {
        "signal": number.name,
        "after_seconds": round(after, 2),
        "status": process.returncode,
        "seconds_to_end": round(seconds, 2),
        "said": errors.strip(),
    }


def main(
    out: Annotated[Path, tyro.conf.Positional],
    times: int = 6,
    commands: tuple[str, ...] = tuple(COMMANDS),
    seed: int = 0,
) -> None:
    """Interrupt each command at random moments, and write a report.

    Args:
        out: the JSON file of the report.
        times: the number of signals for each command.
        commands: the commands that are interrupted; all by default.
        seed: the seed of the random moments.
    """
    chance = random.Random(seed)
    report: dict[str, list[dict[str, Any]]] = {}
    for name in commands:
        line, seconds = COMMANDS[name]
        report[name] = []
        for i in rich.progress.track(range(times), name):
            with tempfile.TemporaryDirectory() as temporary:
                number = (signal.SIGINT, signal.SIGTERM)[i % 2]
                found = interrupt(line, Path(temporary), number, chance.uniform(1.0, seconds))
            report[name].append(found | {"said": found["said"].replace(temporary, "…")})
            out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + os.linesep)
    for name, found in report.items():
        stopped = [one["seconds_to_end"] for one in found if one["status"]]
        print(f"{name}: {len(stopped)} interrupted, the slowest after {max(stopped, default=0):.2f} s")


if __name__ == "__main__":
    tyro.cli(main)
