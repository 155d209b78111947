"""The numbers of meta-training, which MAML and DIAYN write down alike."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from alphamepol.errors import RunError
from alphamepol.estimation.statistics import mean_with_bootstrap_interval
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.metrics import read_metrics
from alphamepol.settings.run import RunSettings

LAST = 10
"""Iterations or epochs, the last ones, whose mean is the final number."""


def metatraining_record_lines(
    unit: str, number: int, settings: RunSettings, numbers: dict[str, Any], seconds: dict[str, float]
) -> list[dict[str, Any]]:
    """One line per seed for metrics.jsonl. Seconds are of all seeds together."""
    return [
        {unit: number, "seed": seed, **{name: float(values[i]) for name, values in numbers.items()}, "seconds": seconds}
        for i, seed in enumerate(settings.seed_list)
    ]


def metatraining_record_curves(
    folder: RunFolder, settings: RunSettings, *names: str
) -> list[Float[np.ndarray, "seeds steps"]]:
    """Numbers along the run, from metrics.jsonl."""
    lines = read_metrics(folder.metrics)
    return [np.array([line[name] for line in lines]).reshape(-1, settings.seeds).T for name in names]


def final_metatraining_records(curves: dict[str, Float[np.ndarray, "seeds steps"]]) -> dict[str, Any]:
    """The mean of the last steps, with its interval over seeds."""
    return {name: mean_with_bootstrap_interval(values[:, -LAST:].mean(axis=1)) for name, values in curves.items()}


def check_metatraining_records(finite: Bool[np.ndarray, " seeds"], settings: RunSettings, when: str, cure: str) -> None:
    """Stop when meta-training has driven something out of the numbers."""
    lost = np.flatnonzero(~finite)
    if lost.size:
        raise RunError(
            f"{when}, seed {settings.seed_list[lost[0]]}: a state, a reward or a parameter is no longer finite; look "
            f"at the environment and the tasks, or start again with {cure}"
        )
