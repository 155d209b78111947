"""The paper's experiments, so small that they say nothing."""

import pytest

from alphamepol.experiments import baseline, scale
from alphamepol.runs import presets

TINY = {"epochs": 2, "trajectories": 20, "horizon": 15, "neighbours": 3, "hidden": (8, 8), "learning_rate": 1e-4}


@pytest.fixture(scope="module")
def tiny_scale():
    """Makes the quick scale a tiny one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        shrink(monkeypatch)
        yield


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_QUICK", TINY | {"evaluation_batches": 2, "seeds": 1})
    finetuning = {"iterations": 2, "horizon": 15, "steps": 60, "tasks": 3, "hidden": (8, 8), "seeds": 2}
    monkeypatch.setattr(scale, "_QUICK_FINETUNING", finetuning | {"critic_hidden": (4,), "critic_passes": 1})
    monkeypatch.setitem(baseline.SETTINGS, "quick", {"epochs": 2})
