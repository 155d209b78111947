"""The paper's experiments at a size that is only good for tests of the code: their results mean nothing."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.reproduction.paper import baseline
from alphamepol.reproduction.scale import Scale

PRETRAINING = {"epochs": 2, "trajectories": 20, "horizon": 15, "neighbours": 3, "hidden": (8, 8), "learning_rate": 1e-4}
FINETUNING = {"iterations": 2, "horizon": 15, "steps": 60, "tasks": 3, "hidden": (8, 8), "seeds": 2}


def shrink(
    monkeypatch: pytest.MonkeyPatch, pretraining: dict[str, Any] | None = None, finetuning: dict[str, Any] | None = None
) -> None:
    """Replace the settings of the quick scale by tiny ones. Further changes of the settings can be given."""
    settings = Scale.settings

    def smaller(self: Scale, class_name: str, kind: type) -> Any:
        found: Any = settings(self, class_name, kind)
        if self.name == "paper":
            return found
        if isinstance(found, PretrainConfig):
            return dataclasses.replace(
                found, **PRETRAINING | {"evaluation_batches": 2, "seeds": 1} | (pretraining or {})
            )
        if isinstance(found, FinetuneConfig):
            critic = {"critic_hidden": (4,), "critic_passes": 1}
            return dataclasses.replace(found, **FINETUNING | critic | (finetuning or {}))
        return found

    monkeypatch.setattr(Scale, "settings", smaller)
    monkeypatch.setitem(baseline.EPOCHS, "quick", 2)


def times_of_summaries(folder: Path) -> dict[str, int]:
    """Return when the summary of each run of a reproduction was written, by the name of the run."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("runs/*/summary.json")}
