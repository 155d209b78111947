"""Pre-training as a run: the loop over epochs, which can stop and go on at any of them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.environments.host import AnyClass
from alphamepol.environments.registry import resolve_class
from alphamepol.files import to_json, write_atomically
from alphamepol.images import RandomEncoder
from alphamepol.mapping import take
from alphamepol.policies import Policy
from alphamepol.policy_files import save_policy
from alphamepol.runs import figures
from alphamepol.runs.checks import check_devices, check_start
from alphamepol.runs.config import PretrainConfig, config_to_dict
from alphamepol.runs.epoch import run_epoch, start_state
from alphamepol.runs.evaluate import evaluate
from alphamepol.runs.evaluation_files import save_evaluation
from alphamepol.runs.folder import RunFolder, describe
from alphamepol.runs.interrupts import Interrupts
from alphamepol.runs.loop import Loop, LoopState, run_loop, running
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.particles import find_encoder
from alphamepol.runs.progress import RunProgress
from alphamepol.runs.records import metrics_lines, summarise
from alphamepol.runs.stopwatch import DIAGNOSTICS, EVALUATION, LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
from alphamepol.runs.tables import evaluation_table, pretrain_title, show_epoch
from alphamepol.sampling.trajectories import Trajectories


@dataclass(frozen=True)
class PretrainRun:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    policies: dict[int, Policy]


def pretrain(
    environment_class: AnyClass | str,
    config: PretrainConfig,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    quiet: bool = False,
) -> PretrainRun:
    """Pre-train one policy per seed on a class of environments, and leave everything in a run folder.

    **Arguments**

    - `environment_class`: a class or its name.
    - `config`: e.g. `preset("quick")` or `PretrainConfig(alpha=0.2, epochs=50)`.
    - `folder`: the run folder; by default `runs/CLASS-alpha-α-seed-FIRST`, with the memory after α if there is one.
    - `resume`: continue the run in that folder; a finished one is only read.
    - `devices`: how many to lay the seeds over, else the mini-batches; either must be a multiple of it.
    - `quiet`: show no progress.

    Ctrl-C saves a checkpoint and raises `RunInterrupted`, a KeyboardInterrupt.
    """
    config.check()
    environment_class = resolve_class(environment_class, config.probabilities)
    check_devices(devices, environment_class, {"seeds": config.seeds, "mini-batches": config.minibatches})
    check_start(environment_class, config)
    encoder = find_encoder(environment_class, config)
    run_folder = RunFolder(folder or default_folder(environment_class.name, config))
    description = describe(
        "pretrain",
        **{"class": environment_class.name},
        members=list(environment_class.names),
        members_sha256=environment_class.fingerprint,
        probabilities=list(environment_class.probabilities),
        config=config_to_dict(config),
    )
    with run_folder.claim(description, resume=resume) as to_do:
        if to_do:
            title = pretrain_title(environment_class, config, run_folder.path)
            with running(title, "epoch", config.epochs, precision=config.matmul_precision, quiet=quiet) as around:
                _run(environment_class, config, encoder, run_folder, devices, *around)
    return PretrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies())


def default_folder(class_name: str, config: PretrainConfig) -> Path:
    """Where a run goes if nobody says."""
    memory = "" if config.memory == "none" else f"-{config.memory}"
    # Of FILE.py:FUNCTION the function.
    class_name = class_name.rpartition(":")[2]
    return Path("runs") / f"{class_name}-alpha-{config.alpha:g}{memory}-seed-{config.seed}"


def _run(
    environment_class: AnyClass,
    config: PretrainConfig,
    encoder: RandomEncoder | None,
    folder: RunFolder,
    devices: int,
    progress: RunProgress,
    received: Interrupts,
) -> None:
    stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)

    def step(state: LoopState, epoch: int):
        lap = stopwatch.lap()
        improved, report, trajectories = run_epoch(state, epoch, environment_class, config, encoder, stopwatch)
        lines = metrics_lines(epoch, environment_class, config, trajectories, report, improved, lap())
        if config.diagnostics:
            from alphamepol.runs.epoch_diagnostics import epoch_diagnostics  # others start a sixth of a second earlier

            with stopwatch.phase(DIAGNOSTICS):
                found = epoch_diagnostics(state, epoch, environment_class, config, encoder, trajectories, report)
            lines = [{**line, "diagnostics": of_seed} for line, of_seed in zip(lines, found, strict=True)]
        return improved, lines, partial(_draw_visits, environment_class, trajectories)

    loop = Loop(
        unit="epoch",
        total=config.epochs,
        checkpoint_every=config.checkpoint_every,
        start=lambda: start_state(environment_class, config),
        template=lambda: start_state(environment_class, config, look=False),
        step=step,
        show=partial(show_epoch, environment_class),
        labels=("seed",),
        devices=devices,
    )
    state = run_loop(loop, folder, stopwatch, progress, received)
    with stopwatch.phase(EVALUATION):
        policies = {seed: take(state.learners.policy, i) for i, seed in enumerate(config.seed_list)}
        # Saved first: whatever goes wrong in evaluation, what was learned is there.
        for seed, policy in policies.items():
            save_policy(policy, folder.policy(seed))
        evaluation = evaluate(policies, environment_class, config, track=progress.evaluating)
        save_evaluation(evaluation, folder.evaluation)
    received.check()
    progress.say("drawing figures")
    metrics = read_metrics(folder.metrics)
    figures.learning_curves(metrics, environment_class, folder.figures)
    if config.diagnostics:
        from alphamepol.runs.check_figures import diagnostics_curves

        diagnostics_curves(metrics, folder.figures)
    figures.entropy_histogram({config.label: evaluation}, folder.figures)
    figures.heat_maps({config.label: evaluation}, environment_class, folder.figures)
    # The summary comes last: a run that has one is whole.
    write_atomically(folder.summary, to_json(summarise(config, evaluation, metrics, stopwatch)))
    progress.finish(evaluation_table(evaluation, f"final policies of {config.label}"))


def _draw_visits(environment_class: AnyClass, trajectories: Trajectories) -> dict[str, np.ndarray]:
    """Heat-maps of the first seed's samples, one per member that was met."""
    parts = trajectories.whereabouts, trajectories.valid, trajectories.members
    places, valid, members = (np.asarray(part[0]) for part in parts)
    pictures = {
        environment_class.names[number]: figures.heat_map_pixels(
            places[members == number].reshape(-1, places.shape[-1]),
            valid[members == number].ravel(),
            environment_class[int(number)],
        )
        for number in np.unique(members)
    }
    return {f"visits/{name}": pixels for name, pixels in pictures.items() if pixels is not None}
