"""The numbers that MAML and DIAYN record in the same way: metrics, curves and final means."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from alphamepol.errors import RunError
from alphamepol.estimation.statistics import mean_with_bootstrap_interval
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.metrics import read_metrics
from alphamepol.settings.run import RunSettings

LAST = 10
"""The number of last iterations or epochs. Their mean is the final number of a run."""


def metatraining_record_lines(
    unit: str, number: int, settings: RunSettings, numbers: dict[str, Any], seconds: dict[str, float]
) -> list[dict[str, Any]]:
    """Return one line per seed for metrics.jsonl. The seconds in each line are those of all seeds together."""
    return [
        {unit: number, "seed": seed, **{name: float(values[i]) for name, values in numbers.items()}, "seconds": seconds}
        for i, seed in enumerate(settings.seed_list)
    ]


def metatraining_record_curves(
    folder: RunFolder, settings: RunSettings, *names: str
) -> list[Float[np.ndarray, "seeds steps"]]:
    """Read from metrics.jsonl how the named numbers went along the run."""
    rows = ([line[name] for name in names] for line in read_metrics(folder.metrics))
    numbers = np.fromiter(rows, np.dtype((float, len(names))))
    return [column.reshape(-1, settings.seeds).T for column in numbers.T]


def final_metatraining_records(curves: dict[str, Float[np.ndarray, "seeds steps"]]) -> dict[str, Any]:
    """Return the mean of each number over the last steps, with its interval over seeds."""
    return {name: mean_with_bootstrap_interval(values[:, -LAST:].mean(axis=1)) for name, values in curves.items()}


def check_metatraining_records(finite: Bool[np.ndarray, " seeds"], settings: RunSettings, when: str, cure: str) -> None:
    """Raise a `RunError` if a state, a reward or a parameter of some seed is no longer finite.

    The message says `when` this happened, and the `cure`: options to start again with.
    """
    lost = np.flatnonzero(~finite)
    if lost.size:
        raise RunError(
            f"{when}, seed {settings.seed_list[lost[0]]}: a state, a reward or a parameter is no longer finite; look "
            f"at the environment and the tasks, or start again with {cure}"
        )
