"""The description of a run that config.json holds, and the numbers that its summary.json must have."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from alphamepol import __version__
from alphamepol.compute.devices import device_name
from alphamepol.files.json_files import value_has_type
from alphamepol.files.names import WIDTH, join_command_words, name_as_text

PACKAGES = "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "gymnasium"
"""The packages whose versions config.json records. It also records those of physics engines, if they are installed."""
Number = float | int
_EXPLORED: dict[str, Any] = {
    "class": str,
    "members": list[str],
    "probabilities": list[Number],
    "seeds": list[int],
    "entropy": dict[str, list[Number]],
    "ceiling": dict[str, Number | None],
    "mean": list[Number],
}
SUMMARISED: dict[str, dict[str, Any]] = {
    "pretrain": _EXPLORED,
    "untrained": _EXPLORED,
    "gradient-variance": {},
    "finetune": {
        "class": str,
        "member": str,
        "label": str,
        "iterations": int,
        "tasks": list[Any],
        "returns": list[list[Number]],
        "final": dict[str, Any],
    },
    "metatrain": {
        "class": str,
        "members": list[str],
        "probabilities": list[Number],
        "label": str,
        "seeds": list[int],
    },
}
"""The parts that the summary of each command must have to be reported, with their types."""
_ALSO_SUMMARISED: dict[str, Any] = {
    "units": list[Number] | None,
    "seconds": dict[str, Number],
    "seeds": list[int],
    "policies": int,
    "seen_members": int,
    "seen_mean": list[Number],
    "seen_gap": dict[str, Number | list[Number] | None],
    "returns_by_seed": list[list[list[Number]]],
    "device": str,
}
"""The types of the parts that a summary may have, too."""


_OF_EACH_SEED = {
    *(
        "returns_by_seed",
        "mean",
        "cvar",
        "worst_members",
        "seen_mean",
        "discriminability",
        "return_before",
        "return_after",
    ),
    *("variance_with_baseline", "variance_without"),
    *("action_mean_variance_with_baseline", "action_mean_variance_without"),
}
"""The parts that have an entry for each seed, if a summary has them."""


_HELD_OUT = {"seen_members", "seen_mean", "seen_gap"}
"""The parts of a summary of a run on a generated class, all or none."""


def describe_run(command: str, class_name: str, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the content of config.json: everything needed to repeat the run, with versions, commit and device."""
    return {
        "command": command,
        "class": class_name,
        **parts,
        "command_line": join_command_words([_program_in_description(sys.argv[0]), *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), "alphamepol": __version__}
        | {package: version(package) for package in PACKAGES}
        | _versions_of_physics(),
        "commit": _commit_in_description(),
        "device": device_name(),
    }


def _versions_of_physics() -> dict[str, str]:
    """Return the versions of the physics engines that are installed."""
    found = {}
    for package in ("mujoco", "mujoco-warp", "warp-lang"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def check_run_summary(command: str, summary: dict[str, Any], planned_seeds: Any) -> None:
    """Raise ValueError if the parts of a summary that are read here are missing, of wrong types, or do not fit.

    `planned_seeds` is the number of seeds in the run's settings.
    """
    for name, kind in SUMMARISED[command].items():
        if not value_has_type(summary.get(name), kind):
            raise ValueError(f"its {name} is {summary.get(name)!r:.80}")
    for name, kind in _ALSO_SUMMARISED.items():
        if name in summary and not value_has_type(summary[name], kind):
            raise ValueError(f"its {name} is {summary[name]!r:.80}")
    members, seeds = summary.get("members", []), len(summary.get("seeds", []))
    if "seeds" in summary and seeds != planned_seeds:
        raise ValueError(f"it has {seeds} seeds, but the settings of the run have {planned_seeds!r:.80}")
    for name in _OF_EACH_SEED & summary.keys():
        if not isinstance(summary[name], list) or (seeds and len(summary[name]) != seeds):
            raise ValueError(f"its {name} does not have one entry for each seed")
    if len(members) != len(summary.get("probabilities", [])) or len(set(members)) != len(members):
        raise ValueError("it has not one probability for each member")
    if "members" in summary and not members:
        raise ValueError("it has no member")
    if told := _HELD_OUT & summary.keys():
        gap = summary.get("seen_gap", {})
        if told != _HELD_OUT or gap.keys() != {"value", "interval"}:
            raise ValueError(f"its seen_gap is {gap!r:.80}")
        value, interval = gap["value"], gap["interval"]
        whole = value_has_type(value, Number) and value_has_type(interval, list[Number] | None)
        if not whole or (interval is not None and len(interval) != 2):
            raise ValueError(f"its seen_gap is {gap!r:.80}")
    if "entropy" in SUMMARISED[command]:
        numbers = [summary["mean"], *(summary["entropy"].get(member, []) for member in members)]
        if not (members and seeds and all(len(values) == seeds for values in numbers)):
            raise ValueError("it has not one entropy for each seed and member")
        if not set(members) <= summary["ceiling"].keys():
            raise ValueError("it has not one ceiling for each member")
    if command == "finetune":
        mean, interval = (summary["final"].get(part) for part in ("mean", "interval"))
        if not (value_has_type(mean, Number) and value_has_type(interval, list[Number] | None)):
            raise ValueError(f"its final is {summary['final']!r:.80}")
        if interval is not None and len(interval) != 2:
            raise ValueError(f"its interval is {interval!r:.80}")
        for returns in [summary["returns"], *summary.get("returns_by_seed", [])]:
            if len(returns) != len(summary["tasks"]) or not returns:
                raise ValueError("it has not one list of returns for each task")
            if not summary["iterations"] == len(returns[0]) > 0 or len({len(of_task) for of_task in returns}) > 1:
                raise ValueError(f"it has not {summary['iterations']} returns for each task")


def repr_of_run(run: Any) -> str:
    """Return a short text about a finished run: its type, its folder, its class and its final numbers."""
    summary = run.summary
    place = " ".join(name_as_text(str(summary[part]), WIDTH) for part in ("class", "member") if part in summary)
    numbers = [f"{name_as_text(name, WIDTH)} {number}" for name, number in final_numbers_of_run(summary)]
    return f"{type(run).__name__}({str(run.folder)!r}, {place}: {', '.join(numbers)})"


def final_numbers_of_run(summary: dict[str, Any], most: int = 20) -> list[tuple[str, str]]:
    """Return the names and the texts of the most important numbers of a summary.json."""
    final = summary.get("final", {})
    found = summary.get("entropy") or ({"return": final} if "mean" in final else final)
    named = [(name, _number_in_repr(value)) for name, value in list(found.items())[:most]]
    return [(name, number) for name, number in named if number]


def _number_in_repr(value: Any) -> str:
    """Return the mean of a number of summary.json, which may be a list by seed or an entry with a mean."""
    value = value.get("mean") if isinstance(value, dict) else value
    values = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, float | int)]
    return f"{sum(values) / len(values):.2f}" if values else ""


def _program_in_description(path: str) -> str:
    return "alphamepol" if Path(path).name == "__main__.py" else Path(path).name


def _commit_in_description() -> str | None:
    """Return the commit of this package's source; None if it is unknown.

    The environment variable ALPHAMEPOL_COMMIT has precedence over the git checkout. The commit of a checkout ends in
    "-dirty" if the package's files are not as committed.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    told = os.environ.get("ALPHAMEPOL_COMMIT")
    if told:
        return told
    try:
        git("ls-files", "--error-unmatch", __file__)
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
