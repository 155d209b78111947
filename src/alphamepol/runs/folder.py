"""The folder of a run: what is where, and whether a run may use it."""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from alphamepol import __version__
from alphamepol.errors import InputError
from alphamepol.files import is_temporary, read_json, to_json, write_atomically
from alphamepol.policies import Policy
from alphamepol.policy_files import load_policy
from alphamepol.runs.locks import forget, held, is_empty

PROVENANCE = ("command_line", "versions", "commit", "device", "init", "diayn")
"""The parts of config.json that say where a run came from; the rest decides what it computes."""


class RunFolder:
    """Paths inside a run folder, and its readers."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.metrics = self.path / "metrics.jsonl"
        self.summary = self.path / "summary.json"
        self.checkpoints = self.path / "checkpoints"
        self.policies = self.path / "policy"
        self.evaluation = self.path / "evaluation.safetensors"
        self.discriminators = self.path / "discriminator"
        self.figures = self.path / "figures"
        self.tensorboard = self.path / "tensorboard"

    def policy(self, seed: int, skill: int | None = None) -> Path:
        of_skill = "" if skill is None else f"-skill-{skill}"
        return self.policies / f"seed-{seed}{of_skill}.safetensors"

    def discriminator(self, seed: int) -> Path:
        return self.discriminators / f"seed-{seed}.safetensors"

    def read_config(self) -> dict[str, Any]:
        if not self.config.is_file():
            raise InputError(f"run: {self.path} is not a run folder, it has no config.json")
        return _read_json(self.config)

    def read_summary(self) -> dict[str, Any]:
        if not self.summary.is_file():
            raise InputError(f"run: {self.path} has not finished, it has no summary.json; continue it with --resume")
        return _read_json(self.summary)

    def load_policies(self) -> dict[int, Policy]:
        """The final policy of every seed whose file is there; of skills, numbered from 0 on."""
        summary = self.read_summary()
        seeds, skills = summary.get("seeds"), summary.get("skills", 0)
        # They become parts of file names.
        if not (isinstance(seeds, list) and all(type(number) is int for number in [*seeds, skills])):
            raise InputError(f"run: {self.summary} does not say which seeds, and maybe skills, there are")
        paths = {seed: self.policy(seed) for seed in seeds}
        if skills:
            # All seeds come up before a skill is repeated, so that those who take turns meet them all.
            paths = dict(enumerate(self.policy(seed, skill) for skill in range(skills) for seed in seeds))
        found = {number: load_policy(path) for number, path in paths.items() if path.is_file()}
        if not found:
            raise InputError(f"run: {self.path} has no policy file, such as {self.policy(0)}")
        return found

    @contextmanager
    def claim(self, description: dict[str, Any], *, resume: bool) -> Iterator[bool]:
        """Take the folder for the run that `description` says, or refuse without writing anything.

        While the context lasts no other process can. It tells whether there is something to do: a run that has
        finished is only read.
        """
        self._check(description, resume=resume)
        if self.summary.is_file():
            yield False
            return
        with held(self.path):
            self._check(description, resume=resume)  # another process may have been here
            for leftover in [path for path in self.path.rglob(".*") if is_temporary(path)]:
                leftover.unlink()  # of a crash
            if not self.config.is_file():
                write_atomically(self.config, to_json(description))
            yield not self.summary.is_file()
            if self.summary.is_file():
                forget(self.path)  # whoever comes now only reads

    def _check(self, description: dict[str, Any], *, resume: bool) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"folder: {self.path} is a file; give the name of a folder")
        if not self.config.is_file():
            empty = not self.path.is_dir() or is_empty(self.path)
            if resume:
                cure = "leave --resume away to start one" if empty else "it has no config.json"
                raise InputError(f"folder: {self.path} holds no run to resume; {cure}")
            if not empty:
                raise InputError(f"folder: {self.path} is not empty and holds no run; choose another --folder")
            return
        if not resume:
            raise InputError(
                f"folder: {self.path} holds another run; choose another --folder, or continue that run with --resume"
            )
        found = self.read_config()
        for part in description:
            if part not in PROVENANCE and found.get(part) != description[part]:
                difference = _difference(part, found.get(part), description[part])
                raise InputError(
                    f"folder: {self.path} holds a run with another {difference}; resume it as it was, or choose "
                    "another --folder"
                )


def describe(command: str, **parts: Any) -> dict[str, Any]:
    """What config.json holds: everything needed to run it again, with versions, commit and device."""
    return {
        "command": command,
        **parts,
        "command_line": shlex.join([_program(sys.argv[0]), *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), "alphamepol": __version__}
        | {package: version(package) for package in ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy")},
        "commit": _commit(),
        "device": device_name(),
    }


def device_name() -> str:
    """The device that computes, e.g. "NVIDIA H200" or "cpu"."""
    return jax.devices()[0].device_kind


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"run: {path} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise InputError(f"run: {path} does not hold a JSON object")
    return content


def _difference(part: str, found: Any, asked: Any) -> str:
    if not (isinstance(found, dict) and isinstance(asked, dict)):
        return f"{part}: {json.dumps(found)}, not {json.dumps(asked)}"
    name = next(name for name in found | asked if found.get(name) != asked.get(name))
    return f"{name}: {json.dumps(found.get(name))}, not {json.dumps(asked.get(name))}"


def _program(path: str) -> str:
    return "alphamepol" if Path(path).name == "__main__.py" else Path(path).name


def _commit() -> str | None:
    """The commit of this package's source: what ALPHAMEPOL_COMMIT says, else that of its git checkout.

    It ends in "-dirty" if the package's files in the checkout are not as committed.
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
