"""`alphamepol finetune`: one or several initial policies on the same tasks, side by side in one figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from alphamepol.errors import InputError
from alphamepol.files import to_json, write_atomically
from alphamepol.runs import figures
from alphamepol.runs.config import FinetuneConfig
from alphamepol.runs.finetune import (
    FinetuneRun,
    Plan,
    default_folder,
    finetune_source,
    plan_finetuning,
)
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import Interrupts, RunInterrupted, interrupts
from alphamepol.runs.locks import held, is_empty
from alphamepol.runs.sources import Source, distinct_labels, read_source, short_names
from alphamepol.runs.tables import finetune_table


def finetune_inits(
    inits: Sequence[str],
    member: str,
    config: FinetuneConfig,
    *,
    class_name: str | None,
    folder: Path | None,
    resume: bool,
    devices: int = 1,
) -> Path:
    """Fine-tune from each; returns the folder, which holds a run, or one run per initial policy and the comparison."""
    if not inits:
        raise InputError("init: none was given; name the folder of a run, a policy file, or random")
    sources = [read_source(init, config.memory) for init in inits]
    plan = plan_finetuning(sources, member, config, class_name, None, devices)
    names = short_names(sources)
    folder = folder or default_folder(sources, member, config)
    if len(sources) == 1:
        return finetune_source(sources[0], plan, RunFolder(folder), resume=resume, quiet=False).folder
    _check_folder(folder, names, resume=resume)
    try:
        with held(folder), interrupts() as received:
            return _compare(dict(zip(names, sources, strict=True)), plan, folder, received, resume=resume)
    except KeyboardInterrupt as interrupt:
        raise RunInterrupted from interrupt


def _compare(sources: dict[str, Source], plan: Plan, folder: Path, received: Interrupts, *, resume: bool) -> Path:
    """Run one after the other, then draw them together."""
    runs = {}
    for name, source in sources.items():
        # What was begun goes on, what was not begins.
        begun = resume and (folder / name / "config.json").is_file()
        runs[name] = finetune_source(source, plan, RunFolder(folder / name), resume=begun, quiet=False)
        received.check()
    labels = dict(zip(sources, distinct_labels(list(sources.values())), strict=True))
    figures.returns(
        {labels[name]: run.returns for name, run in runs.items()},
        [task.describe() for task in plan.tasks],
        plan.environment_class[plan.member],
        folder / "figures",
    )
    write_atomically(folder / "summary.json", to_json(_summarise(plan, runs)))
    title = f"return in {plan.member}, mean over {len(plan.tasks)} tasks"
    Console().print(finetune_table({labels[name]: run.summary for name, run in runs.items()}, title))
    return folder


def _check_folder(folder: Path, names: Sequence[str], *, resume: bool) -> None:
    begun = [name for name in names if (folder / name / "config.json").is_file()]
    if resume and not begun:
        raise InputError(f"folder: {folder} holds no run to resume; leave --resume away to start one")
    if not resume and folder.exists() and (not folder.is_dir() or not is_empty(folder)):
        raise InputError(
            f"folder: {folder} is not empty; choose another --folder, or continue what it holds with --resume"
        )


def _summarise(plan: Plan, runs: dict[str, FinetuneRun]) -> dict[str, Any]:
    """summary.json of the comparison: as that of a run, with an entry for each initial policy."""
    parts = ("init", "label", "memory", "returns", "final", "steps_per_second", "seconds", "device")
    return {
        "class": plan.environment_class.name,
        "member": plan.member,
        "tasks": [task.describe() for task in plan.tasks],
        "iterations": plan.config.iterations,
        "seeds": list(range(plan.config.seed, plan.config.seed + plan.config.seeds)),
        **{part: {name: run.summary[part] for name, run in runs.items()} for part in parts},
    }
