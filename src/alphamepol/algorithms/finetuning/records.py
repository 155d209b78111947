"""The records of a run of fine-tuning: the metrics of each iteration, and the summary of the run."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.iteration import IterationReport, Plan
from alphamepol.estimation.statistics import mean_with_bootstrap_interval
from alphamepol.runs.context import RunContext
from alphamepol.runs.sources import Source


def finetuning_record_lines(
    iteration: int, config: FinetuneConfig, report: IterationReport, seconds: dict[str, float]
) -> list[dict[str, Any]]:
    """Return the lines of an iteration for metrics.jsonl, one per task and seed.

    `return` describes the policy that sampled the iteration. The numbers of the algorithm's report describe the policy
    after the update. `seconds` are those of all tasks together.
    """
    report = jax.device_get(report)
    return [
        {
            "iteration": iteration,
            "task": row // config.seeds,
            "seed": config.seed + row % config.seeds,
            "return": float(report.mean_return[row]),
            **{name: float(values[row]) for name, values in report.learned._asdict().items()},
            "seconds": seconds,
        }
        for row in range(len(report.mean_return))
    ]


def summarise_finetuning_records(
    source: Source, plan: Plan, metrics: Iterable[dict[str, Any]], context: RunContext
) -> dict[str, Any]:
    """Return the content of summary.json: the final numbers of a run."""
    config, tasks = plan.config, len(plan.tasks)
    rows = np.fromiter((line["return"] for line in metrics), float).reshape(config.iterations, tasks, config.seeds)
    by_seed = np.moveaxis(rows, 0, -1)
    returns = by_seed.mean(axis=1)
    return {
        "class": plan.environment_class.name,
        "member": plan.member,
        "init": source.name,
        "label": source.label,
        "memory": source.memory or config.memory,
        "tasks": [task.describe() for task in plan.tasks],
        "iterations": config.iterations,
        "seeds": config.seed_list,
        "policies": len(source.policies),
        "returns": _rounded_finetuning_record(returns),
        **({"returns_by_seed": _rounded_finetuning_record(np.moveaxis(by_seed, 1, 0))} if config.seeds > 1 else {}),
        "final": mean_with_bootstrap_interval(returns[:, -1]),
        **context.totals(config.iterations * config.steps * plan.rows),
    }


def _rounded_finetuning_record(values: Float[np.ndarray, "..."]) -> list[Any]:
    """Return the values as lists, rounded to six decimals. There are many values, and this keeps summary.json small."""
    return values.round(6).tolist()
