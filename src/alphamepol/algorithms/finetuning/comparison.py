"""The comparison of several initial policies: fine-tuning on the same tasks, and one figure for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphamepol.algorithms.finetuning.iteration import Plan
from alphamepol.algorithms.finetuning.run import FinetuneRun, run_finetuning_from_source
from alphamepol.errors import InputError
from alphamepol.figures.returns import draw_returns
from alphamepol.figures.style import ShownFigure
from alphamepol.figures.tables import finetune_table, print_table
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.files.locks import folder_lock_held, is_empty_but_for_lock
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.files.reading import check_folder_is_plain, refusing_odd_files
from alphamepol.notebooks.views import view
from alphamepol.runs.context import Way
from alphamepol.runs.description import repr_of_run
from alphamepol.runs.interrupts import Interrupts, interrupts
from alphamepol.runs.progress import counted
from alphamepol.runs.sources import Source, distinct_source_labels, short_source_names


@dataclass(frozen=True)
class FinetuneComparison:
    """The finished runs from several initial policies on the same tasks, which `finetune` returns for a list."""

    def __repr__(self) -> str:
        return repr_of_run(self)

    def _repr_html_(self) -> str:
        return view("run", self)

    def plot(self) -> ShownFigure:
        """Draw the return of each initial policy along the iterations, with 95 % bands, as a matplotlib figure."""
        return draw_returns({name: run.returns for name, run in self.runs.items()}, [], None, None)

    folder: Path
    """The folder of the comparison, which holds the run folders."""
    runs: dict[str, FinetuneRun]
    """The run of each initial policy, by a short name of the policy."""
    summary: dict[str, Any]
    """The content of summary.json: like that of a run, with one entry per initial policy."""


def compare_finetuning(sources: Sequence[Source], plan: Plan, folder: Path, way: Way) -> FinetuneComparison:
    """Fine-tune from each source in its own run folder inside `folder`, then draw all returns in one figure."""
    names = short_source_names(sources, taken=("figures", "summary.json"))
    check_folder_is_plain(folder, folders=[*names, "figures"])
    _check_comparison_folder(folder, names, resume=way.resume)
    with folder_lock_held(folder), interrupts() as received:
        return _compare_finetuned_sources(dict(zip(names, sources, strict=True)), plan, folder, way, received)


def _compare_finetuned_sources(
    sources: Mapping[str, Source], plan: Plan, folder: Path, way: Way, received: Interrupts
) -> FinetuneComparison:
    runs = {}
    for name, source in sources.items():
        runs[name] = run_finetuning_from_source(source, plan, folder / name, way)
        received.check()
    labels = dict(zip(sources, distinct_source_labels(list(sources.values())), strict=True))
    tasks = [task.describe() for task in plan.tasks]
    with refusing_odd_files(folder):
        returns = {labels[name]: run.returns for name, run in runs.items()}
        draw_returns(returns, tasks, plan.environment_class[plan.member], folder / "figures")
        summary = _summarise_comparison(plan, runs)
    write_atomically(folder / "summary.json", to_json(summary))
    title = f"return in {name_as_text(plan.member, WIDTH)}, mean over {counted(len(plan.tasks), 'task')}"
    print_table(finetune_table({labels[name]: run.summary for name, run in runs.items()}, title), quiet=way.quiet)
    return FinetuneComparison(folder, runs, summary)


def _check_comparison_folder(folder: Path, names: Sequence[str], *, resume: bool) -> None:
    begun = resume and any((folder / name / "config.json").is_file() for name in names)
    if not begun and folder.exists() and (not folder.is_dir() or not is_empty_but_for_lock(folder)):
        raise InputError(
            f"folder: {folder} is not empty; choose another --folder, or continue what it holds with --resume"
        )


def _summarise_comparison(plan: Plan, runs: Mapping[str, FinetuneRun]) -> dict[str, Any]:
    """Return the content of summary.json: like that of a run, with one entry per initial policy."""
    parts = ("init", "label", "memory", "returns", "final", "steps_per_second", "seconds", "device")
    for run in runs.values():
        if missing := [part for part in parts if part not in run.summary]:
            raise InputError(f"run: {run.folder / 'summary.json'} has no {missing[0]}")
    return {
        "class": plan.environment_class.name,
        "member": plan.member,
        "tasks": [task.describe() for task in plan.tasks],
        "iterations": plan.config.iterations,
        "seeds": plan.config.seed_list,
        **{part: {name: run.summary[part] for name, run in runs.items()} for part in parts},
    }
