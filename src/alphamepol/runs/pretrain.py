"""Pre-training as a run: the loop over epochs, which can stop and go on at any of them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.registry import resolve_class
from alphamepol.errors import RunError
from alphamepol.files import pack, to_json, write_atomically
from alphamepol.policies import GaussianPolicy, save_policy
from alphamepol.runs import figures
from alphamepol.runs.checkpoints import load_newest_checkpoint, save_checkpoint
from alphamepol.runs.checks import check_start
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.epoch import PretrainState, run_epoch, start_state
from alphamepol.runs.evaluate import evaluate
from alphamepol.runs.folder import RunFolder, describe
from alphamepol.runs.interrupts import Interrupts, RunInterrupted, interrupts
from alphamepol.runs.metrics import JsonLinesLogger, Logger, TensorBoardLogger, read_metrics
from alphamepol.runs.progress import PretrainProgress
from alphamepol.runs.records import metrics_lines, summarise
from alphamepol.runs.stopwatch import Stopwatch
from alphamepol.sampling.trajectories import Trajectories


@dataclass(frozen=True)
class PretrainRun:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    policies: dict[int, GaussianPolicy]


def pretrain(
    environment_class: EnvironmentClass | str,
    config: PretrainConfig,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> PretrainRun:
    """Pre-train one policy per seed on a class of environments, and leave everything in a run folder.

    **Arguments**

    - `environment_class`: a class or its name.
    - `config`: e.g. `preset("quick")` or `PretrainConfig(alpha=0.2, epochs=50)`.
    - `folder`: the run folder; by default `runs/CLASS-alpha-α-seed-FIRST`.
    - `resume`: continue the run in that folder; a finished one is only read.
    - `quiet`: show no progress.

    Ctrl-C saves a checkpoint and raises `RunInterrupted`, a KeyboardInterrupt.
    """
    config.check()
    environment_class = resolve_class(environment_class, config.probabilities)
    check_start(environment_class, config)
    run_folder = RunFolder(folder or default_folder(environment_class.name, config))
    description = describe(
        "pretrain",
        **{"class": environment_class.name},
        members=list(environment_class.names),
        members_sha256=hashlib.sha256(pack(environment_class.members, {})).hexdigest(),
        probabilities=list(environment_class.probabilities),
        config=config.to_dict(),
    )
    run_folder.claim(description, resume=resume)
    if not run_folder.summary.is_file():
        try:
            with (
                jax.default_matmul_precision(config.matmul_precision),
                interrupts() as received,
                PretrainProgress(environment_class, config, run_folder.path, quiet=quiet) as progress,
            ):
                _run(environment_class, config, run_folder, progress, received)
        except KeyboardInterrupt as interrupt:
            raise RunInterrupted from interrupt
    return PretrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies())


def default_folder(class_name: str, config: PretrainConfig) -> Path:
    """Where a run goes if nobody says."""
    return Path("runs") / f"{class_name}-alpha-{config.alpha:g}-seed-{config.seed}"


def _run(
    environment_class: EnvironmentClass,
    config: PretrainConfig,
    folder: RunFolder,
    progress: PretrainProgress,
    received: Interrupts,
) -> None:
    stopwatch = Stopwatch()
    state = _train(environment_class, config, folder, stopwatch, progress, received)
    with stopwatch.phase("evaluation"):
        policies = {
            seed: jax.tree.map(lambda leaf, i=i: leaf[i], state.learners.policy)
            for i, seed in enumerate(config.seed_list)
        }
        # Saved first: whatever goes wrong in evaluation, what was learned is there.
        for seed, policy in policies.items():
            save_policy(policy, folder.policy(seed))
        evaluation = evaluate(policies, environment_class, config, track=progress.evaluating)
    received.check()
    progress.say("drawing figures")
    figures.learning_curves(read_metrics(folder.metrics), environment_class, folder.figures)
    figures.entropy_histogram({config.method: evaluation}, folder.figures)
    figures.heat_maps({config.method: evaluation}, environment_class, folder.figures)
    # The summary comes last: a run that has one is whole.
    write_atomically(folder.summary, to_json(summarise(config, evaluation, stopwatch.so_far())))
    progress.finish(evaluation)


def _train(
    environment_class: EnvironmentClass,
    config: PretrainConfig,
    folder: RunFolder,
    stopwatch: Stopwatch,
    progress: PretrainProgress,
    received: Interrupts,
) -> PretrainState:
    """Run the epochs that are still to do."""
    state, done = _restore_or_start(environment_class, config, folder, stopwatch, progress)
    saved = done
    loggers = [
        JsonLinesLogger(folder.metrics, keep_epochs=done),
        TensorBoardLogger(folder.tensorboard, keep_epochs=done),
    ]
    try:
        for epoch in range(done, config.epochs):
            lap = stopwatch.lap()
            improved, report, trajectories = run_epoch(state, epoch, environment_class, config, stopwatch)
            lines = metrics_lines(epoch, environment_class, config, trajectories, report, improved, lap())
            for logger in loggers:
                logger.log(lines)
            state, done = improved, epoch + 1
            progress.advance(lines)
            if done % config.checkpoint_every == 0 or done == config.epochs:
                with received.held():
                    _save(folder, state, done, stopwatch)
                saved = done
                _log_visits(loggers, epoch, environment_class, trajectories)
            received.check()
    except (KeyboardInterrupt, RunError):
        if done > saved:
            with received.held():
                _save(folder, state, done, stopwatch)
        raise
    finally:
        for logger in loggers:
            logger.close()
    return state


def _restore_or_start(
    environment_class: EnvironmentClass,
    config: PretrainConfig,
    folder: RunFolder,
    stopwatch: Stopwatch,
    progress: PretrainProgress,
) -> tuple[PretrainState, int]:
    """The state of the newest intact checkpoint, or a fresh one, and the epochs done."""
    template = eqx.filter_eval_shape(lambda: start_state(environment_class, config).learners)
    found, damaged = load_newest_checkpoint(folder.checkpoints, template)
    for sentence in damaged:
        progress.say(sentence)
    if found is None:
        if damaged:
            progress.say("no checkpoint is intact: starting again from epoch 0")
        return start_state(environment_class, config), 0
    learners, notes = found
    stopwatch.add(notes["seconds"])
    progress.start_at(notes["epoch"])
    progress.say(f"continuing after epoch {notes['epoch']} of {config.epochs}")
    return PretrainState(learners, jax.random.wrap_key_data(jnp.array(notes["keys"], jnp.uint32))), notes["epoch"]


def _save(folder: RunFolder, state: PretrainState, done: int, stopwatch: Stopwatch) -> None:
    notes = {"keys": jax.random.key_data(state.keys).tolist(), "seconds": stopwatch.so_far()}
    save_checkpoint(folder.checkpoints, done, state.learners, notes)


def _log_visits(
    loggers: list[Logger], epoch: int, environment_class: EnvironmentClass, trajectories: Trajectories
) -> None:
    """Heat-maps of the first seed's samples, one per member that was met."""
    particles, valid, members = (
        np.asarray(part[0]) for part in (trajectories.particles, trajectories.valid, trajectories.members)
    )
    for number in np.unique(members):
        of_member = members == number
        pixels = figures.heat_map_pixels(
            particles[of_member].reshape(-1, particles.shape[-1]),
            valid[of_member].ravel(),
            environment_class[int(number)],
        )
        if pixels is not None:
            for logger in loggers:
                logger.log_picture(f"visits/{environment_class.names[number]}", epoch, pixels)
