"""Meta-training as a run: MAML on random goals, DIAYN, or MAML on DIAYN's skills."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphamepol.algorithms.diayn.run import run_diayn
from alphamepol.algorithms.diayn.skills import SkillTasks
from alphamepol.algorithms.maml.run import run_maml
from alphamepol.algorithms.maml.tasks import DrawTask, drawing_of_maml_tasks
from alphamepol.algorithms.metatraining.checks import check_metatraining_method
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.metatraining.learned_skills import Discriminators, load_learned_skills
from alphamepol.algorithms.metatraining.presets import metatraining_preset
from alphamepol.algorithms.metatraining_records import LAST
from alphamepol.compute.stopwatch import LEARNING, SAMPLING
from alphamepol.compute.trees import stack_trees
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.errors import InputError
from alphamepol.figures.tables import metatrain_table
from alphamepol.policies.policy import Policy
from alphamepol.runs.context import RunContext, Work, running_in_context
from alphamepol.runs.description import describe_run
from alphamepol.runs.device_count import check_device_count
from alphamepol.runs.folder import RunFolder, class_in_folder_name, default_run_folder
from alphamepol.runs.progress import counted
from alphamepol.settings.conversion import settings_to_dict


@dataclass(frozen=True)
class MetatrainRun:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    policies: dict[int, Policy]
    """By seed; of DIAYN one per skill and seed, numbered from 0 on: the first skill of every seed, then the second."""


def metatrain(
    environment_class: EnvironmentClass | str,
    config: MetatrainConfig | None = None,
    *,
    diayn: str | Path | None = None,
    draw_task: DrawTask | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    quiet: bool = False,
) -> MetatrainRun:
    """Meta-train one policy per seed, with DIAYN one per seed and skill, and leave everything in a run folder.

    **Arguments**

    - `environment_class`: a class written in JAX, or its name.
    - `config`: e.g. `MetatrainConfig(method="maml-r")`; if not given, `metatraining_preset("paper", …)` for the class.
    - `diayn`: for maml-diayn, the folder of a DIAYN run whose skills are the tasks; if not given, they are learned
      first, in `diayn` inside the folder.
    - `draw_task(member, key=key)`: for maml-r, how to draw a task in a member, in JAX; a random goal if not given. A
      run that is resumed knows it by its name alone.
    - `folder`: the run folder; by default `runs/CLASS-METHOD-seed-FIRST`.
    - `resume`: continue the run in that folder; a finished one is only read.
    - `devices`: how many to lay the seeds over, which must be a multiple of it.
    - `quiet`: show no progress.

    Ctrl-C saves a checkpoint and raises `RunInterrupted`, a KeyboardInterrupt.
    """
    name = registered_name(environment_class)
    config = config or metatraining_preset("paper", name)
    config.check()
    environment_class = _jax_class_of_metatraining_run(environment_class, config)
    check_device_count(devices, environment_class, {"seeds": config.seeds})
    check_metatraining_method(environment_class, config, diayn, draw_task)
    drawing = drawing_of_maml_tasks(environment_class, config, draw_task) if config.method == "maml-r" else None
    given = None if diayn is None else load_learned_skills(RunFolder(diayn), environment_class)
    run_folder = RunFolder(
        folder or default_run_folder(class_in_folder_name(name), config.method, f"seed-{config.seed}")
    )
    description = describe_run(
        "metatrain",
        environment_class.name,
        {
            "members": list(environment_class.names),
            "members_sha256": environment_class.fingerprint,
            "probabilities": list(environment_class.probabilities),
            "tasks": getattr(draw_task, "__name__", "own") if draw_task else None,
            "diayn": None if diayn is None else str(diayn),
            "diayn_sha256": given and given.sha256,
            "config": settings_to_dict(config),
        },
    )
    with run_folder.claim(description, resume=resume) as to_do:
        if to_do and config.method == "maml-diayn":
            if given is None:
                inside = RunFolder(run_folder.path / "diayn")
                begun = resume and inside.config.is_file()
                skills = dataclasses.replace(config, method="diayn", normalise=False, memory="none")
                metatrain(environment_class, skills, folder=inside.path, resume=begun, devices=devices, quiet=quiet)
                given = load_learned_skills(inside, environment_class)
            drawing = _skill_tasks_of_metatraining_run(given, config)
        if to_do:
            work, precision = _work_of_metatraining_run(environment_class, config, run_folder), config.matmul_precision
            with running_in_context(run_folder, work, precision=precision, quiet=quiet, devices=devices) as context:
                _run_metatraining(environment_class, config, drawing, context, work)
    return MetatrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies())


def _work_of_metatraining_run(environment_class: EnvironmentClass, config: MetatrainConfig, folder: RunFolder) -> Work:
    if config.method == "diayn":
        unit, total, phases = "epoch", config.epochs, (LEARNING,)
    else:
        unit, total, phases = "iteration", config.iterations, (SAMPLING, LEARNING)
    seeds = counted(config.seeds, "seed")
    title = f"{config.label} on {environment_class.name}, {total} {unit}s, {seeds}, in {folder.path}"
    return Work(title, unit, total, phases)


def _run_metatraining(
    environment_class: EnvironmentClass, config: MetatrainConfig, drawing: Any, context: RunContext, work: Work
) -> None:
    if config.method == "diayn":
        numbers = run_diayn(environment_class, config, context)
    else:
        numbers = run_maml(environment_class, config, drawing, context)
    summary = {
        "method": config.method,
        "label": config.label,
        "class": environment_class.name,
        "members": list(environment_class.names),
        "probabilities": list(environment_class.probabilities),
        "seeds": config.seed_list,
        **numbers,
    }
    title = f"{config.label}, mean of the last {min(LAST, work.total)} {work.unit}s"
    context.finish(summary, metatrain_table(summary["final"], title))


def _skill_tasks_of_metatraining_run(given: Discriminators, config: MetatrainConfig) -> SkillTasks:
    """The rewards of skills as tasks, stacked over seeds: the discriminators take turns."""
    return SkillTasks(stack_trees([given.networks[number % len(given.networks)] for number in range(config.seeds)]))


def _jax_class_of_metatraining_run(
    environment_class: EnvironmentClass | str, config: MetatrainConfig
) -> EnvironmentClass:
    found = make_class(environment_class, config.probabilities)
    if not isinstance(found, EnvironmentClass):
        raise InputError(f"class: {found.name} is stepped outside of JAX; meta-training needs members written in JAX")
    return found
