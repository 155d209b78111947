"""The folder of a run: the paths of its files, and the check that a run may use it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from alphamepol.environments.class_record import check_class_record, record_class
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError
from alphamepol.files.atomic import is_unfinished_atomic_write, write_atomically
from alphamepol.files.json_files import read_json, to_json, value_has_type
from alphamepol.files.locks import LOCK, folder_lock_held, forget_folder_lock, is_empty_but_for_lock
from alphamepol.files.names import join_path_words, name_as_path
from alphamepol.files.reading import ODD, check_folder_is_plain, refusing_odd_files
from alphamepol.policies.files import load_policies_together, read_policy_file
from alphamepol.policies.policy import Policy
from alphamepol.runs.checkpoints import checkpoint_policies_file, saved_checkpoints
from alphamepol.runs.description import SUMMARISED, check_run_summary
from alphamepol.runs.metrics import last_metrics_line
from alphamepol.settings.conversion import settings_to_dict


def default_run_folder(*words: str) -> Path:
    """Return the folder of a run if none is given: a folder in `runs`, named by the words that are not empty.

    Words that are names must come from `name_as_path`.
    """
    return Path("runs") / join_path_words(*words)


def class_in_folder_name(class_name: str) -> str:
    """Return the name of a class as part of a file name. For FILE.py:FUNCTION this is the name of the function."""
    return name_as_path(class_name.rpartition(":")[2])


PROVENANCE = ("command_line", "versions", "commit", "device", "init", "init_checkpoint", "diayn")
"""The parts of config.json that tell where a run came from. All other parts decide what the run computes."""


FILES = (
    *("config.json", "class.json", "metrics.jsonl", "summary.json", "init.safetensors", "evaluation.safetensors"),
    LOCK,
)
"""The names of the files in a run folder that commands read and write."""
FOLDERS = "checkpoints", "policy", "discriminator", "figures", "tensorboard", "diayn"
"""The names of the folders in a run folder that commands read and write."""


UNITS = "epoch", "iteration"
"""The names of a run's steps."""


class SavedCheckpoint(NamedTuple):
    """A checkpoint of a run: the name of its steps, and their number."""

    unit: str
    done: int


class RunFolder:
    """The paths inside a run folder, and the methods that read its files."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.class_record = self.path / "class.json"
        self.metrics = self.path / "metrics.jsonl"
        self.summary = self.path / "summary.json"
        self.checkpoints = self.path / "checkpoints"
        self.policies = self.path / "policy"
        self.init = self.path / "init.safetensors"
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
        """Return the content of config.json. Raises an `InputError` if a file of the run is a link or a pipe.

        Every command reads config.json first. So no command follows a link out of the folder.
        """
        if not self.config.is_file():
            raise InputError(f"run: {self.path} is not a run folder, it has no config.json")
        check_folder_is_plain(self.path, FILES, FOLDERS)
        described = _read_json_in_run_folder(self.config)
        for part in ("command", "class"):
            if not isinstance(described.get(part, ""), str):
                raise InputError(f"run: {self.config} cannot be used, its {part} is {described[part]!r:.80}")
        return described

    def write_class_record(self, environment_class: AnyClass, units: Sequence[float] | None = None) -> None:
        """Write class.json. `units` are the units of particles; None if particles are not divided by units."""
        write_atomically(self.class_record, to_json(record_class(environment_class, units)))

    def read_class_record(self) -> dict[str, Any] | None:
        """Return the content of class.json; None if the folder has none."""
        if not self.class_record.is_file():
            return None
        record = _read_json_in_run_folder(self.class_record)
        try:
            check_class_record(record)
        except ODD as error:
            raise InputError(f"run: {self.class_record} does not describe a class ({error})") from error
        return record

    def read_summary(self) -> dict[str, Any]:
        if not self.summary.is_file():
            raise InputError(f"run: {self.path} has not finished, it has no summary.json; continue it with --resume")
        summary, described = _read_json_in_run_folder(self.summary), self.read_config()
        command, config = described.get("command"), described.get("config")
        if command in SUMMARISED:
            try:
                check_run_summary(command, summary, config.get("seeds", 1) if isinstance(config, dict) else 1)
            except ODD as error:
                raise InputError(f"run: {self.summary} is not the summary of a run of {command} ({error})") from error
        return summary

    @property
    def ended(self) -> bool:
        """True if the run has finished. Its summary is written last."""
        return self.summary.is_file()

    def saved_checkpoint(self, number: int | None = None) -> SavedCheckpoint:
        """Return the checkpoint after `number` steps, or the newest one. Raises an `InputError` if there is none."""
        units = [unit for unit in UNITS if saved_checkpoints(self.checkpoints, unit)]
        if not units:
            raise InputError(
                f"run: {self.path} has no checkpoint yet, and so no policy; wait for its first checkpoint, or continue "
                "it with --resume"
            )
        unit = units[0]
        saved = saved_checkpoints(self.checkpoints, unit)
        if number is not None and number not in saved:
            there = ", ".join(map(str, saved))
            raise InputError(
                f"checkpoint: {number} was given; {self.path} has checkpoints after {unit} {there}; --keep-checkpoints "
                "of the run says how many are kept"
            )
        return SavedCheckpoint(unit, saved[-1] if number is None else number)

    def load_policies(self, checkpoint: SavedCheckpoint | None = None) -> dict[int, Policy]:
        """Read the policies of a checkpoint, or the final policies of a finished run, by seed.

        If the run has learned skills, or fine-tuned on tasks, its policies are numbered from 0. Missing files of a
        finished run are left out.
        """
        if checkpoint is None:
            found = {path.stem: read_policy_file(path) for path in self._final_policy_files()}
        else:
            found = load_policies_together(checkpoint_policies_file(self.checkpoints, *checkpoint))
        found = {name: policy for name, policy in found.items() if not name.startswith("best-")}
        if not found:
            raise InputError(f"run: {self.path} has no policy file, such as {self.policy(0)}")
        seeds = [re.fullmatch(r"seed-(\d+)", name) for name in found]
        numbers = [int(seed[1]) if seed else number for number, seed in enumerate(seeds)]
        return dict(zip(numbers, found.values(), strict=True))

    def _final_policy_files(self) -> list[Path]:
        """Return the policy files that the summary describes, in the order of their seeds, skills and tasks.

        The first skill of every seed comes before the second skills. Tasks that take the policies in turn then meet all
        seeds.
        """
        summary = self.read_summary()
        seeds: Any = summary.get("seeds")
        skills, tasks = summary.get("skills", 0), summary.get("tasks")
        if not (value_has_type(seeds, list[int]) and value_has_type(skills, int)):
            raise InputError(f"run: {self.summary} does not say which seeds (and skills) there are")
        if isinstance(tasks, list):
            pattern, groups = r"task-(?P<group>\d+)-seed-(?P<seed>\d+)", len(tasks)
        elif skills:
            pattern, groups = r"seed-(?P<seed>\d+)-skill-(?P<group>\d+)", skills
        else:
            pattern, groups = r"seed-(?P<seed>\d+)(?P<group>)", 1
        order = {seed: number for number, seed in enumerate(seeds)}
        found = []
        for path in self.policies.glob("*.safetensors"):
            name = re.fullmatch(pattern, path.stem)
            if name and int(name["seed"]) in order and int(name["group"] or 0) < groups:
                found.append((int(name["group"] or 0), order[int(name["seed"])], path))
        return [path for *_, path in sorted(found)]

    def feature_noise(self) -> float | None:
        """Return the noise that the run has added because particles coincided; None if it has not."""
        told = self.read_summary() if self.ended else last_metrics_line(self.metrics) or {}
        noise: Any = told.get("feature_noise")
        return noise if value_has_type(noise, float) else None

    def shorten(self, length: str, done: int) -> None:
        """Rewrite config.json as if the run had been planned with `done` steps. `length` is the name of the setting."""
        described = self.read_config()
        described["config"] = {**described["config"], length: done}
        write_atomically(self.config, to_json(described))

    @contextmanager
    def claim(
        self, description: dict[str, Any], *, resume: bool, length: str | None = None, settings: Any = None
    ) -> Iterator[bool]:
        """Claim the folder for the run of this description.

        Raises an `InputError`, without writing anything, if the run may not use the folder. No other process can claim
        the folder while the context lasts. The context gives True if there is something to do, and False if the run
        has finished and is only read.

        With `resume`, a run that is there continues, and a run that is not there starts. `length` is the setting that
        says how many steps the run has, e.g. epochs. It may be larger than before: then a finished run goes on.
        `settings` are the settings of the run. They say which of them may also differ from those before. A setting that
        a run does not have, because an older version began it, counts as its default.
        """
        defaults = {} if settings is None else settings_to_dict(type(settings)())
        rules = ResumeRules(length, () if settings is None else tuple(settings.CHANGEABLE), defaults)
        with refusing_odd_files(self.path):
            longer = self._check(description, resume, rules)
        if self.ended and not longer:
            yield False
            return
        with folder_lock_held(self.path):
            longer = self._check(description, resume, rules)  # another process may have used the folder meanwhile
            for leftover in [path for path in self.path.rglob(".*") if is_unfinished_atomic_write(path)]:
                leftover.unlink()  # left by a crash
            if longer:
                # The summary goes first: after a crash in between, the run has not finished, and can be resumed.
                self.summary.unlink(missing_ok=True)
            if not self.config.is_file() or self.read_config().get("config") != description.get("config"):
                write_atomically(self.config, to_json(description))
            yield not self.ended
            if self.ended:
                forget_folder_lock(self.path)  # from now on the folder is only read

    def _check(self, description: dict[str, Any], resume: bool, rules: "ResumeRules") -> bool:
        """Raise an `InputError` if the run may not use the folder. Return if it is to be longer than before."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"folder: {self.path} is a file; give the name of a folder")
        if not self.config.is_file():
            if self.path.is_dir() and not is_empty_but_for_lock(self.path):
                raise InputError(
                    f"folder: {self.path} is not empty and holds no run, because it has no config.json; choose another "
                    "--folder"
                )
            return False
        if not resume:
            raise InputError(
                f"folder: {self.path} holds another run; choose another --folder, or continue that run with --resume"
            )
        found = self.read_config()
        longer = rules.is_longer(found, description)
        if longer and self.ended and not any(self.checkpoints.glob("*.json")):
            raise InputError(
                f"folder: {self.path} holds a finished run whose checkpoints were not kept, so that it cannot go on; "
                "begin a new run from its policy with --init"
            )
        before, now = rules.what_must_agree(found, longer), rules.what_must_agree(description, longer)
        for part in now:
            if part not in PROVENANCE and before.get(part) != now[part]:
                difference = _difference_to_run_in_folder(part, before.get(part), now[part])
                raise InputError(
                    f"folder: {self.path} holds a run with another {difference}; {rules.describe()}, or choose another "
                    "--folder"
                )
        return longer


@dataclass(frozen=True)
class ResumeRules:
    """The settings that may differ if a run is resumed."""

    length: str | None
    """The setting that says how many steps the run has. It may become larger. None if there is no such setting."""
    changeable: tuple[str, ...]
    """The settings that may differ in any way."""
    defaults: Mapping[str, Any]
    """The default of every setting."""

    def is_longer(self, found: dict[str, Any], asked: dict[str, Any]) -> bool:
        """Tell whether the run is asked to have more steps than config.json says."""
        config = found.get("config")
        before = config.get(self.length) if self.length and isinstance(config, dict) else None
        return isinstance(before, int) and asked["config"][self.length] > before

    def what_must_agree(self, description: dict[str, Any], longer: bool) -> dict[str, Any]:
        """Return a description without the settings that may differ; `longer` tells if the length may."""
        config = description.get("config")
        if not isinstance(config, dict):
            return description
        left_out = (*self.changeable, self.length) if longer else self.changeable
        config = {**self.defaults, **config}
        return {**description, "config": {name: config[name] for name in config if name not in left_out}}

    def describe(self) -> str:
        """Return the end of an error message: the settings that may differ."""
        names = [f"--{name.replace('_', '-')}" for name in self.changeable]
        may = ([f"more --{self.length}"] if self.length else []) + [f"another {name}" for name in names]
        return f"resume it as it was{', but for ' + ', '.join(may) if may else ''}"


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
