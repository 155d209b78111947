"""Meta-training as a run: MAML on random goals, DIAYN, or MAML on DIAYN's skills."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import AnyClass
from alphamepol.environments.registry import resolve_class
from alphamepol.errors import InputError
from alphamepol.files import to_json, write_atomically
from alphamepol.learning.diayn import SkillTasks, of_skill
from alphamepol.mapping import stack, take
from alphamepol.policies import Policy
from alphamepol.policy_files import save_policy
from alphamepol.runs import meta_figures
from alphamepol.runs.checks import check_devices, check_meta_learned, check_reward_lasts, policy_shape
from alphamepol.runs.config import MetatrainConfig, config_to_dict
from alphamepol.runs.diayn_epoch import run_diayn_epoch, sac_settings, start_diayn, world_of
from alphamepol.runs.discriminators import Discriminators, load_discriminators, save_discriminator
from alphamepol.runs.finetune import mean_with_interval
from alphamepol.runs.folder import RunFolder, describe, device_name
from alphamepol.runs.interrupts import Interrupts
from alphamepol.runs.loop import Loop, LoopState, run_loop, running
from alphamepol.runs.meta_iteration import run_meta_iteration, start_maml
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.progress import RunProgress
from alphamepol.runs.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.runs.tables import metatrain_table, show_diayn_epoch, show_meta_iteration
from alphamepol.seeds import split_purposes
from alphamepol.tasks import GoalTasks, HasFreeSpace, Task, check_tasks

LAST = 10
"""Iterations or epochs, the last ones, whose mean is the final number."""

LARGEST = 2000
"""Numbers of an observation that a linear baseline is still fitted to: its cost grows with their square."""

LARGEST_REPLAY = 16 * 2**30
"""Bytes of all seeds' replays: they live on the device twice, and in every checkpoint."""

DrawTask = Callable[..., Task]
"""`draw(member, key=key)`: a task in a member, in JAX."""


@dataclass(frozen=True)
class MetatrainRun:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    policies: dict[int, Policy]
    """By seed; of DIAYN one per skill and seed, numbered from 0 on: the first skill of every seed, then the second."""


def metatrain(
    environment_class: EnvironmentClass | str,
    config: MetatrainConfig,
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
    - `config`: e.g. `MetatrainConfig(method="maml-r")`.
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
    config.check()
    environment_class = _compiled(resolve_class(environment_class, config.probabilities))
    check_devices(devices, environment_class, {"seeds": config.seeds})
    _check_method(environment_class, config, diayn, draw_task)
    drawing = task_drawing(environment_class, config, draw_task) if config.method == "maml-r" else None
    given = None if diayn is None else load_discriminators(RunFolder(diayn), environment_class)
    run_folder = RunFolder(folder or default_folder(environment_class.name, config))
    description = describe(
        "metatrain",
        **{"class": environment_class.name},
        members=list(environment_class.names),
        members_sha256=environment_class.fingerprint,
        probabilities=list(environment_class.probabilities),
        tasks=getattr(draw_task, "__name__", "own") if draw_task else None,
        diayn=None if diayn is None else str(diayn),
        diayn_sha256=given and given.sha256,
        config=config_to_dict(config),
    )
    with run_folder.claim(description, resume=resume) as to_do:
        if to_do and config.method == "maml-diayn":
            found = given or _learn_skills(environment_class, config, run_folder, devices, resume=resume, quiet=quiet)
            turns = [found.networks[number % len(found.networks)] for number in range(config.seeds)]
            drawing = SkillTasks(stack(turns))
        if to_do:
            run = _run_diayn if drawing is None else partial(_run_maml, drawing=drawing)
            unit, total = ("epoch", config.epochs) if drawing is None else ("iteration", config.iterations)
            seeds = f"{config.seeds} seed{'s' if config.seeds > 1 else ''}"
            title = f"{config.label} on {environment_class.name}, {total} {unit}s, {seeds}, in {run_folder.path}"
            with running(title, unit, total, precision=config.matmul_precision, quiet=quiet) as around:
                run(environment_class, config, run_folder, devices, *around)
    return MetatrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies())


def default_folder(class_name: str, config: MetatrainConfig) -> Path:
    """Where a run goes if nobody says."""
    return Path("runs") / f"{class_name.rpartition(':')[2]}-{config.method}-seed-{config.seed}"


def _run_maml(
    environment_class: EnvironmentClass,
    config: MetatrainConfig,
    folder: RunFolder,
    devices: int,
    progress: RunProgress,
    received: Interrupts,
    *,
    drawing: Any,
) -> None:
    stopwatch = Stopwatch(SAMPLING, LEARNING)

    def step(state: LoopState, iteration: int):
        lap = stopwatch.lap()
        improved, report = run_meta_iteration(state, iteration, environment_class, drawing, config, stopwatch)
        report = jax.device_get(report)
        check_meta_learned(report.finite, config.seed_list, f"iteration {iteration}", "a lower --inner-rate")
        numbers = {
            "return_before": report.return_before,
            "return_after": report.return_after,
            "kl": report.stepped.kl,
            "improvement": report.stepped.improvement,
            "step": report.stepped.fraction,
        }
        return improved, _lines("iteration", iteration, config, numbers, lap()), dict

    loop = Loop(
        unit="iteration",
        total=config.iterations,
        checkpoint_every=config.checkpoint_every,
        start=partial(start_maml, environment_class, config),
        template=partial(start_maml, environment_class, config, look=False),
        step=step,
        show=show_meta_iteration,
        labels=("seed",),
        devices=devices,
    )
    state = run_loop(loop, folder, stopwatch, progress, received)
    progress.say("saving policies and drawing figures")
    for number, seed in enumerate(config.seed_list):
        save_policy(take(state.learners, number), folder.policy(seed))
    before, after = _curves(folder, config, "return_before", "return_after")
    meta_figures.adaptation(before, after, folder.figures)
    tries = 2 * config.iterations * config.tasks * config.trajectories * config.seeds
    numbers = {"return_before": before, "return_after": after, "gain": after - before}
    summary = {
        **_summarise(environment_class, config, numbers, stopwatch, tries * config.horizon),
        "return_before": before.tolist(),
        "return_after": after.tolist(),
    }
    _finish(summary, config, folder, progress)


def _run_diayn(
    environment_class: EnvironmentClass,
    config: MetatrainConfig,
    folder: RunFolder,
    devices: int,
    progress: RunProgress,
    received: Interrupts,
) -> None:
    stopwatch = Stopwatch(LEARNING)
    world, settings = world_of(environment_class, config), sac_settings(environment_class, config)

    def step(state: LoopState, epoch: int):
        lap = stopwatch.lap()
        improved, report = run_diayn_epoch(state, epoch, world, settings, config, stopwatch)
        report = jax.device_get(report)
        numbers = {
            "discriminability": report.discriminability,
            "reward": report.sac.reward,
            "action_entropy": report.sac.entropy,
            "temperature": report.sac.temperature,
            "critic_loss": report.sac.critic_loss,
        }
        finite = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
        check_meta_learned(finite, config.seed_list, f"epoch {epoch}", "a lower --learning-rate")
        return improved, _lines("epoch", epoch, config, numbers, lap()), dict

    loop = Loop(
        unit="epoch",
        total=config.epochs,
        checkpoint_every=10 * config.checkpoint_every,
        start=partial(start_diayn, environment_class, config),
        template=partial(start_diayn, environment_class, config),
        step=step,
        show=show_diayn_epoch,
        labels=("seed",),
        devices=devices,
    )
    state = run_loop(loop, folder, stopwatch, progress, received)
    progress.say("saving policies and drawing figures")
    policies: list[list[Policy]] = []
    for number, seed in enumerate(config.seed_list):
        networks = take(state.learners.state.networks, number)
        save_discriminator(networks.discriminator, folder.discriminator(seed))
        policies.append([of_skill(networks.actor, skill, config.skills) for skill in range(config.skills)])
        for skill, policy in enumerate(policies[-1]):
            save_policy(policy, folder.policy(seed, skill))
        received.check()
    (values,) = _curves(folder, config, "discriminability")
    meta_figures.discriminability(values, config.skills, folder.figures)
    meta_figures.skill_trails(
        policies[0], environment_class, config.horizon, folder.figures, key=split_purposes(state.keys).evaluation[0]
    )
    steps = config.epochs * config.steps * config.seeds
    summary = {
        **_summarise(environment_class, config, {"discriminability": values}, stopwatch, steps),
        "skills": config.skills,
        "discriminability": values.tolist(),
    }
    _finish(summary, config, folder, progress)


def _learn_skills(
    environment_class: EnvironmentClass,
    config: MetatrainConfig,
    folder: RunFolder,
    devices: int,
    *,
    resume: bool,
    quiet: bool,
) -> Discriminators:
    """Run DIAYN inside the folder, or go on with it, and take its discriminators."""
    inside = RunFolder(folder.path / "diayn")
    begun = resume and inside.config.is_file()
    settings = dataclasses.replace(config, method="diayn", normalise=False, memory="none")
    metatrain(environment_class, settings, folder=inside.path, resume=begun, devices=devices, quiet=quiet)
    return load_discriminators(inside, environment_class)


class GivenTasks(eqx.Module):
    """Draws tasks with a function of the user's."""

    draw: DrawTask = eqx.field(static=True)

    def __call__(self, member: CMP, *, key: PRNGKeyArray) -> Task:
        return self.draw(member, key=key)


def task_drawing(
    environment_class: EnvironmentClass, config: MetatrainConfig, draw_task: DrawTask | None = None
) -> Any:
    """What draws the tasks of maml-r, stacked over seeds."""
    first: CMP = environment_class[0]
    if draw_task is None and not isinstance(environment_class[0], HasFreeSpace):
        raise InputError(
            f"class: no goals can be drawn in members of {environment_class.name}; write draw_place and "
            "explain_no_place for them, or give draw_task in Python"
        )
    drawing = GoalTasks(first, config.goal_radius) if draw_task is None else GivenTasks(draw_task)
    example: Any = (draw_task or drawing)(first, key=jax.random.key(0))
    if not isinstance(example, Task):
        raise InputError(f"draw_task: it returned {type(example).__name__}; it must return a Task")
    check_tasks([example], first)
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (config.seeds, *leaf.shape)), drawing)


def _check_method(
    environment_class: EnvironmentClass,
    config: MetatrainConfig,
    diayn: str | Path | None,
    draw_task: DrawTask | None,
) -> None:
    if diayn is not None and config.method != "maml-diayn":
        raise InputError(f"diayn: {diayn} was given, but only maml-diayn takes skills; its method is {config.method}")
    if draw_task is not None and config.method != "maml-r":
        raise InputError(f"draw_task: it was given, but only maml-r takes tasks; the method is {config.method}")
    for name in environment_class.names if config.method == "maml-r" else ():
        check_reward_lasts(environment_class[name], name, config.horizon)
    shape = policy_shape(environment_class)
    if config.method != "diayn" and shape.image is None and shape.observation_size > LARGEST:
        raise InputError(
            f"class: observations of {environment_class.name} have {shape.observation_size} numbers; the linear "
            f"baseline of MAML is for at most {LARGEST}"
        )
    if config.method == "maml-r":
        return
    if not all(shape.actions.bounded):
        raise InputError(f"class: DIAYN needs bounded actions, those of {environment_class.name} are not")
    number = 1 if shape.image else 4
    room = config.seeds * config.replay * (2 * number * shape.observation_size + 4 * shape.action_size + 5)
    if diayn is None and room > LARGEST_REPLAY:
        raise InputError(
            f"replay: {config.replay} was given; with {config.seeds} seeds and {shape.observation_size} numbers an "
            f"observation it would take {room / 2**30:.0f} GiB, and may take {LARGEST_REPLAY / 2**30:.0f}; give a "
            "smaller --replay or fewer --seeds"
        )


def _compiled(environment_class: AnyClass) -> EnvironmentClass:
    if not isinstance(environment_class, EnvironmentClass):
        raise InputError(
            f"class: {environment_class.name} is stepped outside of JAX; meta-training needs members written in JAX"
        )
    return environment_class


def _lines(
    unit: str, number: int, config: MetatrainConfig, numbers: dict[str, Any], seconds: dict[str, float]
) -> list[dict[str, Any]]:
    """One line per seed for metrics.jsonl. Seconds are of all seeds together."""
    return [
        {unit: number, "seed": seed, **{name: float(values[i]) for name, values in numbers.items()}, "seconds": seconds}
        for i, seed in enumerate(config.seed_list)
    ]


def _curves(folder: RunFolder, config: MetatrainConfig, *names: str) -> list[Float[np.ndarray, "seeds steps"]]:
    lines = read_metrics(folder.metrics)
    return [np.array([line[name] for line in lines]).reshape(-1, config.seeds).T for name in names]


def _summarise(
    environment_class: EnvironmentClass,
    config: MetatrainConfig,
    numbers: dict[str, Float[np.ndarray, "seeds steps"]],
    stopwatch: Stopwatch,
    steps: int,
) -> dict[str, Any]:
    return {
        "method": config.method,
        "label": config.label,
        "class": environment_class.name,
        "members": list(environment_class.names),
        "probabilities": list(environment_class.probabilities),
        "seeds": config.seed_list,
        "final": {name: mean_with_interval(values[:, -LAST:].mean(axis=1)) for name, values in numbers.items()},
        "steps_per_second": steps / stopwatch.working,
        "seconds": stopwatch.so_far(),
        "device": device_name(),
    }


def _finish(summary: dict[str, Any], config: MetatrainConfig, folder: RunFolder, progress: RunProgress) -> None:
    # The summary comes last: a run that has one is whole.
    write_atomically(folder.summary, to_json(summary))
    unit, total = ("epochs", config.epochs) if config.method == "diayn" else ("iterations", config.iterations)
    title = f"{config.label}, mean of the last {min(LAST, total)} {unit}"
    progress.finish(metatrain_table(summary["final"], title))
