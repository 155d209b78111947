"""`alphamepol evaluate`: the policies of a run, or one policy file, measured again, here or in another class."""

import dataclasses
from functools import partial
from pathlib import Path

import rich.progress
from rich.console import Console

from alphamepol.environments.registry import make
from alphamepol.errors import InputError
from alphamepol.files import to_json, write_atomically
from alphamepol.runs import figures
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.evaluate import evaluate
from alphamepol.runs.folder import device_name
from alphamepol.runs.presets import preset
from alphamepol.runs.sources import Source, read_source
from alphamepol.runs.tables import evaluation_table


def evaluate_run(run: Path, *, class_name: str | None, alpha: float | None, batches: int, folder: Path | None) -> Path:
    """Evaluate and write summary.json and figures; returns the folder they are in."""
    if batches < 1:
        raise InputError(f"batches: {batches} was given; it must be at least 1")
    source = read_source(run)
    config, own_class = _settings(source, class_name)
    if not source.policies:
        raise InputError("run: random is no policy file; evaluate what a run or a file holds")
    label = {"run": run.name, "method": config.method} if source.config else {"policy": run.name}
    if class_name not in (None, own_class):
        config = dataclasses.replace(config, probabilities=())
    class_name = class_name or own_class
    environment_class = make(class_name)
    config = dataclasses.replace(config, evaluation_batches=batches, alpha=config.alpha if alpha is None else alpha)
    config.check()
    if folder is None:
        name = f"evaluation-{class_name}"
        folder = run / name if run.is_dir() else run.with_name(f"{run.stem}-{name}")
    if (folder / "config.json").exists():
        raise InputError(f"folder: {folder} holds a run; choose another --folder")

    console = Console()
    description = f"evaluating each member of {class_name}"
    shown = partial(rich.progress.track, description=description, console=console, transient=True)
    evaluation = evaluate(source.policies, environment_class, config, track=shown)
    summary = label | evaluation.to_dict() | {"evaluation_batches": batches, "device": device_name()}
    write_atomically(folder / "summary.json", to_json(summary))
    name = label.get("method", run.stem)
    figures.entropy_histogram({name: evaluation}, folder / "figures")
    figures.heat_maps({name: evaluation}, environment_class, folder / "figures")
    for seed in evaluation.seeds if len(evaluation.seeds) > 1 else ():
        of_seed = {name: evaluation.of_seed(seed)}
        figures.heat_maps(of_seed, environment_class, folder / "figures", name=f"heat-maps-seed-{seed}")
    console.print(evaluation_table(evaluation, f"{run} in {class_name}"))
    return folder


def _settings(source: Source, class_name: str | None) -> tuple[PretrainConfig, str]:
    """Settings and class of a run; a policy file has the paper's settings for the given class."""
    if source.config is not None and source.class_name is not None:
        return source.config, source.class_name
    if class_name is None:
        raise InputError(
            f"class: {source.name} is a policy file; say with --class in which class it is to be evaluated"
        )
    return preset("paper", class_name), class_name
