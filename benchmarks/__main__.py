"""Measure how long each part takes on this machine: `python -m benchmarks --help`.

Each time is compared with its floor on this machine, and with other libraries.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from alphamepol import __version__
from alphamepol.compute.machine import machine_cores
from benchmarks.group import GROUPS

console = Console()


def main(
    groups: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="GROUP …")] = (),
    /,
    rounds: int = 5,
    seeds: int = 1,
    out: Path = Path("benchmarks.json"),
    compare: Path | None = None,
) -> int:
    """Measure the time of each part, show it in tables, and write it to a JSON file.

    Every group is measured in its own process, and our code and other libraries in alternating rounds. Between machines
    and days, compare ratios, not seconds.

    Args:
        groups: The groups to measure; if none is given, all but gpu-physics, which needs a GPU. They are pretraining,
            memories, off-policy-loop, exact-kl, neighbours, finetuning, metatraining, minigrid, hosts, physics,
            gpu-physics, starting and demo.
        rounds: The number of measured rounds. A round that compiles comes before them.
        seeds: The number of seeds in pre-training and in its search for neighbours.
        out: The JSON file to write.
        compare: An earlier JSON file. The tables then show its time over the time now, and its share of the floor.
    """
    if unknown := [name for name in groups if name not in GROUPS]:
        console.print(f"benchmarks: there is no group {unknown[0]}; there are {', '.join(GROUPS)}")
        return 2
    if compare and not compare.is_file():
        console.print(f"benchmarks: there is no file {compare} to compare with")
        return 2
    before = json.loads(compare.read_text()) if compare else None
    found: dict[str, Any] = {}
    failed = False
    for name in groups or [name for name in GROUPS if name != "gpu-physics"]:
        with console.status(f"{name} …"):
            found[name] = _in_a_process(name, rounds, seeds)
        failed |= "error" in found[name]
        console.print(_table(name, found[name], before and before["groups"].get(name)))
        out.write_text(json.dumps({"machine": _machine(found), "groups": found}, indent=1, ensure_ascii=False) + "\n")
    console.print(f"Written: {out}")
    return 1 if failed else 0


def _in_a_process(name: str, rounds: int, seeds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        words = ["-m", "benchmarks.group", name, str(rounds), str(seeds), str(result)]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it ended with an error"}
        return json.loads(result.read_text())


def _machine(found: dict[str, Any]) -> dict[str, Any]:
    devices = {group["device"] for group in found.values() if "device" in group}
    versions = {"python": platform.python_version(), "alphamepol": __version__}
    commit = (
        os.environ.get("ALPHAMEPOL_COMMIT")
        or subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
        ).stdout.strip()
    )
    return {
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "device": ", ".join(sorted(devices)),
        "cores": machine_cores(),
        "versions": versions | {name: version(name) for name in ("jax", "numpy", "scipy")},
    }


def _table(name: str, group: dict[str, Any], before: dict[str, Any] | None) -> Table | str:
    if "error" in group:
        return f"{name}: {group['error']}"
    rates = f"{group['matmul_gflops_per_second']:.0f} GFLOP/s, {group['bandwidth_gb_per_second']:.0f} GB/s"
    table = Table(title=f"{name}: {group['device']}, {rates}, {group['peak_memory_gib']:.2f} GiB at most")
    for column in ("", "seconds", "least … most", "floor", "share", "others, times ours"):
        table.add_column(column, justify="left" if column in ("", "others, times ours") else "right")
    if before:
        table.add_column("before / now", justify="right")
    earlier = {one["name"]: one for one in (before or {}).get("measurements", [])}
    for one in group["measurements"]:
        seconds = one["seconds"]
        floor, share = one.get("floor_seconds"), one.get("share_of_floor")
        others = [f"{peer} {found['times_ours']:.2f}" for peer, found in one.get("peers", {}).items()]
        row = [
            one["name"],
            f"{seconds['median']:.3g}",
            f"{seconds['least']:.3g} … {seconds['most']:.3g}",
            "" if floor is None else f"{floor:.3g}",
            "" if share is None else f"{100 * share:.0f} %",
            "\n".join(others),
        ]
        if before:
            old = earlier.get(one["name"])
            share_then = f", {100 * old['share_of_floor']:.0f} %" if old and "share_of_floor" in old else ""
            row.append(f"{old['seconds']['median'] / seconds['median']:.2f}{share_then}" if old else "new")
        table.add_row(*row)
    formulas: dict[str, str] = {}
    for one in group["measurements"]:
        if "floor" in one:
            formulas.setdefault(one["floor"], one["name"])
    notes = [f"floor of {name}: {formula}" for formula, name in formulas.items()]
    notes += [f"{one['name']}: {one['note']}" for one in group["measurements"] if "note" in one]
    table.caption, table.caption_justify = "\n".join(notes), "left"
    return table


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
