"""Planned runs as tasks: their command lines, the runs that they need, and the time that they will take."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import usual_preset_settings
from alphamepol.errors import InputError
from alphamepol.files.reading import check_folder_is_plain
from alphamepol.launching.task import Task
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.run_times import Clock, steps_for_run_time
from alphamepol.reproduction.store import Store

LOGS = "logs"
"""The folder of the logs of tasks, in the folder of the runs."""


def tasks_of_planned_runs(
    runs: Sequence[Planned], store: Store, words: Callable[[Planned], Sequence[str]]
) -> list[Task]:
    """Return the tasks of planned runs. Runs that other runs need come first.

    `words` returns the words of a run's command line.
    """
    check_folder_is_plain(store.folder, folders=[LOGS])
    left = [run for run in planned_with_needs(runs) if not store.is_done(run)]
    seconds = dict(zip(left, Clock(store).seconds_of(left), strict=True))

    tasks = []
    for run in planned_with_needs(runs):
        place = store.place_of(run)
        needs = tuple(store.place_of(needed).name for needed in run.needs)
        log = store.folder / LOGS / f"{place.name}.log"
        measured = run.command in ("untrained", "gradient-variance")
        steps = 0 if measured else steps_for_run_time(run.config)
        tasks.append(Task(place.name, tuple(words(run)), place, log, steps, seconds.get(run, 0.0), needs))
    return tasks


def planned_with_needs(runs: Sequence[Planned]) -> list[Planned]:
    """Return the runs and all runs that they need, each once, after the runs that it needs."""
    ordered: dict[Planned, None] = {}
    for run in runs:
        ordered |= dict.fromkeys([*planned_with_needs(run.needs), run])
    return list(ordered)


def words_of_pretraining(class_name: str, config: PretrainConfig, folder: Path, devices: int) -> list[str]:
    """Return the words after `alphamepol` that pre-train with these settings in a folder, or continue there."""
    usual = usual_preset_settings(class_name)
    words = ["pretrain", class_name, "--folder", str(folder), "--resume"]
    if devices > 1:
        words += ["--devices", str(devices)]
    for one in dataclasses.fields(config):
        value = getattr(config, one.name)
        if value != getattr(usual, one.name):
            words += _words_of_setting(one.name.replace("_", "-"), value)
    return words


def _words_of_setting(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", *map(str, value if isinstance(value, tuple) else [value])]


def words_of_reproduced_run(scale: str, store: Store, run: Planned) -> list[str]:
    """Return the words after `alphamepol` that do one run of a reproduction, or continue it."""
    return ["reproduce", "all", "--scale", scale, "--folder", str(store.folder), "--run", store.place_of(run).name]


def do_reproduced_run(runs: Sequence[Planned], store: Store, name: str) -> None:
    """Do the run of a reproduction whose folder has this name. The runs that it needs must be done."""
    run = next((run for run in runs if store.place_of(run).name == name), None)
    if run is None:
        raise InputError(f"run: {name!r} was given; name a folder of runs/ that this reproduction plans")
    for needed in run.needs:
        if not store.is_done(needed):
            raise InputError(f"run: {name} needs {store.place_of(needed).name}, which is not done")
    run.do(store.place_of(run), store.place_of)
