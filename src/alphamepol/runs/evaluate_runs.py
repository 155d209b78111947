"""`alphamepol evaluate`: policies of runs and files, measured again, here or in another class, and side by side."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import rich.progress
from rich.console import Console

from alphamepol.environments.registry import make
from alphamepol.errors import InputError
from alphamepol.files import to_json, write_atomically
from alphamepol.runs import figures
from alphamepol.runs.checks import check_horizon, check_policy_fits
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.epoch import untrained_policies
from alphamepol.runs.evaluate import Evaluation, evaluate
from alphamepol.runs.folder import device_name
from alphamepol.runs.presets import preset, usual_preset
from alphamepol.runs.sources import Source, common_class, distinct_labels, joined_names, read_source, short_names
from alphamepol.runs.tables import comparison_table, evaluation_table

MANY = 20
"""Policies from which on each has no heat-map of its own: the skills of DIAYN, say."""


def evaluate_runs(
    runs: Sequence[str],
    *,
    class_name: str | None,
    alpha: float | None,
    feature_noise: float | None,
    encoder_seed: int | None,
    batches: int,
    folder: Path | None,
) -> Path:
    """Evaluate and write summary.json and figures; returns the folder they are in."""
    if batches < 1:
        raise InputError(f"batches: {batches} was given; it must be at least 1")
    if not runs:
        raise InputError("run: none was given; name the folder of a run, or a policy file")
    sources = [read_source(run) for run in runs]
    if not any(source.policies for source in sources):
        raise InputError("run: random alone was given; name a run or a policy file to compare it with")
    class_name = class_name or common_class(sources)
    environment_class = make(class_name)
    config = dataclasses.replace(_settings(sources, class_name, alpha, feature_noise), evaluation_batches=batches)
    if encoder_seed is not None:
        config = dataclasses.replace(config, encoder_seed=encoder_seed)
    config.check()
    check_horizon(environment_class, config.horizon)
    first = next(policy for source in sources for policy in source.policies.values())
    sources = [
        source
        if source.policies
        else dataclasses.replace(source, policies=untrained_policies(environment_class, config))
        for source in sources
    ]
    for source in sources:
        for policy in source.policies.values():
            check_policy_fits(policy, environment_class, f"policy {source.name}")
    folder = folder or _default_folder(sources, class_name)
    if (folder / "config.json").exists():
        raise InputError(f"folder: {folder} holds a run; choose another --folder")

    console = Console()
    evaluations: dict[str, Evaluation] = {}
    for source, label in zip(sources, distinct_labels(sources), strict=True):
        description = f"evaluating {source.name} in each member of {class_name}"
        shown = partial(rich.progress.track, description=description, console=console, transient=True)
        evaluations[label] = evaluate(source.policies, environment_class, config, like=first, track=shown)
    figures.entropy_histogram(evaluations, folder / "figures")
    figures.heat_maps(evaluations, environment_class, folder / "figures")
    figures.trails(evaluations, environment_class, folder / "figures")
    summaries = [
        _summarise(source, config, evaluation) for source, evaluation in zip(sources, evaluations.values(), strict=True)
    ]
    if len(sources) == 1:
        ((label, evaluation),) = evaluations.items()
        for seed in evaluation.seeds if 1 < len(evaluation.seeds) <= MANY else ():
            of_seed = {label: evaluation.of_seed(seed)}
            figures.heat_maps(of_seed, environment_class, folder / "figures", name=f"heat-maps-seed-{seed}")
        summary = summaries[0]
        console.print(evaluation_table(evaluation, f"{label} ({sources[0].name}) in {class_name}"))
    else:
        summary = {"class": class_name, "runs": dict(zip(short_names(sources), summaries, strict=True))}
        console.print(comparison_table(evaluations, f"state entropy in {class_name}, mean over seeds [95 % interval]"))
    write_atomically(folder / "summary.json", to_json(summary))
    return folder


def _settings(
    sources: Sequence[Source], class_name: str, alpha: float | None, feature_noise: float | None
) -> PretrainConfig:
    """What all are measured with: the settings of the first run; the paper's for the class if there is none.

    The smallest α and the largest noise of the runs are taken, unless others are given.
    """
    runs = [source for source in sources if source.config]
    configs = [source.config for source in runs if source.config] or [preset(usual_preset(class_name), class_name)]
    config = configs[0]
    if not runs or runs[0].class_name != class_name:
        config = dataclasses.replace(config, probabilities=())
    return dataclasses.replace(
        config,
        alpha=min(one.alpha for one in configs) if alpha is None else alpha,
        feature_noise=max(one.feature_noise for one in configs) if feature_noise is None else feature_noise,
    )


def _default_folder(sources: Sequence[Source], class_name: str) -> Path:
    name = f"evaluation-{class_name.rpartition(':')[2]}"
    if len(sources) > 1:
        return Path("runs") / f"{name}-{joined_names(sources)}"
    path = Path(sources[0].name)
    return path / name if path.is_dir() else path.with_name(f"{path.stem}-{name}")


def _summarise(source: Source, config: PretrainConfig, evaluation: Evaluation) -> dict[str, Any]:
    name = Path(source.name).name
    of_run = {"run": name, "method": source.config.method} if source.config else {"policy": name}
    more = {"label": source.label, "memory": source.memory, **evaluation.to_dict()}
    return of_run | more | {"evaluation_batches": config.evaluation_batches, "device": device_name()}
