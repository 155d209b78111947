"""`finetune`: reinforcement learning on many tasks in one member of a class, from pre-trained policies."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from alphamepol.algorithms.finetuning.comparison import FinetuneComparison, compare_finetuning
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner import FineTuner, find_finetuner
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT
from alphamepol.algorithms.finetuning.iteration import Plan
from alphamepol.algorithms.finetuning.run import FinetuneRun, run_finetuning_from_source
from alphamepol.algorithms.finetuning.tasks import finetuning_tasks
from alphamepol.environments.horizons import check_horizon, check_horizon_of_reward
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.environments.member_tasks import check_tasks
from alphamepol.environments.registry import find_registered_class, registered_name
from alphamepol.environments.tasks import Task
from alphamepol.errors import InputError
from alphamepol.files.names import name_as_path
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import check_policy_shape
from alphamepol.runs.callbacks import Callback
from alphamepol.runs.context import Way
from alphamepol.runs.device_count import check_device_count
from alphamepol.runs.folder import default_run_folder
from alphamepol.runs.sources import Given, Source, common_class_of_sources, joined_source_names, read_sources
from alphamepol.settings.run import LogTarget, PhysicsKind, WorkersGiven


@overload
def finetune(
    init: Given,
    member: str | int,
    config: FinetuneConfig | None = None,
    *,
    algorithm: str | FineTuner[Any] = DEFAULT,
    environment_class: AnyClass | str | None = None,
    tasks: Sequence[Task] | None = None,
    checkpoint: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
    log: LogTarget = "tensorboard",
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> FinetuneRun: ...


@overload
def finetune(
    init: Sequence[Given],
    member: str | int,
    config: FinetuneConfig | None = None,
    *,
    algorithm: str | FineTuner[Any] = DEFAULT,
    environment_class: AnyClass | str | None = None,
    tasks: Sequence[Task] | None = None,
    checkpoint: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
    log: LogTarget = "tensorboard",
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> FinetuneComparison: ...


def finetune(
    init: Given | Sequence[Given],
    member: str | int,
    config: FinetuneConfig | None = None,
    *,
    algorithm: str | FineTuner[Any] = DEFAULT,
    environment_class: AnyClass | str | None = None,
    tasks: Sequence[Task] | None = None,
    checkpoint: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
    log: LogTarget = "tensorboard",
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> FinetuneRun | FinetuneComparison:
    """Fine-tune an initial policy on each task separately, and save everything in a run folder.

    A list of initial policies is compared: each one is fine-tuned on the same tasks, and one figure shows them all. If
    an initial policy is a run with several seeds, its policies take turns over the tasks (docs/finetuning.md).

    **Arguments**

    - `init`: the folder of a run that trained policies, a policy file, the name of a released policy, a policy, or a
      dict of policies by seed. `"random"` stands for untrained policies. It can also be a list of these.
    - `member`: the member of the class to act in, by name or number.
    - `config`: the settings. By default they are those of `finetuning_preset` for the class.
    - `algorithm`: the name of an algorithm, or your own `FineTuner`.
    - `environment_class`: a class of environments or its name. The default is the class of the run or of the released
      policy in `init`. It is needed if `init` does not tell the class, e.g. for a policy file or `"random"`.
    - `tasks`: your own tasks, all of one type. By default the fields `goals` and `tasks` of the settings decide the
      tasks.
    - `checkpoint`: the number of steps after which the runs in `init` saved the policies to start from. The default is
      the final policies, or the newest checkpoint of a run that has not ended.
    - `folder`: the run folder. The default is `runs/finetune-MEMBER-INIT-seed-SEED`, with
      the name of the algorithm before the seed unless it is TRPO. For a list of initial policies,
      each one has its own run folder inside it.
    - `resume`: continue the run in that folder, or start it if there is none. A finished run is only read, unless
      `config` has more iterations than before.
    - `devices`: the number of devices, over which the tasks and their seeds are spread. The number of tasks times seeds
      must be a multiple of `devices`.
    - `physics`: the engine that steps a class of MuJoCo models: `"cpu"`, `"gpu"` or `"auto"` (see `mujoco_class`).
    - `workers`: the workers of a class of Gymnasium environments: a number of processes, or "ray" or "ray:64" for
      actors of a Ray cluster (docs/scaling.md). By default they are those that the class was made with.
    - `log`: the program that metrics are written for, besides metrics.jsonl: `"tensorboard"`, `"wandb"` (Weights &
      Biases) or `"none"`.
    - `callbacks`: functions that are called after every iteration with a `FinishedStep`. They can stop the run.
    - `quiet`: show no progress.

    **Returns**

    A `FinetuneRun`, or a `FinetuneComparison` if `init` is a list.

    **Raises**

    - `InputError`: if a setting is not allowed, if the policies, member, tasks and class do not fit together, or if the
      run cannot use the folder or the devices.
    - `RunError`: if a state, a reward or a parameter is no longer finite.
    - `RunInterrupted` (a `KeyboardInterrupt`): on Ctrl-C or SIGTERM. The finished iterations are saved in a checkpoint,
      and `resume` continues after them.

    **Example**

    ```python
    import alphamepol as am

    config = am.TrpoConfig(goals=(-0.9, 0.25), iterations=2, horizon=20, steps=200)
    run = am.finetune("gridworld-slope/alpha-0.2", "GWN", config, folder="runs/near", quiet=True)
    print(run.returns.shape)  # (1, 2): one task, two iterations
    policy = run.load_policy(task=0)
    ```
    """
    several = not isinstance(init, str | Path | Policy | Mapping)
    inits = list(init) if several else [init]
    if not inits:
        raise InputError("init: none was given; name the folder of a run, a policy file, or random")
    finetuner = find_finetuner(algorithm) if isinstance(algorithm, str) else algorithm
    random_memory = "none" if config is None else config.memory
    sources = read_sources(inits, random_memory, checkpoint)
    if environment_class is None:
        environment_class = common_class_of_sources(sources)
    config = config or _usual_settings_of_finetune(environment_class, finetuner)
    made = make_class(environment_class, physics=physics, workers=workers)
    plan = _plan_finetune(sources, member, made, tasks, config, finetuner)
    check_device_count(devices, plan.environment_class, {"tasks times seeds": plan.rows})
    other = "" if finetuner.name == DEFAULT else name_as_path(finetuner.name)
    where = name_as_path(plan.member, plan.environment_class.names)
    words = "finetune", where, joined_source_names(sources), other, f"seed-{config.seed}"
    path = Path(folder) if folder else default_run_folder(*words)
    way = Way(resume, devices, quiet, log, callbacks)
    way.check()
    return (
        compare_finetuning(sources, plan, path, way)
        if several
        else run_finetuning_from_source(sources[0], plan, path, way)
    )


def _usual_settings_of_finetune(environment_class: AnyClass | str, finetuner: FineTuner[Any]) -> FinetuneConfig:
    """Return the default settings of an algorithm for a class, as `finetuning_preset` does for algorithms by name."""
    entry = find_registered_class(registered_name(environment_class))
    return (entry and entry.settings("paper", type(finetuner.own))) or finetuner.own


def _plan_finetune(
    sources: Sequence[Source],
    member: str | int,
    environment_class: AnyClass,
    tasks: Sequence[Task] | None,
    config: FinetuneConfig,
    finetuner: FineTuner[Any],
) -> Plan:
    """Find the tasks, and raise an `InputError` if policies, settings, tasks and class do not fit together."""
    if not isinstance(config, type(finetuner.own)):
        needed = type(finetuner.own).__name__
        raise InputError(
            f"config: {type(config).__name__} was given; {finetuner.label} takes a {needed}; finetuning_preset returns "
            "the settings of an algorithm for a class"
        )
    config.check()
    where = environment_class[member]
    name = member if isinstance(member, str) else environment_class.names[member]
    for source in sources:
        for policy in source.policies.values():
            check_policy_shape(policy, environment_class, f"policy {source.name}")
    if config.memory != "none" and all(source.policies for source in sources):
        raise InputError(
            f"memory: {config.memory} was given; it is only for the initial policy random, because others have a "
            "memory of their own"
        )
    if tasks is not None and config.goals:
        raise InputError("goals: they were given together with tasks; give either goals or tasks")
    if config.normalise and all(source.policies for source in sources):
        config = dataclasses.replace(config, normalise=False)  # a default of the class, only for random
    check_horizon(environment_class, config.horizon)
    check_horizon_of_reward(where, name, config.horizon)
    tasks = finetuning_tasks(where, config, config.seed) if tasks is None else tasks
    check_tasks(tasks, where)
    return Plan(environment_class, name, tasks, dataclasses.replace(config, tasks=len(tasks)), finetuner)
