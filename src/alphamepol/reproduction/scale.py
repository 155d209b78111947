"""How large experiments are: as in the paper, or as miniatures for two cores."""

import dataclasses
from dataclasses import dataclass
from typing import Literal, TypeVar

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.names import DEFAULT, own_settings
from alphamepol.algorithms.metatraining.config import MetaMethod, MetatrainConfig
from alphamepol.environments.registry import find_entry
from alphamepol.reproduction.planned import Finetuning, Metatraining, Pretraining, Untrained

ScaleName = Literal["quick", "paper"]
Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Scale:
    """Makes the runs of experiments, each as large as the scale says."""

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
        """Pre-training with the settings of the class; `seeds` are the paper's."""
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
        """MEPOL trained in one member alone: about the best that a policy without memory can do there."""
        alone = tuple(float(number == member) for number in range(members))
        return self.pretraining(class_name, seeds=seeds if self.name == "paper" else 1, alpha=1.0, probabilities=alone)

    def untrained(self, class_name: str, *, seeds: int = 10) -> Untrained:
        """Random, with the noise that keeps its particles apart."""
        entry = find_entry(class_name)
        noise = entry.noise_of_random if entry else 0.0
        return Untrained(class_name, self.pretraining(class_name, seeds=seeds, feature_noise=noise).config)

    def finetuning(
        self, class_name: str, member: str, init: Pretraining | Metatraining | None, *, seeds: int = 3
    ) -> Finetuning:
        """Fine-tuning on the paper's tasks; `seeds` times each, in a miniature as often as its settings say."""
        config = self.settings(class_name, type(own_settings(DEFAULT)))
        if self.name == "paper":
            config = dataclasses.replace(config, seeds=seeds)
        return Finetuning(class_name, member, config, init)

    def metatraining(self, class_name: str, method: MetaMethod, diayn: Metatraining | None = None) -> Metatraining:
        """MAML+R, DIAYN or, on the skills of another run, MAML+DIAYN."""
        config = self.settings(class_name, MetatrainConfig)
        return Metatraining(class_name, dataclasses.replace(config, method=method), diayn)

    def settings(self, class_name: str, kind: type[Settings]) -> Settings:
        """The settings of a kind for a class at this scale."""
        entry = find_entry(class_name)
        found = entry and entry.settings("paper" if self.name == "paper" else "miniature", kind)
        assert found is not None, f"{class_name} has no {kind.__name__} at the scale {self.name}"
        return found
