"""The folder of runs. A run is recognised by what it computes, not by the name of its folder."""

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT, own_settings_by_finetuner_name
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.errors import InputError
from alphamepol.evaluation.run_summaries import summarise_run_so_far
from alphamepol.files.json_files import value_has_type
from alphamepol.files.names import join_path_words, name_as_path
from alphamepol.files.reading import ODD, check_folder_is_plain
from alphamepol.reproduction.planned import (
    AMOUNTS,
    AnyConfig,
    Identity,
    Planned,
    family_of_planned_run,
    hash_of_planned_run,
    identity_of_planned_run,
)
from alphamepol.runs.checkpoints import saved_checkpoints
from alphamepol.runs.description import Number
from alphamepol.runs.folder import RunFolder
from alphamepol.settings.conversion import settings_from_dict

CONFIGS: dict[str, type[AnyConfig]] = {
    "pretrain": PretrainConfig,
    "untrained": PretrainConfig,
    "gradient-variance": PretrainConfig,
    "finetune": type(own_settings_by_finetuner_name(DEFAULT)),
    "metatrain": MetatrainConfig,
}
"""The settings class of each command."""
DESCRIBED: dict[str, Any] = {
    "class": str,
    "members": list[str],
    "probabilities": list[Number],
    "member": str,
    "tasks": list[Any] | None,
    "init": str | None,
    "diayn": str | None,
    "batches": int,
    "checkpoints": list[int],
    "command_line": str,
    "versions": dict[str, Any],
    "commit": str | None,
    "device": str,
}
"""The types of the parts of config.json that are read here. Not every run has all of them."""
NEEDED = {"finetune": ("member", "init"), "gradient-variance": ("init", "batches")}
"""The parts of config.json without which a run of a command cannot be used."""


@dataclass(frozen=True)
class Stored:
    """A run that was found in a folder."""

    folder: Path
    description: dict[str, Any]
    """The content of config.json."""
    config: AnyConfig
    identity: Identity
    shortfall: str = ""
    """The amounts that are smaller than planned, e.g. `100 of 400 epochs`; empty if the run is as long as planned."""
    share: float = 1.0
    """The share of the planned work that was done, including the work of the runs that this run began from."""
    so_far: dict[str, Any] | None = None
    """The summary of the steps so far, if the run has not ended."""
    name: str = ""
    """The name of the run in pages; that of its folder, and of folders above if this is not enough to tell it apart."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        return RunFolder(self.folder).read_summary() if self.so_far is None else self.so_far

    @cached_property
    def evaluation(self) -> Any:
        from alphamepol.measuring.evaluation_files import load_evaluation

        if not self.evaluated:
            raise InputError("evaluation")
        path = self.folder / "evaluation.safetensors"
        found = load_evaluation(path)
        if list(found.members) != self.summary.get("members", list(found.members)):
            raise InputError(f"run: {path} has other members than summary.json")
        return found

    @property
    def policies(self) -> int:
        """The number of policies that take turns in the run, if it began from another run; otherwise 0."""
        before = self.identity.get("init")
        if not isinstance(before, dict):
            return 0
        usual: int = CONFIGS[before["command"]]().seeds
        return self.summary.get("policies") or before["config"].get("seeds", usual)

    @cached_property
    def finished(self) -> bool:
        """True if the run has a summary that can be read."""
        try:
            return bool(self.summary)
        except InputError:
            return False

    @property
    def evaluated(self) -> bool:
        """True if the folder has the evaluation of the run."""
        return self.so_far is None and (self.folder / "evaluation.safetensors").is_file()

    @property
    def completeness(self) -> tuple[bool, bool]:
        """The sort key among equal runs: the store takes the most complete one."""
        return self.finished, self.evaluated


class Store:
    """The runs of a reproduction: all run folders at any depth below `runs/` in the folder of the reproduction."""

    def __init__(self, folder: Path):
        check_folder_is_plain(folder, files=["reproduction.json"], folders=["runs", "figures", "policies"])
        self.folder = folder
        self.runs = folder / "runs"
        self.problems: list[str] = []
        """A sentence for each run that is in the folder but cannot be used."""
        self._by_hash: dict[str, Stored] = {}
        self.look()

    def look(self) -> None:
        """Read the folder again."""
        self.problems, self._by_hash = [], {}
        described: dict[Path, dict[str, Any]] = {}
        for path in sorted(self.runs.glob("**/config.json")):
            try:
                described[path.parent.relative_to(self.runs)] = _read_stored_description(path.parent)
            except InputError as error:
                self.problems.append(f"ignored: {error}")
        for place, description in described.items():
            identity = _identity_of_stored_run(place, described)
            if identity is None:
                self.problems.append(
                    f"ignored: {self.runs / place} began from {description.get('init')}, which was not found"
                )
                continue
            config = settings_from_dict(CONFIGS[description["command"]], description["config"])
            stored = Stored(self.runs / place, description, config, identity, name=place.name)
            if (stored.folder / "summary.json").is_file() and not stored.finished:
                self.problems.append(f"ignored: {stored.folder / 'summary.json'} cannot be used")
            known = self._by_hash.get(hash_of_planned_run(identity))
            if known is None or stored.completeness > known.completeness:
                self._by_hash[hash_of_planned_run(identity)] = stored

    def all(self) -> list[Stored]:
        return [stored for stored in self._by_hash.values() if stored.finished]

    def find(self, planned: Planned) -> Stored | None:
        """Return the finished run that was planned, or else the longest run that differs only in being shorter."""
        exact = self._by_hash.get(hash_of_planned_run(planned.identity))
        if exact is not None and exact.finished:
            return exact
        family = family_of_planned_run(planned.identity)
        shorter = []
        for stored in self.all():
            if family_of_planned_run(stored.identity) == family and (
                short := _shortfalls_of_stored_run(planned.identity, stored.identity)
            ):
                said = ", ".join(f"{found:g} of {asked:g} {field}" for field, found, asked in short)
                share = math.prod(found / asked for _, found, asked in short)
                shorter.append(dataclasses.replace(stored, shortfall=said, share=share))
        return max(shorter, key=lambda stored: stored.share, default=None)

    def is_done(self, planned: Planned) -> bool:
        stored = self._by_hash.get(hash_of_planned_run(planned.identity))
        return stored is not None and stored.finished

    def place_of(self, planned: Planned) -> Path:
        """Return the folder in which a run was begun, or the path of a new folder."""
        stored = self._by_hash.get(hash_of_planned_run(planned.identity))
        name = join_path_words(name_as_path(planned.name), hash_of_planned_run(planned.identity)[:8])
        return stored.folder if stored else self.runs / name


def stored_run_has_products(folder: Path) -> bool:
    """Return True if the folder has the policies or discriminators that other runs begin from."""
    return any(any((folder / name).glob("*.safetensors")) for name in ("policy", "discriminator"))


def checkpoints_not_in_stored_run(folder: Path, wanted: Sequence[int]) -> list[int]:
    """Return those of the wanted checkpoints of pre-training that a folder does not have, as numbers of epochs."""
    saved = saved_checkpoints(RunFolder(folder).checkpoints, "epoch")
    return [number for number in wanted if number not in saved]


def read_stored_runs(folders: Sequence[Path]) -> list[Stored]:
    """Read runs from their folders; they need not belong to a reproduction."""
    described = dict(zip(_places_of_stored_runs(folders), map(_read_stored_description, folders), strict=True))
    found = []
    for folder, (place, description) in zip(folders, described.items(), strict=True):
        config = settings_from_dict(CONFIGS[description["command"]], description["config"])
        identity = _identity_of_stored_run(place, described) or {"command": description["command"], "config": {}}
        stored = Stored(folder, description, config, identity, name=str(place))
        if not RunFolder(folder).ended:
            said, told = summarise_run_so_far(RunFolder(folder), description, config)
            stored = dataclasses.replace(stored, shortfall=said, so_far=told)
        elif not stored.summary:  # reading it raises an error if it cannot be used
            raise InputError(f"run: {folder / 'summary.json'} is empty")
        found.append(stored)
    return found


def _places_of_stored_runs(folders: Sequence[Path]) -> list[Path]:
    """Return a path for each folder: its name, with as many folders above it as are needed to tell all apart.

    Raises an `InputError` if a folder is given twice.
    """
    whole = [Path(os.path.realpath(folder)) for folder in folders]  # `resolve` fails if a link leads to itself
    if twice := [folder for folder, path in zip(folders, whole, strict=True) if whole.count(path) > 1]:
        raise InputError(f"folder: {twice[0]} was given more than once")
    for depth in range(1, max(len(path.parts) for path in whole) + 1):
        places = [Path(*path.parts[-depth:]) for path in whole]
        if len(set(places)) == len(places):
            return places
    return whole


def _shortfalls_of_stored_run(planned: Identity, found: Identity) -> list[tuple[str, int, int]]:
    """Return (field, found, planned) for each amount that is smaller than planned.

    The amounts of the runs that the run began from are included. The list is empty if an amount is larger than planned.
    """
    usual = CONFIGS[planned["command"]]()
    amounts = [
        (field, *(one["config"].get(field, getattr(usual, field)) for one in (found, planned)))
        for field in AMOUNTS[planned["command"]]
    ]
    if any(done > asked for _, done, asked in amounts):
        return []
    short = [(field, done, asked) for field, done, asked in amounts if done < asked]
    for part in ("init", "diayn"):
        if isinstance(planned.get(part), dict) and planned[part] != found[part]:
            before = _shortfalls_of_stored_run(planned[part], found[part])
            if not before:
                return []
            # The seeds of measured gradients are those of the measured run, and count once.
            own = AMOUNTS[planned["command"]] if planned["command"] == "gradient-variance" else ()
            short += [(f"{field} before", done, asked) for field, done, asked in before if field not in own]
    return short


def _read_stored_description(folder: Path) -> dict[str, Any]:
    """Return the config.json of a run. Raise an `InputError` that names the folder if the run cannot be reported."""
    description = RunFolder(folder).read_config()
    kind = CONFIGS.get(str(description.get("command")))
    if kind is None or not isinstance(description.get("class"), str):
        raise InputError(f"run: {folder} is not a run that can be reported")
    for name, wanted in DESCRIBED.items():
        if name in description and not value_has_type(description[name], wanted):
            raise InputError(f"run: {folder / 'config.json'} cannot be used, its {name} is {description[name]!r:.80}")
    for name in NEEDED.get(description["command"], ()):
        if description.get(name) is None:
            raise InputError(f"run: {folder / 'config.json'} cannot be used, it has no {name}")
    try:
        settings_from_dict(kind, description["config"]).check()
    except ODD as error:
        raise InputError(f"run: {folder} has settings that are not known here ({error})") from error
    return description


def _identity_of_stored_run(
    place: Path, described: dict[Path, dict[str, Any]], after: tuple[Path, ...] = ()
) -> Identity | None:
    """Return the identity of a run, from its config.json and the config.json of the run that it began from.

    Return None if the run that it began from was not found. `after` are the runs that began from this run.
    """
    description = described[place]
    config = settings_from_dict(CONFIGS[description["command"]], description["config"])
    named = ("member", "batches", "checkpoints")
    parts: dict[str, Any] = {part: description[part] for part in named if part in description}
    after = (*after, place)
    for part in ("init", "diayn"):
        given = description.get(part)
        if given == "random":
            parts[part] = given
        elif given is not None:
            # The run may have been moved since: only the end of the recorded path must match.
            words = Path(given).parts
            ends = (Path(*words[start:]) for start in range(len(words)))
            # A run cannot have begun from itself, nor from a run that began from it.
            before = next((end for end in ends if end not in after and _stored_run_trains(described.get(end))), None)
            inner = None if before is None else _identity_of_stored_run(before, described, after)
            if inner is None:
                return None
            parts[part] = inner
    return identity_of_planned_run(description["command"], description["class"], config, parts)


def _stored_run_trains(description: dict[str, Any] | None) -> bool:
    return description is not None and description["command"] in ("pretrain", "metatrain")
