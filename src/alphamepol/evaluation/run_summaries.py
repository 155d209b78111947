"""Summaries of runs that have not ended, as pages show them."""

from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.environments.environment_class import GENERATED_PARTS
from alphamepol.errors import InputError
from alphamepol.files.json_files import value_has_type
from alphamepol.files.reading import ODD
from alphamepol.runs.description import Number
from alphamepol.runs.folder import UNITS, RunFolder
from alphamepol.runs.metrics import last_metrics_line, read_metrics


def summarise_run_so_far(folder: RunFolder, described: dict[str, Any], config: Any) -> tuple[str, dict[str, Any]]:
    """Return how far a run is that has not ended, in words, and a summary of its steps so far, from metrics.jsonl.

    `described` is the content of config.json, and `config` are its settings. Raises an `InputError` if there are no
    numbers yet, or none that can be used.
    """
    command, last = described["command"], last_metrics_line(folder.metrics) or {}
    unit = next((unit for unit in UNITS if value_has_type(last.get(unit), int)), None)
    planned = getattr(config, f"{unit}s", None)
    if unit is None or planned is None or command not in ("pretrain", "finetune", "metatrain"):
        raise InputError(f"run: {folder.path} has not ended, and has no numbers yet")
    done = last[unit] + 1
    said = f"{done} of {planned} {unit}s"
    told: dict[str, Any] = {"class": described["class"], "seeds": config.seed_list}
    try:
        if command == "finetune":
            told |= {"label": f"{Path(str(described['init'])).name}, {said}", "iterations": done}
            tasks = described["tasks"] or []
            told |= {"member": described["member"], "tasks": tasks}
            told |= _returns_so_far(folder, done, len(tasks))
        else:
            told |= {"members": described["members"], "probabilities": described["probabilities"]}
            told["label"] = f"{config.label}, {said}"
        if command == "pretrain":
            told |= _entropies_so_far(folder, told["members"], told["probabilities"])
    except ODD as error:
        raise InputError(f"run: the numbers so far of {folder.path} cannot be used ({error})") from error
    return said, told


def _returns_so_far(folder: RunFolder, iterations: int, tasks: int) -> dict[str, Any]:
    """Return the returns of every task and iteration, and of every seed. Raises ValueError if some are missing."""
    lines = read_metrics(folder.metrics, {"return": Number})
    rows = np.fromiter((line["return"] for line in lines), float).reshape(iterations, tasks, -1)
    by_seed = np.moveaxis(rows, 0, -1)
    if not by_seed.size:
        raise ValueError("there are none")
    return {"returns": by_seed.mean(axis=1).tolist(), "returns_by_seed": np.moveaxis(by_seed, 1, 0).tolist()}


def _entropies_so_far(folder: RunFolder, members: list[str], probabilities: list[float]) -> dict[str, Any]:
    """Return the latest entropy of every member in the samples of a run's epochs, for each seed.

    The metrics of a generated class have parts of the class instead of members, which are returned as its members.
    """
    latest: dict[int, dict[str, float]] = {}
    means: dict[int, float] = {}
    fields = {"seed": int, "mean_entropy": Number, "entropy": dict[str, Number]}
    for line in read_metrics(folder.metrics, fields):
        latest.setdefault(line["seed"], {}).update(line["entropy"])
        means[line["seed"]] = line["mean_entropy"]
    if not means:
        raise ValueError("there are none")
    record = folder.read_class_record() or {}
    units, ceilings = record.get("units"), record.get("entropy_ceilings") or [None] * len(members)
    if len(ceilings) != len(members):
        raise ValueError("class.json has other members than config.json")
    if all(set(found) == set(GENERATED_PARTS) for found in latest.values()):
        members, probabilities, ceilings = list(GENERATED_PARTS), [0.1, 0.8, 0.1], [None] * 3
    shift = 0.0 if units is None else float(np.sum(np.log(units)))
    return {
        "members": members,
        "probabilities": probabilities,
        "entropy": {name: [found[name] for found in latest.values() if name in found] for name in members},
        "ceiling": {
            name: None if ceiling is None else ceiling - shift for name, ceiling in zip(members, ceilings, strict=True)
        },
        "mean": list(means.values()),
        **({} if units is None else {"units": units}),
    }
