"""Give hostile run folders and policy files to all commands that read, and write what happened to a JSON file.

    python -m benchmarks.reliability.hostile OUT.json [--inputs 20000] [--minutes 60] [--processes 2] [--coverage]

docs/reliability.md says what counts as a violation. The seed and the number of an input make the same input again:
`--only NUMBER` tries one input, shows what happened, and keeps its files.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from benchmarks.reliability.hostile.attacking import Assignment, attack
from benchmarks.reliability.hostile.originals import make_originals
from benchmarks.reliability.hostile.reader_coverage import summarise_coverage
from benchmarks.reliability.hostile.tally import Tally
from benchmarks.reliability.hostile.victims import possible_pairs

ROOT = Path(__file__).parents[3]
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""The flags with which XLA compiles tiny runs faster."""


def main(
    out: Annotated[Path, tyro.conf.Positional],
    inputs: int = 20_000,
    first: int | None = None,
    seed: int = 0,
    minutes: float = 60.0,
    processes: int = 2,
    originals: Path | None = None,
    runs: tuple[str, ...] = (),
    only: int | None = None,
    commands: tuple[str, ...] = (),
    coverage: bool = False,
) -> None:
    """Attack all commands that read, and write the figures. The exit status is 1 if there were violations.

    Args:
        out: the JSON file of the figures. It is written every few seconds.
        inputs: the number of mutated inputs.
        first: the number of the first input. By default, all originals come before the first input.
        seed: the seed of all inputs.
        minutes: the time after which no further input is tried.
        processes: the number of processes.
        originals: the folder of the real inputs; they are made there unless they are there.
        runs: the names of the runs that are made as real inputs; all by default.
        only: the number of one input that is tried alone. Its files stay, and nothing is written to `out`.
        commands: the names of the commands that are attacked; all by default.
        coverage: measure which lines of the modules that read were executed.
    """
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None, prefix="hostile-") as temporary:
        place = Path(temporary)
        folder = (originals or place / "originals").resolve()
        cache = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR", folder / "compiled"))
        os.environ.update(quiet_environment(cache))
        make_originals(folder, runs)
        begin = -len(possible_pairs(folder, commands)) if first is None else first
        whole = Assignment(
            originals=str(folder),
            work=str(place / "process"),
            cache=str(cache),
            seed=seed,
            numbers=(begin, max(begin, 0) + inputs, processes) if only is None else (only, only + 1, 1),
            minutes=minutes,
            commands=commands,
            coverage=str(place / "coverage") if coverage else "",
        )
        if coverage:
            (place / "coverage").mkdir()
        if only is not None:
            _show_only(whole)
            return
        found = _attack_in_processes(whole, out)
        if coverage:
            found["coverage"] = summarise_coverage(place / "coverage")
            write_report(found, out)
    shown = {name: found[name] for name in ("totals", "outcomes", "violations", "minutes")}
    if coverage:
        shown["coverage"] = found["coverage"]["share"]
    print(json.dumps(shown, indent=1))
    sys.exit(bool(found["violations"]))


def quiet_environment(cache: Path) -> dict[str, str]:
    """Return the changes to the environment of all processes: one thread each, and one cache of compiled programs."""
    paths = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests/support"), os.environ.get("PYTHONPATH", "")]
    return {
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", QUICK_TO_COMPILE),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "MPLBACKEND": "agg",
        "ALPHAMEPOL_COMMIT": "none",  # commands would ask git otherwise
        "COLUMNS": "200",
    }


def _attack_in_processes(whole: Assignment, out: Path) -> dict[str, Any]:
    """Share the inputs among processes, and write their figures together until all have ended."""
    began = time.monotonic()
    begin, end, count = whole.numbers
    parts = [
        dataclasses.replace(whole, work=f"{whole.work}-{number}", numbers=(begin + number, end, count))
        for number in range(count)
    ]
    running = [_start_process(part) for part in parts]
    while True:
        ended = all(process.poll() is not None for process in running)
        tally = Tally()
        for part in parts:
            if (path := Path(part.work) / "figures.json").exists():
                tally.merge(json.loads(path.read_text()))
        found = {"seed": whole.seed, "minutes": round((time.monotonic() - began) / 60, 1), **tally.to_dict()}
        write_report(found, out)
        if ended:
            assert all(process.returncode == 0 for process in running), "a process of the campaign failed"
            return found
        time.sleep(2)


def write_report(found: dict[str, Any], out: Path) -> None:
    # A name that was shown may hold half of a character.
    out.write_bytes((json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace"))


def _show_only(assignment: Assignment) -> None:
    assert _start_process(assignment).wait() == 0, "the process failed"
    work = Path(assignment.work)
    print((work / "figures.json").read_text())
    print((work / "stderr").read_bytes().decode("utf-8", "replace")[-5000:])
    kept = Path(tempfile.mkdtemp(prefix="hostile-input-")) / "input"
    subprocess.run(["cp", "-a", "--sparse=always", assignment.work, str(kept)], check=True)
    print(f"the input, after the command: {kept / 'inside'}")


def _start_process(assignment: Assignment) -> subprocess.Popen:
    words = [sys.executable, "-m", "benchmarks.reliability.hostile", "--assignment"]
    return subprocess.Popen([*words, json.dumps(dataclasses.asdict(assignment))])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--assignment"]:
        attack(Assignment(**json.loads(sys.argv[2])))
    else:
        tyro.cli(main)
