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
