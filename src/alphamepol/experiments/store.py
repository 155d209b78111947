"""The folder that holds runs, each known by what it computes, whatever its name."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from alphamepol.errors import InputError
from alphamepol.experiments.planned import (
    AMOUNTS,
    Identity,
    Planned,
    family_of,
    hash_of,
    identity_of,
)
from alphamepol.runs.config import AnyConfig, FinetuneConfig, MetatrainConfig, PretrainConfig, config_from_dict
from alphamepol.runs.folder import RunFolder

CONFIGS: dict[str, type[AnyConfig]] = {
    "pretrain": PretrainConfig,
    "untrained": PretrainConfig,
    "gradient-variance": PretrainConfig,
    "finetune": FinetuneConfig,
    "metatrain": MetatrainConfig,
}


@dataclass(frozen=True)
class Stored:
    """A run in the folder."""

    folder: Path
    description: dict[str, Any]
    """Its config.json."""
    config: AnyConfig
    identity: Identity
    shortfall: str = ""
    """How it falls short of what was planned, e.g. `100 of 400 epochs`; empty if it does not."""
    share: float = 1.0
    """Of the work that was planned, that of the runs it began from included."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text())

    @cached_property
    def evaluation(self) -> Any:
        from alphamepol.runs.evaluation_files import load_evaluation

        if not self.evaluated:
            raise InputError("its evaluation was not kept")
        return load_evaluation(self.folder / "evaluation.safetensors")

    @property
    def policies(self) -> int:
        """How many policies take turns in it, if it began from another run; 0 if every row has its own."""
        before = self.identity.get("init")
        if not isinstance(before, dict):
            return 0
        usual: int = CONFIGS[before["command"]]().seeds
        return before["config"].get("seeds", usual)

    @property
    def finished(self) -> bool:
        return (self.folder / "summary.json").is_file()

    @property
    def evaluated(self) -> bool:
        """Whether its evaluation was kept."""
        return (self.folder / "evaluation.safetensors").is_file()

    @property
    def completeness(self) -> tuple[bool, bool]:
        """Of equal runs the one with more is taken."""
        return self.finished, self.evaluated


class Store:
    """The runs of a reproduction: the folder `runs` inside its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.runs = folder / "runs"
        self._by_hash: dict[str, Stored] = {}
        self.look()

    def look(self) -> None:
        """Read what is there now."""
        described = {
            path.parent.relative_to(self.runs): description
            for path in sorted(self.runs.glob("**/config.json"))
            if (description := _read(path)) is not None
        }
        self._by_hash = {}
        for place, description in described.items():
            identity = _identity(description, described)
            if identity is None:
                continue
            config = config_from_dict(CONFIGS[description["command"]], description["config"])
            stored = Stored(self.runs / place, description, config, identity)
            known = self._by_hash.get(hash_of(identity))
            if known is None or stored.completeness > known.completeness:
                self._by_hash[hash_of(identity)] = stored

    def all(self) -> list[Stored]:
        return [stored for stored in self._by_hash.values() if stored.finished]

    def find(self, planned: Planned) -> Stored | None:
        """The finished run that was planned, or else the longest one that is the same but shorter."""
        exact = self._by_hash.get(hash_of(planned.identity))
        if exact is not None and exact.finished:
            return exact
        family = family_of(planned.identity)
        shorter = [
            dataclasses.replace(stored, shortfall=said, share=_share(planned.identity, stored.identity))
            for stored in self.all()
            if family_of(stored.identity) == family and (said := _shortfall(planned, stored))
        ]
        return max(shorter, key=lambda stored: stored.share, default=None)

    def is_done(self, planned: Planned) -> bool:
        stored = self._by_hash.get(hash_of(planned.identity))
        return stored is not None and stored.finished

    def place_of(self, planned: Planned) -> Path:
        """The folder in which it was begun, or a new one."""
        stored = self._by_hash.get(hash_of(planned.identity))
        return stored.folder if stored else self.runs / f"{planned.name}-{hash_of(planned.identity)[:8]}"


def read_runs(folders: Sequence[Path]) -> list[Stored]:
    """The runs in some folders, whatever they are of."""
    described = {folder: RunFolder(folder).read_config() for folder in folders}
    names = {Path(folder.resolve().name): description for folder, description in described.items()}
    found = []
    for folder, description in described.items():
        if not _is_known(description):
            raise InputError(f"run: {folder} is not a run that can be reported; its command is not known")
        RunFolder(folder).read_summary()  # which says so if it has not finished
        config = config_from_dict(CONFIGS[description["command"]], description["config"])
        identity = _identity(description, names) or {"command": description["command"], "config": {}}
        found.append(Stored(folder, description, config, identity))
    return found


def _share(planned: Identity, found: Identity) -> float:
    usual = CONFIGS[planned["command"]]()
    done, asked = (
        math.prod(one["config"].get(field, getattr(usual, field)) for field in AMOUNTS[planned["command"]])
        for one in (found, planned)
    )
    before = [(planned[part], found[part]) for part in ("init", "diayn") if isinstance(planned.get(part), dict)]
    return done / asked * math.prod(_share(*pair) for pair in before)


def _shortfall(planned: Planned, stored: Stored) -> str:
    """In words; empty if something is more than planned."""
    said = []
    for field in AMOUNTS[planned.command]:
        found, asked = getattr(stored.config, field), getattr(planned.config, field)
        if found > asked:
            return ""
        if found < asked:
            said.append(f"{found} of {asked} {field}")
    # If all amounts are as planned, what it began from falls short.
    return ", ".join(said) or "from a shorter run"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        description = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"run: {path} cannot be read ({error})") from error
    return description if _is_known(description) else None


def _is_known(description: Any) -> bool:
    known = isinstance(description, dict) and description.get("command") in CONFIGS
    return known and isinstance(description.get("config"), dict)


def _identity(description: dict[str, Any], described: dict[Path, dict[str, Any]]) -> Identity | None:
    """What a run computed, from its config.json and those beside it; None if what it began from is not there."""
    command = description["command"]
    try:
        config = config_from_dict(CONFIGS[command], description["config"])
    except TypeError as error:
        raise InputError(f"run: a config.json of {command} has settings that are not known ({error})") from error
    parts: dict[str, Any] = {part: description[part] for part in ("member", "batches") if part in description}
    for part in ("init", "diayn"):
        given = description.get(part)
        if given == "random":
            parts[part] = given
        elif given is not None:
            # Its path may have begun elsewhere.
            ends = (Path(*Path(given).parts[start:]) for start in range(len(Path(given).parts)))
            before = next((described[end] for end in ends if end in described), None)
            inner = before and _identity(before, described)
            if inner is None:
                return None
            parts[part] = inner
    return identity_of(command, description["class"], config, **parts)
