"""Stop tiny runs at random moments, resume them, and compare their files with those of an uninterrupted run.

    python -m benchmarks.reliability.kill OUT.json [--kills 30] [--interrupts 3] [--commands finetune metatrain …]

SIGKILL ends a process at once. A run is killed and resumed several times in a chain, at moments that are uniform over
the duration of an uninterrupted run. No process may be left. SIGTERM and SIGINT must end a process with a sentence and
status 130, after its work is saved. At the end of a chain, all policies, checkpoints, evaluations, figures and lines of
metrics must be those of the uninterrupted run. No line may be lost or doubled.
"""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import rich.progress
import tyro

HERE = Path(__file__).parent
SMALL = "--horizon 15 --hidden 8 8 --checkpoint-every 10"
MEASURED = {"seconds", "steps_per_second", "device", "init", "command_line", "sha256", "bytes"}
"""The fields that are not compared, because they differ from run to run: times, the checksums of files that hold times,
the length of such files, the command line, and the path of an initial policy."""
CHAIN = 5
"""The most SIGKILLs of one run."""
MARK = "ALPHAMEPOL_RELIABILITY_RUN"
"""The environment variable by which the processes of a run are known."""


@dataclass(frozen=True)
class Command:
    """A command, and the option that resumes it."""

    words: tuple[str, ...]
    resume: tuple[str, ...] = ("--resume",)

    @classmethod
    def of(cls, line: str) -> "Command":
        return cls(("-m", "alphamepol", *line.split(), *SMALL.split(), "--folder"))


COMMANDS = {
    "pretrain with workers": Command.of(
        f"pretrain {HERE / 'carts.py'}:carts --epochs 150 --trajectories 8 --batch 2 --neighbours 3 "
        "--evaluation-batches 2 --feature-noise 0.01"
    ),
    "pretrain with memory": Command.of(
        "pretrain gridworld-slope --preset quick --memory recurrent --recurrent-units 4 --epochs 200 --trajectories 20 "
        "--neighbours 3 --evaluation-batches 2 --seeds 2 --feature-noise 0.01 --learning-rate 0.0001"
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
"""The commands that are stopped. The method maml-diayn trains with DIAYN first, and then with MAML."""


def start(command: Command, folder: Path, *, resume: bool = False) -> subprocess.Popen:
    """Start a process for a command, as a shell would."""
    words = [sys.executable, *command.words, str(folder), *(command.resume if resume else ())]
    environment = os.environ | {MARK: str(folder)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process: subprocess.Popen) -> str:
    """Wait for a process, which must end with status 0. Return its output on stderr."""
    _, errors = process.communicate()
    assert process.returncode == 0, f"status {process.returncode}: {errors[-2000:]}"
    return errors


def products(folder: Path, *, every_checkpoint: bool = False) -> dict[str, Any]:
    """Return the contents of the files of a run, without the fields that differ from run to run.

    By default, only the newest checkpoint is included, because an interrupt adds a checkpoint.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.parent.name == "checkpoints" and not every_checkpoint:
            newest = max(path.parent.glob("*.json")).stem
            if not path.name.startswith((f"{newest}.", f"{newest}-")):
                continue
        if path.suffix in (".safetensors", ".csv", ".png"):
            found[name] = path.read_bytes()
        elif path.name == "metrics.jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".json":
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
    finish(start(command, folder, resume=has_begun(folder)))
    return outcome


def kill_in_chain(
    command: Command, folder: Path, moments: Iterator[float], kills: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Kill and resume a run several times, and let it end. Return the kills, and the processes that were left.

    There are fewer kills if the run ends before the next moment.
    """
    killed, left = [], []
    for after in itertools.islice(moments, kills):
        process = start(command, folder, resume=has_begun(folder))
        try:
            process.communicate(timeout=after)
            break
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        lines = sum(path.read_bytes().count(b"\n") for path in folder.rglob("metrics.jsonl"))
        killed.append({"after_seconds": round(after, 2), "metrics_lines": lines})
        left += processes_left(folder)
    finish(start(command, folder, resume=has_begun(folder)))
    return killed, left + processes_left(folder)


def has_begun(folder: Path) -> bool:
    """Return whether there is a run in the folder that can be resumed."""
    return (folder / "config.json").is_file() or any(folder.glob("*/config.json"))


def processes_left(folder: Path, patience: float = 10.0) -> list[str]:
    """Return the command lines of processes of a run that are still there after some seconds."""
    mark, end = f"{MARK}={folder}".encode(), time.monotonic() + patience
    while True:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue  # the process has ended, or is not ours
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.1)


def main(
    out: Annotated[Path, tyro.conf.Positional],
    kills: int = 30,
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
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        # The runs share the programs that they compile.
        os.environ["XDG_CACHE_HOME"] = str(Path(temporary) / "cache")
        for name in commands:
            report[name] = {}
            for _ in stop_command(
                name, Path(temporary) / name.replace(" ", "-"), kills, interrupts, seed, report[name]
            ):
                out.write_text(json.dumps(report, indent=1, ensure_ascii=False).replace(temporary, "…") + os.linesep)
    stopped = [one for found in report.values() for one in (*found["chains"], *found["interrupted"])]
    failed = [one for one in stopped if one["differing_files"] or one.get("processes_left")]
    print(f"{sum(len(found['chains']) for found in report.values())} chains, failed: {failed or 'none'}")
    sys.exit(bool(failed))


def stop_command(
    name: str, place: Path, kills: int, interrupts: int, seed: int, report: dict[str, Any]
) -> Iterator[None]:
    """Stop a command again and again, and add each outcome to the report. Yield after each."""
    command, chance = COMMANDS[name], random.Random(f"{seed} {name}")
    finish(start(command, place / "compile"))
    began = time.monotonic()
    finish(start(command, place / "whole"))
    seconds = time.monotonic() - began
    expected, all_expected = products(place / "whole"), products(place / "whole", every_checkpoint=True)
    unlike = differences(products(place / "compile"), expected)
    assert not unlike, f"{name} does not repeat itself: {unlike}"
    lines = sum(len(value) for file, value in expected.items() if file.endswith("metrics.jsonl"))
    whole = {"seconds": round(seconds, 2), "files_compared": len(all_expected), "metrics_lines": lines}
    report |= {"uninterrupted": whole, "kills": 0, "chains": [], "interrupted": []}
    moments = iter(lambda: chance.uniform(0, seconds), None)
    with rich.progress.Progress() as progress:
        shown = progress.add_task(name, total=kills + 2 * interrupts)
        while report["kills"] < kills:
            folder = place / f"chain-{len(report['chains'])}"
            killed, left = kill_in_chain(command, folder, moments, min(CHAIN, kills - report["kills"]))
            unlike = differences(products(folder, every_checkpoint=True), all_expected)
            report["chains"].append({"killed": killed, "processes_left": left, "differing_files": unlike})
            report["kills"] += len(killed)
            progress.advance(shown, len(killed))
            shutil.rmtree(folder)
            yield
        for i, number in enumerate([signal.SIGTERM, signal.SIGINT] * interrupts):
            after = next(moments)
            outcome = {"after_seconds": round(after, 2)}
            outcome |= stop_and_resume(command, place / str(i), number, partial(_wait_until, after=after))
            outcome |= {"differing_files": differences(products(place / str(i)), expected)}
            report["interrupted"].append(outcome | {"processes_left": processes_left(place / str(i))})
            progress.advance(shown)
            yield


def _wait_until(process: subprocess.Popen, *, after: float) -> None:
    """Wait for some seconds, or until the process ends."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)


if __name__ == "__main__":
    tyro.cli(main)
