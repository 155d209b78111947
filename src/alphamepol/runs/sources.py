"""The sources of policies: a run folder, a policy file, a released policy, given policies, or `random` (untrained)."""

import dataclasses
import hashlib
import importlib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.arrays import pack_arrays
from alphamepol.files.json_files import value_has_type
from alphamepol.files.names import message_as_text, name_as_path
from alphamepol.files.reading import ODD, refusing_odd_files
from alphamepol.policies.files import (
    load_policies_together,
    read_policy_file,
    released_policy_files,
    save_policies_together,
)
from alphamepol.policies.policy import Policy
from alphamepol.runs.folder import RunFolder, SavedCheckpoint
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
    checkpoint: SavedCheckpoint | None = None
    """The checkpoint of the run that the policies are from; None if they are not from a checkpoint."""
    class_record: dict[str, Any] | None = None
    """The content of the run's class.json; None if there is none."""

    @property
    def notice(self) -> str:
        """A sentence that says which checkpoint is used; empty if the policies are not from a checkpoint."""
        if self.checkpoint is None:
            return ""
        unit, done = self.checkpoint
        planned = getattr(self.config, f"{unit}s", None)
        return f"{self.name}: using the checkpoint after {unit} {done}{f' of {planned}' if planned else ''}"

    @property
    def memory(self) -> str:
        """The memory of the policies: none, last or recurrent; empty for `random`."""
        return next((_source_memory(policy) for policy in self.policies.values()), "")


def read_source(given: Given, random_memory: str = "none", checkpoint: int | None = None) -> Source:
    """Read a source of policies.

    `random_memory` is the memory of Random, which its label shows. `checkpoint` is the number of steps of the
    checkpoint to read from a run folder. If it is not given, the final policies of a finished run are read, and
    otherwise those of the newest checkpoint.
    """
    if isinstance(given, Policy):
        return Source("policy", _source_label("policy", _source_memory(given)), {0: given})
    if isinstance(given, Mapping):
        if not given:
            raise InputError("policies: none was given; at least one is needed")
        return Source("policies", _source_label("policies", _source_memory(next(iter(given.values())))), given)
    if str(given) == RANDOM:
        return Source(RANDOM, _source_label("Random", random_memory), {})
    with refusing_odd_files(str(given)):
        return _read_path_as_source(Path(given), checkpoint)


def _read_path_as_source(path: Path, checkpoint: int | None) -> Source:
    """Read a source from a run folder, a policy file, or the name of a released policy."""
    given = path.as_posix()
    if path.is_dir():
        return _read_run_as_source(path, checkpoint)
    if not path.is_file() and given not in released_policy_files():
        raise InputError(f"run: there is no run folder, policy file or released policy {path}")
    policy = read_policy_file(given)
    if not path.is_file():
        # The name of a released policy begins with its class.
        label, class_name = _source_label(given, _source_memory(policy)), given.partition("/")[0]
        return Source(given, label, {0: policy}, class_name)
    record = RunFolder(path.resolve().parent.parent).read_class_record()  # of the run that the file lies in, if any
    class_name = str(record["class"]) if record and "class" in record else None
    label = _source_label(path.stem, _source_memory(policy))
    return Source(str(path), label, {0: policy}, class_name, class_record=record)


def load_policy(path: str | Path, *, seed: int | None = None, checkpoint: int | None = None) -> Policy:
    """Read a policy from a file or a run folder, or read a released policy by its name.

    A file must come from `save_policy`, from a run, or from `export`. It contains everything that is needed to build
    the policy. Reading a file never runs a program from it.

    **Arguments**

    - `path`: a safetensors file, a zip file of Stable-Baselines3, the folder of a run, or the name of a released
      policy. This name consists of the class and the method, e.g. `gridworld-slope/alpha-0.2`. If the run has not
      ended, its newest checkpoint is read, and a warning says so.
    - `seed`: the seed of the policy in a run folder. For a run of DIAYN or of fine-tuning it is the number of the
      policy: all seeds of the first skill come first, and all seeds of the first task. If it is not given, the first
      policy is read.
    - `checkpoint`: the number of epochs or iterations after which a run saved the policy, e.g. 40. Runs keep their last
      two checkpoints, unless `keep_checkpoints` says otherwise.

    **Returns**

    A `GaussianPolicy`, `CategoricalPolicy` or `SquashedPolicy`.

    **Raises**

    - `InputError`: if there is no such file, run or checkpoint, and no released policy of this name.
    - `InputError`: if the file cannot be read as a policy.
    - `InputError`: if the file is a zip file, and Stable-Baselines3 is not installed.

    **Example**

    ```python
    import alphamepol as am
    import numpy as np

    policy = am.load_policy("gridworld-slope/alpha-0.2")
    print(policy.kind, policy.observation_size, policy.action_size)  # gaussian 2 2
    print(policy.mean(np.array([0.0, 0.9])))  # the mean action in the north of the map
    ```
    """
    if not Path(path).is_dir():
        if seed is not None or checkpoint is not None:
            raise InputError(f"seed, checkpoint: they choose a policy of a run, but {path} is not a run folder")
        return read_policy_file(path)
    folder = RunFolder(path)
    with refusing_odd_files(path):
        folder.read_config()  # raises an error if this is not a run folder
        saved = folder.saved_checkpoint(checkpoint) if checkpoint is not None or not folder.ended else None
        policies = folder.load_policies(saved)
    if saved is not None and checkpoint is None:
        said = f"{path} has not ended; its policy after {saved.unit} {saved.done} is read"
        warnings.warn(message_as_text(said), stacklevel=2)
    return choose_policy_of_run(policies, seed, str(path))


def choose_policy_of_run(policies: Mapping[int, Policy], seed: int | None, name: str) -> Policy:
    """Return the policy of a seed, or the first one. Raises an `InputError` if the seed is not there."""
    if seed is not None and seed not in policies:
        raise InputError(f"seed: {seed} was given; {name} has {', '.join(map(str, policies))}")
    return policies[next(iter(policies)) if seed is None else seed]


def say_checkpoints_of_sources(sources: Sequence[Source], *, quiet: bool = False) -> None:
    """Say for each source that is a checkpoint which one it is."""
    console = Console(stderr=True, quiet=quiet)
    for source in sources:
        if source.checkpoint is not None:
            say_in_terminal(console, source.notice)


def describe_source(source: Source | None) -> dict[str, Any]:
    """Return the entries of config.json that say from which policies a run begins."""
    if source is None:
        return {"init": None, "init_sha256": None}
    policies = list(source.policies.values())
    checkpoint = {} if source.checkpoint is None else {"init_checkpoint": source.checkpoint.done}
    sha256 = hashlib.sha256(pack_arrays(policies, {})).hexdigest()
    return {"init": source.name, "init_sha256": sha256, **checkpoint}


def keep_source_of_run(source: Source | None, folder: RunFolder) -> None:
    """Keep the policies that a run begins from in its folder, if they are from a checkpoint, which may be deleted."""
    if source is not None and source.checkpoint is not None and not folder.init.is_file():
        save_policies_together({str(number): policy for number, policy in source.policies.items()}, folder.init)


def source_of_resumed_run(source: Source, folder: RunFolder) -> Source:
    """Return the source with the policies that the run in the folder has begun from, if the folder has kept them."""
    if source.checkpoint is None or not folder.init.is_file():
        return source
    described = folder.read_config()
    if described.get("init") != source.name:
        return source
    kept = load_policies_together(folder.init)
    done: Any = described.get("init_checkpoint")
    if not (value_has_type(done, int) and all(re.fullmatch(r"\d{1,10}", number, re.ASCII) for number in kept)):
        raise InputError(f"run: {folder.init} and {folder.config} do not say which policies the run began from")
    policies = {int(number): policy for number, policy in kept.items()}
    return dataclasses.replace(source, policies=policies, checkpoint=SavedCheckpoint(source.checkpoint.unit, done))


def _short_source_name(source: Source) -> str:
    if source.name == RANDOM:
        return source.label.lower().replace(", memory ", "-")
    path = Path(source.name).resolve()
    return path.stem if path.is_file() else path.name


def _source_label(name: str, memory: str) -> str:
    return name if memory == "none" else f"{name}, memory {memory}"


def _source_memory(policy: Policy) -> str:
    return policy.memory.kind if policy.memory else "none"


def read_sources(given: Sequence[Given], random_memory: str = "none", checkpoint: int | None = None) -> list[Source]:
    """Read several sources of policies. `checkpoint` applies to all run folders among them.

    Raises an `InputError` if a checkpoint is given, but no run folder.
    """
    sources = [read_source(one, random_memory, checkpoint) for one in given]
    if checkpoint is not None and not any(source.checkpoint for source in sources):
        raise InputError(f"checkpoint: {checkpoint} was given, but no run folder, which alone has checkpoints")
    return sources


def _read_run_as_source(path: Path, checkpoint: int | None) -> Source:
    folder = RunFolder(path)
    described = folder.read_config()
    if described.get("command") == "finetune":
        which = f"name one of the files in {folder.policies}" if folder.ended else "load_policy reads them from Python"
        raise InputError(f"run: {path} is a fine-tuning run, with a policy for each task; {which}")
    try:
        module, kind = TRAINING[described["command"]]
        config = settings_from_dict(getattr(importlib.import_module(module), kind), described["config"])
        config.check()
        class_name, label = str(described["class"]), config.label
    except ODD as error:
        raise InputError(f"run: {folder.config} does not describe a run of pretrain or metatrain ({error})") from error
    saved = folder.saved_checkpoint(checkpoint) if checkpoint is not None or not folder.ended else None
    if (noise := folder.feature_noise()) is not None:
        config = dataclasses.replace(config, feature_noise=noise)
    return Source(str(path), label, folder.load_policies(saved), class_name, config, saved, folder.read_class_record())


def short_source_names(sources: Sequence[Source], taken: Sequence[str] = ()) -> list[str]:
    """Return a name for each source. The names are all different, and can be part of a file name.

    `taken` are the names of other files in the folder for which the names are meant.
    """
    names = [_short_source_name(source) for source in sources]
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names)]
    return [name_as_path(name, [*names, *taken]) for name in names]


def joined_source_names(sources: Sequence[Source]) -> str:
    """Return the short names joined by hyphens, or the number of policies if that is too long for a file name."""
    names = "-".join(short_source_names(sources))
    return names if len(names.encode()) <= 150 else f"{len(sources)}-policies"


def distinct_source_labels(sources: Sequence[Source]) -> list[str]:
    """Return the name of each source in figures: its label, and its short name if several sources have this label."""
    labels = [source.label for source in sources]
    named = zip(labels, short_source_names(sources), strict=True)
    found = [label if labels.count(label) == 1 else f"{label} {name}" for label, name in named]
    if len(set(found)) == len(found):
        return found
    return [f"{number}: {label}" for number, label in enumerate(labels)]


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
    """Return a class name that was read from a file, and whose environments are to be stepped.

    Raises an `InputError` if the class is not one of the package. A program of the user's (FILE.py:FUNCTION) runs only
    if the user names it.
    """
    if class_name in registered_class_names():
        return class_name
    program = class_name if ":" in class_name else "FILE.py:FUNCTION"
    raise InputError(
        f"class: the run is of class {class_name}, which is a program of your own, and stepping its environments runs "
        f"this program; name it with --class {program}, or in Python with environment_class=…"
    )
