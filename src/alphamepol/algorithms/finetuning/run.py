"""The run of fine-tuning from one source: one initial policy, or several that take turns over the tasks."""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT
from alphamepol.algorithms.finetuning.iteration import Plan, run_finetuning_iteration, start_finetuning_iterations
from alphamepol.algorithms.finetuning.records import finetuning_record_lines, summarise_finetuning_records
from alphamepol.compute.stopwatch import LEARNING, SAMPLING
from alphamepol.environments.host import AnyClass, HostClass, remark_about_class
from alphamepol.environments.tasks import Task, stack_tasks
from alphamepol.errors import InputError
from alphamepol.figures.returns import draw_returns
from alphamepol.figures.style import ShownFigure
from alphamepol.figures.tables import finetune_table, iteration_table
from alphamepol.figures.videos.video import Video
from alphamepol.files.arrays import pack_arrays
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.notebooks.views import view
from alphamepol.policies.files import read_policy_file, save_policy
from alphamepol.policies.policy import Policy, unstack_policies
from alphamepol.runs.context import RunContext, Way, Work, running_in_context
from alphamepol.runs.description import describe_run, repr_of_run
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.loop import Loop, LoopState, run_loop
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.progress import counted
from alphamepol.runs.sources import (
    Source,
    describe_source,
    keep_source_of_run,
    say_checkpoints_of_sources,
    source_of_resumed_run,
)
from alphamepol.settings.conversion import settings_to_dict


@dataclass(frozen=True)
class FinetuneRun:
    """A finished run of fine-tuning, which `finetune` returns."""

    def __repr__(self) -> str:
        return repr_of_run(self)

    def _repr_html_(self) -> str:
        return view("run", self)

    folder: Path
    """The run folder."""
    label: str
    """The name of the initial policy in figures."""
    summary: dict[str, Any]
    """The content of summary.json: the final numbers of the run (docs/finetuning.md)."""
    environment_class: AnyClass = field(repr=False)
    """The class in which the policies act."""
    tasks: Sequence[Task] = field(repr=False)
    """The tasks, in the order of their numbers."""

    @property
    def returns(self) -> Float[np.ndarray, "tasks iterations"]:
        """The return of each task at each iteration, averaged over the seeds. The shape is (tasks, iterations)."""
        return np.array(self.summary["returns"])

    def load_policy(self, task: int, seed: int | None = None) -> Policy:
        """Read the final policy of a task.

        **Arguments**

        - `task`: the number of the task, from 0 on.
        - `seed`: the seed. The default is the first seed of the run.
        """
        return read_policy_file(self._policy_file(task, seed))

    def plot(self) -> ShownFigure:
        """Draw the return along the iterations, as a matplotlib figure: the mean over tasks with its 95 % band."""
        return draw_returns({self.label: self.returns}, [], None, None)

    def replay(self, task: int = 0, seed: int | None = None, **options: Any) -> Video:
        """Film the final policy of a task at this task. A notebook shows the result as a moving picture.

        The arguments `task` and `seed` are those of `load_policy`, the others those of `alphamepol.render`.
        """
        if not 0 <= task < len(self.tasks):
            raise InputError(f"task: {task} was given; the run has tasks 0 to {len(self.tasks) - 1}")
        done = {"environment_class": self.environment_class, "task": self.tasks[task], **options}
        return view("replay", self._policy_file(task, seed), self.summary["member"], **done)

    def _policy_file(self, task: int, seed: int | None) -> Path:
        first: int = self.summary["seeds"][0]
        name = f"task-{task}-seed-{first if seed is None else seed}.safetensors"
        return RunFolder(self.folder).policies / name


def run_finetuning_from_source(source: Source, plan: Plan, path: Path, way: Way) -> FinetuneRun:
    """Fine-tune from one source according to the plan, in the run folder `path`."""
    config, environment_class, folder = plan.config, plan.environment_class, RunFolder(path)
    source = source_of_resumed_run(source, folder)
    say_checkpoints_of_sources([source], quiet=way.quiet)
    member = environment_class[plan.member]
    fingerprint = (
        environment_class.fingerprint if isinstance(environment_class, HostClass) else _sha256_in_finetuning_run(member)
    )
    algorithm = plan.finetuner.name
    description = describe_run(
        "finetune",
        environment_class.name,
        {
            "member": plan.member,
            "member_sha256": fingerprint,
            **describe_source(source),
            "tasks": [task.describe() for task in plan.tasks],
            "tasks_sha256": _sha256_in_finetuning_run(stack_tasks(plan.tasks)),
            "config": settings_to_dict(config),
            **({} if algorithm == DEFAULT else {"algorithm": algorithm}),
        },
    )
    label, where = name_as_text(source.label, WIDTH), name_as_text(plan.member, WIDTH)
    title = (
        f"{plan.finetuner.label} from {label} ({name_as_text(source.name)}) in {where}, "
        f"{counted(len(plan.tasks), 'task')}, {counted(config.iterations, 'iteration')}, in {folder.path}"
    )
    with folder.claim(description, resume=way.resume, length="iterations", settings=config) as to_do:
        if to_do:
            keep_source_of_run(source, folder)
            folder.write_class_record(environment_class)
            remark = remark_about_class(environment_class)
            work = Work(title, "iteration", config.iterations, (SAMPLING, LEARNING), remark)
            precision = config.matmul_precision
            with running_in_context(folder, work, way, precision=precision) as context:
                _run_finetuning(source, plan, context)
    summary = folder.read_summary()
    if len(summary["tasks"]) != len(plan.tasks):
        raise InputError(f"run: {folder.summary} has {len(summary['tasks'])} tasks instead of {len(plan.tasks)}")
    return FinetuneRun(folder.path, source.label, summary, environment_class, plan.tasks)


def _run_finetuning(source: Source, plan: Plan, context: RunContext) -> None:
    config, folder, stopwatch = plan.config, context.folder, context.stopwatch
    policies, rows = list(source.policies.values()), plan.task_of_rows()

    def step(state: LoopState, iteration: int):
        lap = stopwatch.lap()
        improved, report = run_finetuning_iteration(state, iteration, plan, rows, stopwatch)
        return improved, finetuning_record_lines(iteration, config, report, lap()), dict

    def policies_of(state: LoopState) -> dict[str, Policy]:
        names = [f"task-{task}-seed-{seed}" for task in range(len(plan.tasks)) for seed in config.seed_list]
        return unstack_policies(state.learners.policy, names)

    loop = Loop(
        unit="iteration",
        total=config.iterations,
        checkpoint_every=config.checkpoint_every,
        keep_checkpoints=config.keep_checkpoints,
        start=lambda: start_finetuning_iterations(policies, plan),
        template=lambda: start_finetuning_iterations(policies, plan, look=False),
        step=step,
        policies=policies_of,
        show=iteration_table,
        labels=("task", "seed"),
        charted=("return",),
        summarised={"return": float},
    )
    state, iterations = run_loop(loop, context)
    plan = dataclasses.replace(plan, config=dataclasses.replace(config, iterations=iterations))
    context.progress.say("saving policies and drawing figures")
    for name, policy in policies_of(state).items():
        save_policy(policy, folder.policies / f"{name}.safetensors")
        context.interrupts.check()
    summary = summarise_finetuning_records(source, plan, read_metrics(folder.metrics), context)
    returns = np.array(summary["returns"])
    draw_returns({source.label: returns}, summary["tasks"], plan.environment_class[plan.member], folder.figures)
    title = f"return in {name_as_text(plan.member, WIDTH)}, {counted(len(plan.tasks), 'task')}"
    context.finish(summary, finetune_table({source.label: summary}, title))


def _sha256_in_finetuning_run(tree: Any) -> str:
    return hashlib.sha256(pack_arrays(tree, {})).hexdigest()
