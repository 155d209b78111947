"""The run of meta-training: MAML on random goals, DIAYN, or MAML on DIAYN's skills."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

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
from alphamepol.figures.curves import draw_adaptation_curves, draw_discriminability_curve
from alphamepol.figures.style import ShownFigure
from alphamepol.figures.tables import metatrain_table
from alphamepol.figures.videos.video import Video
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.notebooks.views import view
from alphamepol.policies.policy import Policy
from alphamepol.runs.callbacks import Callback
from alphamepol.runs.context import RunContext, Way, Work, running_in_context
from alphamepol.runs.description import describe_run, repr_of_run
from alphamepol.runs.device_count import check_device_count
from alphamepol.runs.folder import RunFolder, class_in_folder_name, default_run_folder
from alphamepol.runs.progress import counted
from alphamepol.settings.conversion import settings_to_dict
from alphamepol.settings.run import LogTarget


@dataclass(frozen=True)
class MetatrainRun:
    """A finished meta-training run, which `metatrain` returns."""

    def __repr__(self) -> str:
        return repr_of_run(self)

    def _repr_html_(self) -> str:
        return view("run", self)

    folder: Path
    """The run folder."""
    summary: dict[str, Any]
    """The content of summary.json."""
    policies: dict[int, Policy]
    """The trained policies by seed.
    DIAYN has a policy for each skill and seed. These policies are numbered from 0: first come the policies of the
    first skill for every seed, then those of the second skill, and so on."""
    environment_class: EnvironmentClass = field(repr=False)
    """The class that the policies were trained on."""

    def plot(self) -> ShownFigure:
        """Draw the return before and after the inner step, or how well skills can be told apart, along the run.

        Returns a matplotlib figure.
        """
        summary = self.summary
        if "discriminability" in summary:
            return draw_discriminability_curve(np.array(summary["discriminability"]), summary["skills"], None)
        before, after = (np.array(summary[f"return_{when}"]) for when in ("before", "after"))
        return draw_adaptation_curves(before, after, None)

    def replay(self, member: str | int | Sequence[str | int] | None = None, **options: Any) -> Video:
        """Film the policies while they act. A notebook shows the result as a moving picture.

        `member` is a member or a list of members. The other arguments are those of `alphamepol.render`.
        """
        return view("replay", self.folder, member, environment_class=self.environment_class, **options)


def metatrain(
    environment_class: EnvironmentClass | str,
    config: MetatrainConfig | None = None,
    *,
    diayn: str | Path | None = None,
    draw_task: DrawTask | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    log: LogTarget = "tensorboard",
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> MetatrainRun:
    """Meta-train one policy per seed on a class of environments, and save everything in a run folder.

    The method is `config.method`: MAML on random goals (maml-r), DIAYN (diayn), or MAML on the rewards of DIAYN's
    skills (maml-diayn). DIAYN trains one policy per seed and skill.

    **Arguments**

    - `environment_class`: a class written in JAX, or its name.
    - `config`: the settings, such as `MetatrainConfig(method="maml-r")`. If it is not given, it is
      `metatraining_preset("paper", environment_class)`.
    - `diayn`: the folder of a DIAYN run whose skills are the tasks of maml-diayn. If it is not given, maml-diayn
      learns the skills first, in the folder `diayn` inside the run folder.
    - `draw_task`: a function `draw_task(member, key=key)`, written in JAX, that draws a task of maml-r in a member. If
      it is not given, tasks are random goals. A resumed run only checks that the name of the function is the same.
    - `folder`: the run folder. If it is not given, it is `runs/CLASS-METHOD-seed-FIRST`, where FIRST is the first seed.
    - `resume`: continue the run in the folder, or start it if there is none. A finished run is only read, unless
      `config` has more iterations than before (for DIAYN, more epochs).
    - `devices`: the number of devices that share the seeds. The number of seeds must be a multiple of it.
    - `log`: the program that metrics are written for, besides metrics.jsonl: `"tensorboard"`, `"wandb"` (Weights &
      Biases) or `"none"`.
    - `callbacks`: functions that are called after every step with a `FinishedStep`. They can stop the run. They are
      not called while maml-diayn learns its skills.
    - `quiet`: show no progress.

    **Returns**

    The finished run, as a `MetatrainRun`: its folder, its summary and its policies.

    **Raises**

    - `InputError`: if a setting is not allowed, the method cannot be used with the class, or the folder holds another
      run.
    - `RunError`: if a state, a reward or a parameter is no longer finite.
    - `RunInterrupted`, a `KeyboardInterrupt`: on Ctrl-C, after a checkpoint was saved.

    **Example**

    ```python
    import alphamepol as am

    config = am.MetatrainConfig(iterations=2, tasks=2, trajectories=2, horizon=10, hidden=(8,), seeds=1)
    run = am.metatrain("gridworld-slope", config, folder="runs/maml", quiet=True)
    print(run.folder, list(run.policies))  # runs/maml [0]
    ```
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
    # MAML on the skills of a longer DIAYN would be another run, so that only its own iterations may be more.
    length = "epochs" if config.method == "diayn" else "iterations"
    way = Way(resume, devices, quiet, log, callbacks)
    way.check()
    with run_folder.claim(description, resume=resume, length=length, settings=config) as to_do:
        if to_do and config.method == "maml-diayn":
            if given is None:
                inside = RunFolder(run_folder.path / "diayn")
                skills = dataclasses.replace(config, method="diayn", normalise=False, memory="none")
                inner = dataclasses.replace(way, resume=True, callbacks=())
                metatrain(environment_class, skills, folder=inside.path, **vars(inner))
                given = load_learned_skills(inside, environment_class)
            drawing = _skill_tasks_of_metatraining_run(given, config)
        if to_do:
            run_folder.write_class_record(environment_class)
            work, precision = _work_of_metatraining_run(environment_class, config, run_folder), config.matmul_precision
            with running_in_context(run_folder, work, way, precision=precision) as context:
                _run_metatraining(environment_class, config, drawing, context, work)
    return MetatrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies(), environment_class)


def _work_of_metatraining_run(environment_class: EnvironmentClass, config: MetatrainConfig, folder: RunFolder) -> Work:
    if config.method == "diayn":
        unit, total, phases = "epoch", config.epochs, (LEARNING,)
    else:
        unit, total, phases = "iteration", config.iterations, (SAMPLING, LEARNING)
    seeds = counted(config.seeds, "seed")
    name = name_as_text(environment_class.name, WIDTH)
    title = f"{config.label} on {name}, {total} {unit}s, {seeds}, in {folder.path}"
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
    """Return the callable that draws the rewards of skills as tasks, stacked over seeds.

    If there are fewer discriminators than seeds, the seeds use them in turn.
    """
    return SkillTasks(stack_trees([given.networks[number % len(given.networks)] for number in range(config.seeds)]))


def _jax_class_of_metatraining_run(
    environment_class: EnvironmentClass | str, config: MetatrainConfig
) -> EnvironmentClass:
    found = make_class(environment_class, config.probabilities)
    if not isinstance(found, EnvironmentClass):
        raise InputError(f"class: {found.name} is stepped outside of JAX; meta-training needs members written in JAX")
    return found
