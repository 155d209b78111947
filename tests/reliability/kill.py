"""Stop tiny runs at random moments, resume them, and compare their files with those of an uninterrupted run.

    python tests/reliability/kill.py OUT.json [--kills 10] [--interrupts 3] [--commands pretrain finetune …]

SIGKILL ends a process at once. SIGTERM and SIGINT must end it with a sentence and status 130, after its work is saved.
After `--resume` every array and every line of metrics must be that of the uninterrupted run. No line may be lost or
doubled.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import rich.progress
import tyro

HERE = Path(__file__).parent
SMALL = "--horizon 15 --hidden 8 8 --checkpoint-every 10"
MEASURED = {"seconds", "steps_per_second", "device", "init"}
"""The fields that are not compared, because they differ from run to run: times, and the path of an initial policy."""


@dataclass(frozen=True)
class Command:
    """A command, and the option that resumes it."""

    words: tuple[str, ...]
    resume: tuple[str, ...] = ("--resume",)

    @classmethod
    def of(cls, line: str) -> "Command":
        return cls(("-m", "alphamepol", *line.split(), *SMALL.split(), "--folder"))


COMMANDS = {
    "pretrain": Command.of(
        "pretrain gridworld-slope --preset quick --epochs 400 --trajectories 20 --neighbours 3 --evaluation-batches 2 "
        "--seeds 2 --feature-noise 0.01 --learning-rate 0.0001"
    ),
    "finetune": Command.of(
        "finetune random gridworld-slope/alpha-0.2 --class gridworld-slope --member GWN --tasks 3 --iterations 100 "
        "--steps 60 --critic-hidden 4"
    ),
    "metatrain": Command.of(
        "metatrain gridworld-slope --method maml-diayn --preset quick --epochs 60 --steps 10 --skills 2 --warm-up 20 "
        "--replay 1000 --iterations 60 --tasks 2 --trajectories 2"
    ),
    # `reproduce` resumes by itself, without an option.
    "reproduce": Command((str(HERE / "tiny_reproduce.py"),), ()),
}


def start(command: Command, folder: Path, *, resume: bool = False) -> subprocess.Popen:
    """Start a process for a command, as a shell would."""
    words = [sys.executable, *command.words, str(folder), *(command.resume if resume else ())]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> str:
    """Wait for a process, which must end with status 0. Return its output on stderr."""
    _, errors = process.communicate()
    assert process.returncode == 0, f"status {process.returncode}: {errors[-2000:]}"
    return errors


def products(folder: Path) -> dict[str, Any]:
    """Return the contents of the files of a run, without the fields that differ from run to run.

    Only the newest checkpoint is included, because an interrupt adds a checkpoint.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            if path.parent.name == "checkpoints" and path != max(path.parent.glob("*.safetensors")):
                continue
            found[name] = path.read_bytes()
        elif path.name == "metrics.jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.name in ("summary.json", "claims.json"):
            found[name] = _timeless(json.loads(path.read_text()))
        elif path.is_file() and path.name.endswith("-tmp"):
            found[name] = "left behind"
    return found


def _timeless(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _timeless(value) for name, value in content.items() if name not in MEASURED}
    return [_timeless(value) for value in content] if isinstance(content, list) else content


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the names of files that differ, or that only one of the runs has."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def stop_and_resume(
    command: Command, folder: Path, number: signal.Signals, moment: Callable[[subprocess.Popen], None]
) -> dict[str, Any]:
    """Stop a run at a moment, check how it ended, and resume it to its end."""
    process = start(command, folder)
    moment(process)
    process.send_signal(number)
    _, errors = process.communicate()
    steps = sum(len(path.read_text().splitlines()) for path in folder.rglob("metrics.jsonl"))
    outcome = {"signal": number.name, "status": process.returncode, "metrics_lines": steps, "said": errors.strip()}
    # The signal may come before the program has begun.
    early = process.returncode == -number and not any(folder.glob("*"))
    if number != signal.SIGKILL and process.returncode != 0 and not early:
        assert process.returncode == 130, (process.returncode, errors)
        assert "Traceback" not in errors, errors
        assert errors.startswith("alphamepol: interrupted; "), errors
    begun = (folder / "config.json").is_file() or any(folder.glob("*/config.json"))
    finish(start(command, folder, resume=begun))
    return outcome


def main(
    out: Annotated[Path, tyro.conf.Positional],
    kills: int = 10,
    interrupts: int = 3,
    commands: tuple[str, ...] = tuple(COMMANDS),
    seed: int = 0,
) -> None:
    """Stop each command at random moments, resume it, compare its files, and write a report.

    Args:
        out: the JSON file of the report.
        kills: the number of SIGKILLs for each command.
        interrupts: the number of SIGTERMs for each command, and also the number of SIGINTs.
        commands: the commands that are tested; all by default.
        seed: the seed of the random moments.
    """
    chance = random.Random(seed)
    numbers = [signal.SIGKILL] * kills + [signal.SIGTERM] * interrupts + [signal.SIGINT] * interrupts
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in commands:
            command, place = COMMANDS[name], Path(temporary) / name
            finish(start(command, place / "compile"))
            began = time.monotonic()
            finish(start(command, place / "whole"))
            seconds = time.monotonic() - began
            expected = products(place / "whole")
            unlike = differences(products(place / "compile"), expected)
            assert not unlike, f"{name} does not repeat itself: {unlike}"
            outcomes = []
            for i, number in enumerate(rich.progress.track(numbers, name)):
                after = chance.uniform(0, seconds)

                def wait(process: subprocess.Popen, after: float = after) -> None:
                    # The process may end before this moment.
                    try:
                        process.wait(after)
                    except subprocess.TimeoutExpired:
                        return

                outcome = {"after_seconds": round(after, 2)}
                outcome |= stop_and_resume(command, place / str(i), number, wait)
                outcomes.append(outcome | {"differing_files": differences(products(place / str(i)), expected)})
            lines = sum(len(value) for file, value in expected.items() if file.endswith("metrics.jsonl"))
            whole = {"seconds": round(seconds, 2), "files_compared": len(expected), "metrics_lines": lines}
            report[name] = {"uninterrupted": whole, "stopped": outcomes}
            out.write_text(json.dumps(report, indent=1, ensure_ascii=False).replace(temporary, "…") + os.linesep)
    failed = [name for name, found in report.items() if any(one["differing_files"] for one in found["stopped"])]
    print("differences:", failed or "none")
    sys.exit(bool(failed))


if __name__ == "__main__":
    tyro.cli(main)
