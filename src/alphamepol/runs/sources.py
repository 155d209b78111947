"""The sources of policies: a run folder, a policy file, a released policy, given policies, or `random` (untrained)."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphamepol.errors import InputError
from alphamepol.policies.files import load_policy, released_policy_files
from alphamepol.policies.policy import Policy
from alphamepol.runs.folder import RunFolder
from alphamepol.settings.conversion import settings_from_dict

RANDOM = "random"
TRAINING = {
    "pretrain": ("alphamepol.algorithms.alphamepol.config", "PretrainConfig"),
    "metatrain": ("alphamepol.algorithms.metatraining.config", "MetatrainConfig"),
}
"""The commands that train policies, each with the module and the name of its settings."""


Given = str | Path | Policy | Mapping[int, Policy]
"""The types of sources: the folder of a run that trained policies, a policy file, the name of a released policy, a
policy, policies by their seeds, or "random"."""


@dataclass(frozen=True)
class Source:
    """Policies from one source, and what is known about them."""

    name: str
    """The source as it was given: a path, the name of a released policy, or `random`."""
    label: str
    """The name of the source in figures."""
    policies: Mapping[int, Policy]
    """The policies by seed, or by number. There are none for `random`, because every use builds an untrained policy."""
    class_name: str | None = None
    """The class that the policies were trained on; None if it is unknown."""
    config: Any = None
    """The settings of the run; None if the source is not a run."""

    @property
    def memory(self) -> str:
        """The memory of the policies: none, last or recurrent; empty for `random`."""
        return next((_source_memory(policy) for policy in self.policies.values()), "")


def read_source(given: Given, random_memory: str = "none") -> Source:
    """Read a source of policies. `random_memory` is the memory of Random, which its label shows."""
    if isinstance(given, Policy):
        return Source("policy", _source_label("policy", _source_memory(given)), {0: given})
    if isinstance(given, Mapping):
        if not given:
            raise InputError("policies: none was given; at least one is needed")
        return Source("policies", _source_label("policies", _source_memory(next(iter(given.values())))), given)
    if str(given) == RANDOM:
        return Source(RANDOM, _source_label("Random", random_memory), {})
    path = Path(given)
    if path.is_dir():
        return _read_run_as_source(path)
    if not path.is_file() and str(given) not in released_policy_files():
        raise InputError(f"run: there is no run folder, policy file or released policy {path}")
    policy = load_policy(given)
    # The name of a released policy begins with its class.
    class_name = None if path.is_file() else str(given).partition("/")[0]
    name = path.stem if path.is_file() else str(given)
    return Source(str(given), _source_label(name, _source_memory(policy)), {0: policy}, class_name)


def _short_source_name(source: Source) -> str:
    if source.name == RANDOM:
        return source.label.lower().replace(", memory ", "-")
    path = Path(source.name).resolve()
    return path.stem if path.is_file() else path.name


def _source_label(name: str, memory: str) -> str:
    return name if memory == "none" else f"{name}, memory {memory}"


def _source_memory(policy: Policy) -> str:
    return policy.memory.kind if policy.memory else "none"


def _read_run_as_source(path: Path) -> Source:
    folder = RunFolder(path)
    described = folder.read_config()
    if described.get("command") == "finetune":
        raise InputError(
            f"run: {path} is a fine-tuning run, with a policy for each task; name one of the files in {folder.policies}"
        )
    try:
        module, kind = TRAINING[described["command"]]
        config = settings_from_dict(getattr(importlib.import_module(module), kind), described["config"])
        class_name, label = str(described["class"]), config.label
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"run: {folder.config} does not describe a run of pretrain or metatrain ({error})") from error
    return Source(str(path), label, folder.load_policies(), class_name, config)


def short_source_names(sources: Sequence[Source]) -> list[str]:
    """Return a name for each source. The names are all different, and can be part of a file name."""
    names = [_short_source_name(source) for source in sources]
    return names if len(set(names)) == len(names) else [f"{number}-{name}" for number, name in enumerate(names)]


def joined_source_names(sources: Sequence[Source]) -> str:
    """Return the short names joined by hyphens, or the number of policies if that is too long for a file name."""
    names = "-".join(short_source_names(sources))
    return names if len(names.encode()) <= 150 else f"{len(sources)}-policies"


def distinct_source_labels(sources: Sequence[Source]) -> list[str]:
    """Return the name of each source in figures: its label, and its short name if several sources have this label."""
    labels = [source.label for source in sources]
    named = zip(labels, short_source_names(sources), strict=True)
    return [label if labels.count(label) == 1 else f"{label} {name}" for label, name in named]


def common_class_of_sources(sources: Sequence[Source]) -> str:
    """Return the name of the class that the sources were trained on.

    Raises an `InputError` if no source knows its class, or if the classes differ.
    """
    classes = {source.class_name: source.name for source in sources if source.class_name}
    if not classes:
        names = " ".join(source.name for source in sources)
        raise InputError(f"class: {names} does not say in which class it acts; say so with --class")
    if len(classes) > 1:
        said = ", ".join(f"{name} of {class_name}" for class_name, name in classes.items())
        raise InputError(f"class: the runs are of different classes ({said}); say with --class which one is meant")
    (class_name,) = classes
    return checked_class_of_source(class_name)


def checked_class_of_source(class_name: str) -> str:
    """Return a class name that was read from a file.

    Raises an `InputError` if the name is a program (FILE.py:FUNCTION). A program runs only if the user names it.
    """
    if ":" in class_name:
        raise InputError(
            f"class: the run is of class {class_name}, which is a program; if it is to be run, say so: --class "
            f"{class_name}"
        )
    return class_name
