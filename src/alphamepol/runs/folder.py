"""The folder of a run: the paths of its files, and the check that a run may use it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alphamepol.errors import InputError
from alphamepol.files.atomic import is_unfinished_atomic_write, write_atomically
from alphamepol.files.json_files import read_json, to_json
from alphamepol.files.locks import folder_lock_held, forget_folder_lock, is_empty_but_for_lock
from alphamepol.policies.files import load_policy
from alphamepol.policies.policy import Policy


def default_run_folder(*words: str) -> Path:
    """Return the folder of a run if none is given: a folder in `runs`, named by the words that are not empty."""
    return Path("runs") / "-".join(word for word in words if word)


def class_in_folder_name(class_name: str) -> str:
    """Return the name of a class as part of a file name. For FILE.py:FUNCTION this is the name of the function."""
    return class_name.rpartition(":")[2]


PROVENANCE = ("command_line", "versions", "commit", "device", "init", "diayn")
"""The parts of config.json that tell where a run came from. All other parts decide what the run computes."""


class RunFolder:
    """The paths inside a run folder, and the methods that read its files."""

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
        return _read_json_in_run_folder(self.config)

    def read_summary(self) -> dict[str, Any]:
        if not self.summary.is_file():
            raise InputError(f"run: {self.path} has not finished, it has no summary.json; continue it with --resume")
        return _read_json_in_run_folder(self.summary)

    def load_policies(self) -> dict[int, Policy]:
        """Read the final policies of a finished run, by seed.

        If the run has learned skills, the policies of all skills are numbered from 0. Missing files are left out.
        """
        summary = self.read_summary()
        seeds, skills = summary.get("seeds"), summary.get("skills", 0)
        # Seeds and skills become parts of file names, so they must be integers.
        if not (isinstance(seeds, list) and all(type(number) is int for number in [*seeds, skills])):
            raise InputError(f"run: {self.summary} does not say which seeds (and skills) there are")
        paths = {seed: self.policy(seed) for seed in seeds}
        if skills:
            # The first skill of every seed comes before the second skills. Tasks that take the policies in turn then
            # meet all seeds.
            paths = dict(enumerate(self.policy(seed, skill) for skill in range(skills) for seed in seeds))
        found = {number: load_policy(path) for number, path in paths.items() if path.is_file()}
        if not found:
            raise InputError(f"run: {self.path} has no policy file, such as {self.policy(0)}")
        return found

    @contextmanager
    def claim(self, description: dict[str, Any], *, resume: bool) -> Iterator[bool]:
        """Claim the folder for the run of this description.

        Raises an `InputError`, without writing anything, if the run may not use the folder. No other process can claim
        the folder while the context lasts. The context gives True if there is something to do, and False if the run
        has finished and is only read.
        """
        self._check(description, resume=resume)
        if self.summary.is_file():
            yield False
            return
        with folder_lock_held(self.path):
            self._check(description, resume=resume)  # another process may have used the folder meanwhile
            for leftover in [path for path in self.path.rglob(".*") if is_unfinished_atomic_write(path)]:
                leftover.unlink()  # left by a crash
            if not self.config.is_file():
                write_atomically(self.config, to_json(description))
            yield not self.summary.is_file()
            if self.summary.is_file():
                forget_folder_lock(self.path)  # from now on the folder is only read

    def _check(self, description: dict[str, Any], *, resume: bool) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"folder: {self.path} is a file; give the name of a folder")
        if not self.config.is_file():
            empty = not self.path.is_dir() or is_empty_but_for_lock(self.path)
            if resume:
                cure = "leave out --resume to start one" if empty else "it has no config.json"
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
                difference = _difference_to_run_in_folder(part, found.get(part), description[part])
                raise InputError(
                    f"folder: {self.path} holds a run with another {difference}; resume it as it was, or choose "
                    "another --folder"
                )


def _read_json_in_run_folder(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"run: {path} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise InputError(f"run: {path} does not hold a JSON object")
    return content


def _difference_to_run_in_folder(part: str, found: Any, asked: Any) -> str:
    if not (isinstance(found, dict) and isinstance(asked, dict)):
        return f"{part}: {json.dumps(found)}, not {json.dumps(asked)}"
    name = next(name for name in found | asked if found.get(name) != asked.get(name))
    return f"{name}: {json.dumps(found.get(name))}, not {json.dumps(asked.get(name))}"
