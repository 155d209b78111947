"""The scale of experiments: the settings of the paper, or miniatures for two CPU cores."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT, own_settings_by_finetuner_name
from alphamepol.algorithms.metatraining.config import MetaMethod, MetatrainConfig
from alphamepol.environments.registry import find_registered_class
from alphamepol.errors import InputError
from alphamepol.files.json_files import read_json
from alphamepol.reproduction.planned import Finetuning, Metatraining, Pretraining, Untrained

ScaleName = Literal["quick", "paper"]
Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Scale:
    """Makes the runs of experiments with the settings of a scale."""

    name: ScaleName

    def pretraining(
        self,
        class_name: str,
        *,
        alpha: float | None = None,
        seeds: int = 10,
        probabilities: tuple[float, ...] = (),
        feature_noise: float = 0.0,
    ) -> Pretraining:
        """Return pre-training with the settings of the class.

        `seeds` is the number of seeds in the paper; a miniature has at most three.
        """
        config = self.settings(class_name, PretrainConfig)
        config = dataclasses.replace(
            config,
            alpha=config.alpha if alpha is None else alpha,
            seeds=seeds if self.name == "paper" else min(seeds, 3),
            probabilities=probabilities,
            feature_noise=feature_noise,
        )
        return Pretraining(class_name, config)

    def specialist(self, class_name: str, member: int, members: int, *, seeds: int = 3) -> Pretraining:
        """Return MEPOL trained on one member alone: about the best that a policy without memory can do there.

        `seeds` is the number of seeds in the paper; a miniature has one.
        """
        alone = tuple(float(number == member) for number in range(members))
        return self.pretraining(class_name, seeds=seeds if self.name == "paper" else 1, alpha=1.0, probabilities=alone)

    def untrained(self, class_name: str, *, seeds: int = 10) -> Untrained:
        """Return the measurement of Random, with feature noise that keeps its particles from coinciding."""
        entry = find_registered_class(class_name)
        noise = entry.noise_of_random if entry else 0.0
        return Untrained(class_name, self.pretraining(class_name, seeds=seeds, feature_noise=noise).config)

    def finetuning(
        self, class_name: str, member: str, init: Pretraining | Metatraining | None, *, seeds: int = 3
    ) -> Finetuning:
        """Return fine-tuning on the tasks of the paper, from the policies of `init` or from Random.

        `seeds` is the number of seeds per task in the paper; a miniature has the number in its settings.
        """
        config = self.settings(class_name, type(own_settings_by_finetuner_name(DEFAULT)))
        if self.name == "paper":
            config = dataclasses.replace(config, seeds=seeds)
        return Finetuning(class_name, member, config, init)

    def metatraining(self, class_name: str, method: MetaMethod, diayn: Metatraining | None = None) -> Metatraining:
        """Return meta-training with MAML+R or DIAYN, or with MAML+DIAYN on the skills of the run `diayn`."""
        config = self.settings(class_name, MetatrainConfig)
        return Metatraining(class_name, dataclasses.replace(config, method=method), diayn)

    def settings(self, class_name: str, kind: type[Settings]) -> Settings:
        """Return the settings of a class at this scale; `kind` is their dataclass."""
        entry = find_registered_class(class_name)
        found = entry and entry.settings("paper" if self.name == "paper" else "miniature", kind)
        assert found is not None, f"{class_name} has no {kind.__name__} at the scale {self.name}"
        return found


def reproduction_scale_file(folder: Path) -> Path:
    return folder / "reproduction.json"


def read_reproduction_scale(folder: Path) -> ScaleName | None:
    """Return the scale of the reproduction in a folder; None if the folder holds no reproduction."""
    try:
        found = read_json(reproduction_scale_file(folder))["scale"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"folder: {reproduction_scale_file(folder)} cannot be read ({error})") from error
    if found not in ("quick", "paper"):
        raise InputError(
            f"folder: {reproduction_scale_file(folder)} names the scale {found!r}; it must be quick or paper"
        )
    return found


def check_reproduction_scale(folder: Path, scale: ScaleName) -> None:
    if folder.is_file():
        raise InputError(f"folder: {folder} is a file; give the name of a folder")
    found = read_reproduction_scale(folder)
    if found is not None and found != scale:
        raise InputError(
            f"folder: {folder} holds a reproduction at scale {found}, not {scale}; choose another --folder"
        )
