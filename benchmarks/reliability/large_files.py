"""Measure what it costs to refuse files of a gigabyte: `python -m benchmarks.reliability.large_files OUT.json`.

Each file is given to `export` in a new process, which measures the time and the peak of its memory above the start. On
a busy machine, look at the seconds of the CPU. The libraries are imported before, because every command imports them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import alphamepol as am
from alphamepol.files.json_files import LARGEST_JSON

SIZE = 10**9
CONFIG = am.PretrainConfig(
    epochs=1, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2
)
WIDTH = 15_000
"""The width of two layers whose weights have 0.9 GB."""


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = am.pretrain("gridworld-slope", CONFIG, folder=folder / "run", quiet=True).folder
        am.export(run, folder / "policy.zip", "sb3")
        found = {}
        for title, make in CASES.items():
            place = folder / "case"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(run, place / "run")
            shutil.copy(folder / "policy.zip", place / "policy.zip")
            given = make(place)
            found[title] = {"megabytes": round(_largest(place) / 1e6), **_refusal(given)}
            print(title, found[title], flush=True)
    out.write_text(json.dumps(found, indent=2) + "\n")


def _largest(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _refusal(given: Path) -> dict[str, Any]:
    """Let a new process read the policy, and return its time, its peak memory above the start, and its sentence."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.reliability.large_files", "--read", str(given)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _read(given: Path) -> None:
    import stable_baselines3  # noqa: F401

    am.load_policy("gridworld-slope/alpha-0.2")  # what every reading needs is imported and compiled
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, start, worked = _memory("VmRSS"), time.perf_counter(), time.process_time()
    try:
        am.export(given, "/dev/null/x.zip", "sb3")
        said = "accepted"
    except am.InputError as error:
        said = str(error).replace(str(given), "FILE")
    seconds = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - worked}
    found = {name: round(value, 2) for name, value in seconds.items()}
    print(json.dumps({**found, "peak_megabytes": round((_memory("VmHWM") - before) / 1e6), "said": said}))


def _memory(field: str) -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return 1024 * int(line.split()[1])


def _sparse(name: str) -> Callable[[Path], Path]:
    """Return a function that lengthens a file of the run to `SIZE` bytes."""

    def make(place: Path) -> Path:
        os.truncate(place / "run" / name, SIZE)
        return place / "run"

    return make


def _dense_json(place: Path) -> Path:
    (place / "run/config.json").write_text("[" + "{}," * (SIZE // 3) + "{}]")
    return place / "run"


def _most_values(place: Path) -> Path:
    """Make a JSON file that is just small enough to be parsed, with as many values as are allowed."""
    text = "[" + ",".join(f'{{"{n}":{n}.5}}' for n in range(499_000)) + "]"
    assert len(text) < LARGEST_JSON
    (place / "run/config.json").write_text(text)
    return place / "run"


def _policy(damage: Callable[[Path], None]) -> Callable[[Path], Path]:
    """Return a function that writes a policy with two large layers, and damages it."""

    def make(place: Path) -> Path:
        policy = am.load_policy(place / "run")
        path = place / "large.safetensors"
        _write_large_policy(policy, path)
        damage(path)
        return path

    return make


def _write_large_policy(policy: am.Policy, path: Path) -> None:
    from safetensors.numpy import save_file

    from alphamepol.files.arrays import named_array_leaves
    from alphamepol.policies.files import FORMAT

    arrays = {name: np.asarray(leaf) for name, leaf in named_array_leaves(policy).items()}
    names = [name for name in arrays if name.startswith("layers")]
    shapes = [(WIDTH, 2), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (2, WIDTH), (2,)]
    arrays |= {name: np.zeros(shape, np.float32) for name, shape in zip(names, shapes, strict=True)}
    header = {"format": FORMAT, "architecture": {**policy.architecture, "hidden": [WIDTH, WIDTH]}, "sha256": "0" * 64}
    save_file(arrays, path, metadata={"alphamepol": json.dumps(header)})


def _nothing(path: Path) -> None:
    pass


def _not_finite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(np.nan).tobytes())


def _long_header(path: Path) -> None:
    with path.open("wb") as file:
        file.write((SIZE - 8).to_bytes(8, "little") + b"{" + b" " * (SIZE - 10) + b"}")


def _zip(name: str, compression: int) -> Callable[[Path], Path]:
    """Return a function that makes a zip whose part `name` has `SIZE` bytes."""

    def make(place: Path) -> Path:
        path = place / "large.zip"
        with zipfile.ZipFile(place / "policy.zip") as old, zipfile.ZipFile(path, "w", compression) as new:
            for part in old.namelist():
                if part != name:
                    new.writestr(part, old.read(part))
            new.writestr(name, bytes(SIZE))
        return path

    return make


def _zip_of_many_parts(place: Path) -> Path:
    path = place / "many.zip"
    with zipfile.ZipFile(path, "w") as new:
        for number in range(300_000):
            new.writestr(f"{number}", b"")
    return path


CASES: dict[str, Callable[[Path], Path]] = {
    "config.json, zeros": _sparse("config.json"),
    "config.json, 333 million values": _dense_json,
    "config.json, a million values": _most_values,
    "summary.json, zeros": _sparse("summary.json"),
    "class.json, zeros": _sparse("class.json"),
    "policy, lengthened": _sparse("policy/seed-0.safetensors"),
    "policy, wrong checksum": _policy(_nothing),
    "policy, a NaN": _policy(_not_finite),
    "policy, a header of 1 GB": _policy(_long_header),
    "zip, settings of 1 GB": _zip("data", zipfile.ZIP_STORED),
    "zip, weights of 1 GB": _zip("policy.pth", zipfile.ZIP_STORED),
    "zip, weights of 1 GB in 1 MB": _zip("policy.pth", zipfile.ZIP_DEFLATED),
    "zip, 300 000 parts": _zip_of_many_parts,
}


if __name__ == "__main__":
    if sys.argv[1] == "--read":
        _read(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
