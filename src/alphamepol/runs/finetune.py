"""Fine-tuning as a run: TRPO from one initial policy on many tasks in one member of a class."""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass, HostMember
from alphamepol.environments.registry import resolve_class
from alphamepol.errors import InputError
from alphamepol.files import pack, to_json, write_atomically
from alphamepol.learning.trpo import TrpoReport
from alphamepol.mapping import take
from alphamepol.policies import Policy
from alphamepol.policy_files import load_policy, save_policy
from alphamepol.runs import figures
from alphamepol.runs.checks import check_devices, check_horizon, check_policy_fits, check_reward_lasts
from alphamepol.runs.config import FinetuneConfig, config_to_dict
from alphamepol.runs.folder import RunFolder, describe, device_name
from alphamepol.runs.interrupts import Interrupts
from alphamepol.runs.iteration import run_iteration, start_finetuning
from alphamepol.runs.loop import Loop, LoopState, run_loop, running
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.progress import RunProgress
from alphamepol.runs.sources import Source, common_class, joined_names, read_source
from alphamepol.runs.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.runs.tables import finetune_table, show_iteration
from alphamepol.seeds import goal_key
from alphamepol.statistics import bootstrap_interval
from alphamepol.tasks import Task, check_tasks, goal_at, place_size, random_goals, stack_tasks


@dataclass(frozen=True)
class FinetuneRun:
    """A finished run."""

    folder: Path
    label: str
    """What figures call the initial policy."""
    summary: dict[str, Any]

    @property
    def returns(self) -> Float[np.ndarray, "tasks iterations"]:
        return np.array(self.summary["returns"])

    def load_policy(self, task: int, seed: int | None = None) -> Policy:
        """The final policy of a task; of the first seed unless another is given."""
        first: int = self.summary["seeds"][0]
        return load_policy(RunFolder(self.folder).policies / _policy_file(task, first if seed is None else seed))


def finetune(
    init: str | Path | Policy,
    member: str | int,
    config: FinetuneConfig | None = None,
    *,
    environment_class: AnyClass | str | None = None,
    tasks: Sequence[Task] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    quiet: bool = False,
) -> FinetuneRun:
    """Fine-tune a policy with TRPO, on each task apart, and leave everything in a run folder.

    **Arguments**

    - `init`: the folder of a run that trained policies, a policy file, a policy, or "random".
    - `member`: the member of the class to act in, by name or number.
    - `config`: the paper's settings if not given.
    - `environment_class`: a class or its name; the run's own if not given.
    - `tasks`: tasks of one's own, all of one kind; if not given, `config` says which goals.
    - `folder`: the run folder; by default `runs/finetune-MEMBER-INIT-seed-SEED`.
    - `resume`: continue the run in that folder; a finished one is only read.
    - `devices`: how many to lay the tasks and their seeds over, which must be a multiple of it.
    - `quiet`: show no progress.

    Ctrl-C saves a checkpoint and raises `RunInterrupted`, a KeyboardInterrupt.
    """
    config = config or FinetuneConfig()
    source = read_source(init, config.memory)
    plan = plan_finetuning([source], member, config, environment_class, tasks, devices)
    folder = folder or default_folder([source], plan.member, config)
    return finetune_source(source, plan, RunFolder(folder), resume=resume, quiet=quiet)


@dataclass(frozen=True)
class Plan:
    """What is the same for every initial policy: where, on what, how."""

    environment_class: AnyClass
    member: str
    tasks: Sequence[Task]
    config: FinetuneConfig
    devices: int


def plan_finetuning(
    sources: Sequence[Source],
    member: str | int,
    config: FinetuneConfig,
    environment_class: AnyClass | str | None,
    tasks: Sequence[Task] | None,
    devices: int = 1,
) -> Plan:
    """Find the class and the tasks, and refuse what cannot be."""
    config.check()
    if environment_class is None:
        environment_class = common_class(sources)
    environment_class = resolve_class(environment_class)
    where = environment_class[member]
    name = member if isinstance(member, str) else environment_class.names[member]
    for source in sources:
        for policy in source.policies.values():
            check_policy_fits(policy, environment_class, f"policy {source.name}")
    if config.memory != "none" and all(source.policies for source in sources):
        raise InputError(f"memory: {config.memory} was given, but it is for random; other policies bring their own")
    if tasks is not None and config.goals:
        raise InputError("goals: they were given beside tasks; give either goals or tasks")
    if config.normalise and all(source.policies for source in sources):
        config = dataclasses.replace(config, normalise=False)  # the usual setting of a class, for random alone
    check_horizon(environment_class, config.horizon)
    check_reward_lasts(where, name, config.horizon)
    tasks = _tasks_of(where, config) if tasks is None else tasks
    check_tasks(tasks, where)
    check_devices(devices, environment_class, {"tasks times seeds": len(tasks) * config.seeds})
    return Plan(environment_class, name, tasks, dataclasses.replace(config, tasks=len(tasks)), devices)


def finetune_source(source: Source, plan: Plan, folder: RunFolder, *, resume: bool, quiet: bool) -> FinetuneRun:
    """Fine-tune from one source as planned."""
    config, environment_class = plan.config, plan.environment_class
    description = describe(
        "finetune",
        **{"class": environment_class.name},
        member=plan.member,
        member_sha256=_fingerprint(environment_class, plan.member),
        init=source.name,
        init_sha256=_sha256(list(source.policies.values())),
        tasks=[task.describe() for task in plan.tasks],
        tasks_sha256=_sha256(stack_tasks(plan.tasks)),
        config=config_to_dict(config),
    )
    title = (
        f"TRPO from {source.label} ({source.name}) in {plan.member}, {len(plan.tasks)} tasks, "
        f"{config.iterations} iterations, in {folder.path}"
    )
    with folder.claim(description, resume=resume) as to_do:
        if to_do:
            precision = config.matmul_precision
            with running(title, "iteration", config.iterations, precision=precision, quiet=quiet) as around:
                _run(source, plan, folder, *around)
    return FinetuneRun(folder.path, source.label, folder.read_summary())


def default_folder(sources: Sequence[Source], member: str, config: FinetuneConfig) -> Path:
    """Where fine-tuning goes if nobody says."""
    return Path("runs") / f"finetune-{member}-{joined_names(sources)}-seed-{config.seed}"


def _run(source: Source, plan: Plan, folder: RunFolder, progress: RunProgress, received: Interrupts) -> None:
    config, environment_class, member = plan.config, plan.environment_class, plan.member
    rows = stack_tasks([task for task in plan.tasks for _ in range(config.seeds)])
    policies = list(source.policies.values())
    stopwatch = Stopwatch(SAMPLING, LEARNING)

    def step(state: LoopState, iteration: int):
        lap = stopwatch.lap()
        improved, report = run_iteration(state, iteration, environment_class, member, rows, config, stopwatch)
        return improved, iteration_lines(iteration, config, report, lap()), dict

    loop = Loop(
        unit="iteration",
        total=config.iterations,
        checkpoint_every=config.checkpoint_every,
        start=lambda: start_finetuning(policies, environment_class, member, len(plan.tasks), config),
        template=lambda: start_finetuning(policies, environment_class, member, len(plan.tasks), config, look=False),
        step=step,
        show=show_iteration,
        labels=("task", "seed"),
        devices=plan.devices,
    )
    state = run_loop(loop, folder, stopwatch, progress, received)
    progress.say("saving policies and drawing figures")
    for row in range(len(plan.tasks) * config.seeds):
        task, seed = divmod(row, config.seeds)
        policy = take(state.learners.policy, row)
        save_policy(policy, folder.policies / _policy_file(task, config.seed + seed))
        received.check()
    summary = _summarise(source, plan, read_metrics(folder.metrics), stopwatch)
    run = FinetuneRun(folder.path, source.label, summary)
    figures.returns({source.label: run.returns}, summary["tasks"], environment_class[member], folder.figures)
    # The summary comes last: a run that has one is whole.
    write_atomically(folder.summary, to_json(summary))
    progress.finish(finetune_table({source.label: summary}, f"return in {plan.member}, {len(plan.tasks)} tasks"))


def iteration_lines(
    iteration: int, config: FinetuneConfig, report: TrpoReport, seconds: dict[str, float]
) -> list[dict[str, Any]]:
    """One line per task and seed for metrics.jsonl.

    `return` is of the policy that sampled the iteration; `kl`, `improvement` (of the surrogate) and `step` (the
    fraction of the full step) are of the one that came out. Seconds are of all tasks together.
    """
    report = jax.device_get(report)
    return [
        {
            "iteration": iteration,
            "task": row // config.seeds,
            "seed": config.seed + row % config.seeds,
            "return": float(report.mean_return[row]),
            "kl": float(report.stepped.kl[row]),
            "improvement": float(report.stepped.improvement[row]),
            "step": float(report.stepped.fraction[row]),
            "critic_loss": float(report.critic_loss[row]),
            "seconds": seconds,
        }
        for row in range(len(report.mean_return))
    ]


def _summarise(source: Source, plan: Plan, metrics: list[dict[str, Any]], stopwatch: Stopwatch) -> dict[str, Any]:
    config, tasks = plan.config, len(plan.tasks)
    rows = np.array([line["return"] for line in metrics]).reshape(config.iterations, tasks, config.seeds)
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
        "seeds": list(range(config.seed, config.seed + config.seeds)),
        "policies": len(source.policies),
        "returns": _rounded(returns),
        **({"returns_by_seed": _rounded(np.moveaxis(by_seed, 1, 0))} if config.seeds > 1 else {}),
        "final": mean_with_interval(returns[:, -1]),
        "steps_per_second": config.iterations * config.steps * tasks * config.seeds / stopwatch.working,
        "seconds": stopwatch.so_far(),
        "device": device_name(),
    }


def _rounded(values: Float[np.ndarray, "..."]) -> list[Any]:
    """As JSON lists, six decimals: there are many of them."""
    return values.round(6).tolist()


def mean_with_interval(values: Float[np.ndarray, " tasks"]) -> dict[str, Any]:
    """Mean and 95 % bootstrap interval; one value has no interval."""
    interval = [float(end) for end in bootstrap_interval(values)] if len(values) > 1 else None
    return {"mean": float(values.mean()), "interval": interval}


def _tasks_of(member: Member, config: FinetuneConfig) -> Sequence[Task]:
    """The goals that the configuration gives, else the member's own tasks, else random goals."""
    if config.goals:
        return _goals_of(member, config)
    own = getattr(member, "tasks", ())
    if own:
        return own[: config.tasks]
    return random_goals(member, config.tasks, key=goal_key(config.seed), radius=config.goal_radius)


def _goals_of(member: Member, config: FinetuneConfig) -> list[Task]:
    size = place_size(member)
    if len(config.goals) % size:
        given = " ".join(f"{value:g}" for value in config.goals)
        raise InputError(f"goals: {given} was given, {len(config.goals)} numbers; each goal needs {size}")
    places = np.reshape(config.goals, (-1, size)).tolist()
    return [goal_at(member, place, config.goal_radius) for place in places]


def _policy_file(task: int, seed: int) -> str:
    return f"task-{task}-seed-{seed}.safetensors"


def _fingerprint(environment_class: AnyClass, member: str) -> str:
    where = environment_class[member]
    return environment_class.fingerprint if isinstance(where, HostMember) else _sha256(where)


def _sha256(tree: Any) -> str:
    return hashlib.sha256(pack(tree, {})).hexdigest()
