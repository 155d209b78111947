"""How large experiments are: as in the paper, or as miniatures for two cores."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from alphamepol.experiments.planned import Finetuning, Metatraining, Pretraining, Untrained
from alphamepol.runs.presets import finetuning_preset, metatraining_preset, preset

ScaleName = Literal["quick", "paper"]

_QUICK_PRETRAINING: dict[str, dict[str, Any]] = {
    "multigrid": {"trajectories": 200, "epochs": 30},
    "minigrid": {"epochs": 30, "trajectories": 50, "hidden": (32,), "learning_rate": 1e-4},
    "minigrid-counterexample": {"epochs": 3, "trajectories": 20, "horizon": 100, "hidden": (32,)},
    "ant-stairs": {"epochs": 3, "trajectories": 20, "horizon": 100, "neighbours": 50, "evaluation_batches": 5},
}
_QUICK_FINETUNING: dict[str, Any] = {"iterations": 20, "steps": 4000, "tasks": 5, "hidden": (64, 64), "seeds": 1}
_QUICK_FINETUNING_OF: dict[str, dict[str, Any]] = {
    "minigrid": {"steps": 3000, "hidden": (32,)},
    "ant-stairs": {"iterations": 2, "horizon": 100, "steps": 2000, "tasks": 2},
}
_QUICK_METATRAINING: dict[str, Any] = {"iterations": 10, "epochs": 20, "tasks": 5, "seeds": 2}


@dataclass(frozen=True)
class Scale:
    """Makes the runs of experiments, each as large as the scale says."""

    name: ScaleName

    def pretraining(self, class_name: str, *, seeds: int = 10, **changes: Any) -> Pretraining:
        """Pre-training with the settings of the class; `seeds` are the paper's."""
        if self.name == "paper":
            config = preset("paper", class_name)
            return Pretraining(class_name, dataclasses.replace(config, **{"seeds": seeds} | changes))
        config = dataclasses.replace(preset("quick", class_name), **_QUICK_PRETRAINING.get(class_name, {}))
        return Pretraining(class_name, dataclasses.replace(config, **{"seeds": min(seeds, 3)} | changes))

    def specialist(self, class_name: str, member: int, members: int, *, seeds: int = 3) -> Pretraining:
        """MEPOL trained in one member alone: about the best that a policy without memory can do there."""
        alone = tuple(float(number == member) for number in range(members))
        return self.pretraining(class_name, seeds=seeds if self.name == "paper" else 1, alpha=1.0, probabilities=alone)

    def untrained(self, class_name: str, *, seeds: int = 10) -> Untrained:
        """Random. In a gridworld it may stand still in a corner: a little noise keeps its particles apart."""
        noise = 0.001 if "grid" in class_name and not class_name.startswith("minigrid") else 0.0
        return Untrained(class_name, self.pretraining(class_name, seeds=seeds, feature_noise=noise).config)

    def finetuning(
        self, class_name: str, member: str, init: Pretraining | Metatraining | None, *, seeds: int = 3
    ) -> Finetuning:
        """TRPO on the paper's tasks; `seeds` times each."""
        config = dataclasses.replace(finetuning_preset(class_name), seeds=seeds)
        if self.name == "quick":
            config = dataclasses.replace(config, **_QUICK_FINETUNING | _QUICK_FINETUNING_OF.get(class_name, {}))
        return Finetuning(class_name, member, config, init)

    def metatraining(self, class_name: str, method: str, diayn: Metatraining | None = None) -> Metatraining:
        """MAML+R, DIAYN or, on the skills of another run, MAML+DIAYN."""
        config: Any = metatraining_preset(self.name, class_name)
        small = _QUICK_METATRAINING if self.name == "quick" else {}
        return Metatraining(class_name, dataclasses.replace(config, method=method, **small), diayn)
