"""The runs of experiments before they are done: what each computes, how it is identified, and how to do it."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetune import finetune
from alphamepol.algorithms.metatraining.config import MetatrainConfig

AMOUNTS = {
    "pretrain": ("epochs", "seeds"),
    "finetune": ("iterations", "tasks", "seeds"),
    "metatrain": ("iterations", "epochs", "seeds"),
    "untrained": ("seeds",),
    "gradient-variance": ("seeds",),
}
"""The fields of each command in which a run may be smaller than planned and still replace the planned run."""

ALONE = "trained there alone"
"""The label of specialists."""

OF_RANDOM = ("hidden", "initial_log_std", "memory", "recurrent_units", "normalise")
"""The fields of fine-tuning that matter only if it begins from untrained policies."""

AnyConfig = PretrainConfig | FinetuneConfig | MetatrainConfig
"""The settings of any command."""

Identity = dict[str, Any]
"""A description of what a run computes, without its place and time. Equal runs have equal identities."""

FindFolder = Callable[["Planned"], Path]
"""A function that returns the folder of a run, for runs that need the result of another run."""


@runtime_checkable
class Planned(Protocol):
    """A run that an experiment asks for."""

    @property
    def command(self) -> str:
        """The kind of run, a key of `AMOUNTS`."""
        ...

    @property
    def class_name(self) -> str: ...

    @property
    def config(self) -> AnyConfig: ...

    @property
    def name(self) -> str:
        """The name of the run, as a part of file names."""
        ...

    @property
    def label(self) -> str:
        """The name of the method in figures."""
        ...

    @property
    def needs(self) -> tuple["Planned", ...]:
        """The runs that must be done before this run."""
        ...

    @property
    def member_alone(self) -> int | None:
        """The index of the member that a specialist is trained on; None for other runs."""
        ...

    @property
    def identity(self) -> Identity:
        """A description of what the run computes."""
        ...

    def do(self, folder: Path, find: FindFolder) -> None:
        """Do the run in `folder`, or resume the run that it holds; `find` returns the folders of needed runs."""
        ...


@dataclass(frozen=True)
class Pretraining:
    """Policies pre-trained on a class."""

    class_name: str
    config: PretrainConfig
    start: str = ""
    """The name of the policy's start, if an experiment compares several."""

    command: str = field(default="pretrain", init=False)
    needs: tuple[Planned, ...] = field(default=(), init=False)

    @property
    def name(self) -> str:
        only = [] if self.member_alone is None else [f"only-{self.member_alone}"]
        start = [self.start.replace(" ", "-")] if self.start else []
        update = [] if self.config.update == "off-policy" else ["on-policy" + ("" if self.config.baseline else "-no-b")]
        memory = [] if self.config.memory == "none" else [self.config.memory]
        return "-".join([self.class_name, f"alpha-{self.config.alpha:g}", *memory, *only, *start, *update])

    @property
    def label(self) -> str:
        if self.member_alone is not None:
            return ALONE
        return f"{self.config.label}, {self.start}" if self.start else self.config.label

    @property
    def member_alone(self) -> int | None:
        """The index of the member that a specialist is trained on; None for other runs."""
        return member_planned_alone(self.config.probabilities)

    @property
    def identity(self) -> Identity:
        return identity_of_planned_run(self.command, self.class_name, self.config)

    def do(self, folder: Path, find: FindFolder) -> None:
        from alphamepol.algorithms.alphamepol.run import pretrain

        pretrain(self.class_name, self.config, folder=folder, resume=True)


@dataclass(frozen=True)
class Untrained:
    """The exploration of Random: untrained policies with these settings, not regressed to an initial mean."""

    class_name: str
    config: PretrainConfig

    command: str = field(default="untrained", init=False)
    member_alone: None = field(default=None, init=False)
    label: str = field(default="Random", init=False)
    needs: tuple[Planned, ...] = field(default=(), init=False)

    @property
    def name(self) -> str:
        return f"{self.class_name}-random"

    @property
    def identity(self) -> Identity:
        return identity_of_planned_run(self.command, self.class_name, self.config)

    def do(self, folder: Path, find: FindFolder) -> None:
        from alphamepol.reproduction.measurements import untrained_measurement

        untrained_measurement(self.class_name, self.config, folder)


@dataclass(frozen=True)
class Metatraining:
    """Policies meta-trained on a class. MAML+DIAYN trains on the skills of the run `diayn`."""

    class_name: str
    config: MetatrainConfig
    diayn: "Metatraining | None" = None

    command: str = field(default="metatrain", init=False)
    member_alone: None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return f"{self.class_name}-{self.config.method}"

    @property
    def label(self) -> str:
        return self.config.label

    @property
    def needs(self) -> tuple[Planned, ...]:
        return () if self.diayn is None else (self.diayn,)

    @property
    def identity(self) -> Identity:
        skills = {} if self.diayn is None else {"diayn": self.diayn.identity}
        return identity_of_planned_run(self.command, self.class_name, self.config, skills)

    def do(self, folder: Path, find: FindFolder) -> None:
        from alphamepol.algorithms.metatraining.run import metatrain

        skills = None if self.diayn is None else find(self.diayn)
        metatrain(self.class_name, self.config, diayn=skills, folder=folder, resume=True)


@dataclass(frozen=True)
class Finetuning:
    """TRPO in a member, from the policies of the run `init`, or from untrained policies if `init` is None."""

    class_name: str
    member: str
    config: FinetuneConfig
    init: Pretraining | Metatraining | None = None

    command: str = field(default="finetune", init=False)
    member_alone: None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return f"finetune-{self.member}-{'random' if self.init is None else self.init.name}"

    @property
    def label(self) -> str:
        return "Random" if self.init is None else self.init.label

    @property
    def needs(self) -> tuple[Planned, ...]:
        return () if self.init is None else (self.init,)

    @property
    def identity(self) -> Identity:
        init = "random" if self.init is None else self.init.identity
        return identity_of_planned_run(
            self.command, self.class_name, self.config, {"member": self.member, "init": init}
        )

    def do(self, folder: Path, find: FindFolder) -> None:

        finetune(
            "random" if self.init is None else find(self.init),
            self.member,
            self.config,
            environment_class=self.class_name,
            folder=folder,
            resume=True,
        )


@dataclass(frozen=True)
class GradientVariance:
    """The variance of the on-policy gradient from batch to batch, for policies of the run `init`.

    It is measured with the baseline and without it, on the same batches.
    """

    init: Pretraining
    batches: int
    checkpoints: tuple[int, ...] = ()
    """The numbers of epochs after which `init` saved the measured policies; empty if its final policies are measured.
    """

    command: str = field(default="gradient-variance", init=False)
    member_alone: None = field(default=None, init=False)

    @property
    def class_name(self) -> str:
        return self.init.class_name

    @property
    def config(self) -> PretrainConfig:
        return self.init.config

    @property
    def name(self) -> str:
        return f"gradient-variance-{'along-' if self.checkpoints else ''}{self.init.name}"

    @property
    def label(self) -> str:
        return self.init.label

    @property
    def needs(self) -> tuple[Planned, ...]:
        return (self.init,)

    @property
    def identity(self) -> Identity:
        parts: dict[str, Any] = {"init": self.init.identity, "batches": self.batches}
        if self.checkpoints:
            parts["checkpoints"] = list(self.checkpoints)
        return identity_of_planned_run(self.command, self.class_name, self.config, parts)

    def do(self, folder: Path, find: FindFolder) -> None:
        from alphamepol.reproduction.measurements import gradient_variance_measurement

        gradient_variance_measurement(
            find(self.init), self.class_name, self.config, self.batches, folder, self.checkpoints
        )


def member_planned_alone(probabilities: Sequence[float]) -> int | None:
    """Return the index of the member with probability 1; None if there is no such member or only one member."""
    return list(probabilities).index(1) if len(probabilities) > 1 and 1 in probabilities else None


def identity_of_planned_run(
    command: str, class_name: str, config: AnyConfig, parts: dict[str, Any] | None = None
) -> Identity:
    """Return the identity of a run: its command and class, the settings that differ from their defaults, and `parts`.

    Settings with default values are left out, so that a field that is added later does not change old identities.
    """
    parts = parts or {}
    ignored = ["checkpoint_every", "keep_checkpoints", "diagnostics"]
    if command != "untrained":
        ignored.append("evaluation_batches")
    if command == "finetune" and parts["init"] != "random":
        ignored += OF_RANDOM
    changed = {}
    for one in dataclasses.fields(config):
        value = getattr(config, one.name)
        if one.name not in ignored and value != one.default:
            changed[one.name] = list(value) if isinstance(value, tuple) else value
    return {"command": command, "class": class_name, "config": changed, **parts}


def hash_of_planned_run(identity: Identity) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def family_of_planned_run(identity: Identity) -> Identity:
    """Return the identity without amounts: neither those of the run nor those of the runs that it began from."""
    dropped = AMOUNTS[identity["command"]]
    config = {name: value for name, value in identity["config"].items() if name not in dropped}
    inner = {
        part: family_of_planned_run(identity[part])
        for part in ("init", "diayn")
        if isinstance(identity.get(part), dict)
    }
    return {**identity, "config": config, **inner}
