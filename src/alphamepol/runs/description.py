"""The description of a run that config.json holds."""

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from alphamepol import __version__
from alphamepol.compute.devices import device_name


def describe_run(command: str, class_name: str, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the content of config.json: everything needed to repeat the run, with versions, commit and device."""
    return {
        "command": command,
        "class": class_name,
        **parts,
        "command_line": shlex.join([_program_in_description(sys.argv[0]), *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), "alphamepol": __version__}
        | {package: version(package) for package in ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy")},
        "commit": _commit_in_description(),
        "device": device_name(),
    }


def repr_of_run(run: Any) -> str:
    """Return a short text about a finished run: its type, its folder, its class and its final numbers."""
    summary = run.summary
    place = " ".join(str(summary[part]) for part in ("class", "member") if part in summary)
    final = summary.get("final", {})
    found = summary.get("entropy") or ({"return": final} if "mean" in final else final)
    numbers = [f"{name} {text}" for name, value in list(found.items())[:20] if (text := _number_in_repr(value))]
    return f"{type(run).__name__}({str(run.folder)!r}, {place}: {', '.join(numbers)})"


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
