"""The run of pre-training: a loop over epochs that can be interrupted and resumed at any epoch."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.cost import say_pretraining_cost
from alphamepol.algorithms.alphamepol.epoch import run_epoch
from alphamepol.algorithms.alphamepol.presets import preset, usual_preset
from alphamepol.algorithms.alphamepol.records import alphamepol_record_lines, summarise_alphamepol_records
from alphamepol.algorithms.alphamepol.start import check_pretraining_start, start_pretraining
from alphamepol.compute.stopwatch import DIAGNOSTICS, EVALUATION, LEARNING, NEIGHBOURS, SAMPLING
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.figures.curves import draw_diagnostics_curves, draw_learning_curves
from alphamepol.figures.heat_maps import draw_heat_maps, heat_map_pixels
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.tables import epoch_table, evaluation_table
from alphamepol.measuring.evaluation_files import save_evaluation
from alphamepol.measuring.exploration import measure_exploration
from alphamepol.measuring.samples import SamplePlan
from alphamepol.policies.files import save_policy
from alphamepol.policies.policy import Policy
from alphamepol.runs.context import RunContext, Work, running_in_context
from alphamepol.runs.description import describe_run
from alphamepol.runs.device_count import check_device_count
from alphamepol.runs.folder import RunFolder, class_in_folder_name, default_run_folder
from alphamepol.runs.loop import Loop, LoopState, run_loop
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.progress import counted
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.conversion import settings_to_dict


@dataclass(frozen=True)
class PretrainRun:
    """A finished run of pre-training, which `pretrain` returns."""

    folder: Path
    """The run folder."""
    summary: dict[str, Any]
    """The content of summary.json: the final numbers of the run (docs/run-folder.md)."""
    policies: dict[int, Policy]
    """The final policy of each seed, by seed."""


def pretrain(
    environment_class: AnyClass | str,
    config: PretrainConfig | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    quiet: bool = False,
) -> PretrainRun:
    """Pre-train one policy per seed on a class of environments, and save everything in a run folder.

    Each policy is trained without reward, to explore every member of the class (E1). The run folder holds metrics,
    checkpoints, the final policies, their evaluation, and figures (docs/run-folder.md).

    **Arguments**

    - `environment_class`: a class of environments or its name.
    - `config`: the settings, e.g. `preset("quick", "multigrid")` or `PretrainConfig(alpha=0.2, epochs=50)`. The default
      is the preset `"paper"` if the class has it, else `"own"`.
    - `folder`: the run folder. The default is `runs/CLASS-alpha-α-seed-FIRST`. With memory it is
      `runs/CLASS-alpha-α-MEMORY-seed-FIRST`.
    - `resume`: continue the run in that folder. A finished run is only read.
    - `devices`: the number of devices. The seeds are spread over the devices if their number is a multiple of
      `devices`. Otherwise the number of mini-batches must be a multiple of `devices`, and these are spread.
    - `quiet`: show no progress.

    **Returns**

    A `PretrainRun` with the run folder, the summary and the final policies.

    **Raises**

    - `InputError`: if a setting is not allowed or does not fit the class, or if the run cannot use the folder or the
      devices.
    - `RunError`: if the run has to stop, e.g. because a number is not finite or more than k particles coincide.
    - `RunInterrupted` (a `KeyboardInterrupt`): on Ctrl-C or SIGTERM. The finished epochs are saved in a checkpoint, and
      `resume` continues after them.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(
        epochs=2, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2
    )
    run = am.pretrain("gridworld-slope", config, folder="runs/short", quiet=True)
    print(run.summary["entropy"])  # by member, the mean entropy of each seed's final policy
    policy = run.policies[0]
    ```
    """
    name = registered_name(environment_class)
    config = config or preset(usual_preset(name), name)
    config.check()
    environment_class = make_class(environment_class, config.probabilities)
    check_device_count(devices, environment_class, {"seeds": config.seeds, "mini-batches": config.minibatches})
    check_pretraining_start(environment_class, config)
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    memory = "" if config.memory == "none" else config.memory
    words = class_in_folder_name(name), f"alpha-{config.alpha:g}", memory, f"seed-{config.seed}"
    run_folder = RunFolder(folder or default_run_folder(*words))
    description = describe_run(
        "pretrain",
        environment_class.name,
        {
            "members": list(environment_class.names),
            "members_sha256": environment_class.fingerprint,
            "probabilities": list(environment_class.probabilities),
            "config": settings_to_dict(config),
        },
    )
    with run_folder.claim(description, resume=resume) as to_do:
        if to_do:
            title = (
                f"{config.label} on {environment_class.name}, {config.epochs} epochs, "
                f"{counted(config.seeds, 'seed')}, in {run_folder.path}"
            )
            work = Work(title, "epoch", config.epochs, (SAMPLING, NEIGHBOURS, LEARNING))
            precision = config.matmul_precision
            with running_in_context(run_folder, work, precision=precision, quiet=quiet, devices=devices) as context:
                _run_pretraining(plan, config, context)
    return PretrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies())


def _run_pretraining(plan: SamplePlan, config: PretrainConfig, context: RunContext) -> None:
    environment_class, folder, stopwatch = plan.environment_class, context.folder, context.stopwatch

    def step(state: LoopState, epoch: int):
        lap = stopwatch.lap()
        improved, report, trajectories = run_epoch(state, epoch, plan, config, stopwatch)
        lines = alphamepol_record_lines(epoch, environment_class, config, trajectories, report, improved, lap())
        if config.diagnostics:
            # This imports SciPy's optimisation. Runs without diagnostics start a sixth of a second earlier without it.
            from alphamepol.algorithms.alphamepol.diagnostics import epoch_diagnostics

            with stopwatch.phase(DIAGNOSTICS):
                found = epoch_diagnostics(state, epoch, plan, config, trajectories, report)
            lines = [{**line, "diagnostics": of_seed} for line, of_seed in zip(lines, found, strict=True)]
        return improved, lines, partial(_draw_visits_in_run, environment_class, trajectories)

    def start() -> LoopState:
        say_pretraining_cost(environment_class, config, context)
        return start_pretraining(environment_class, config)

    loop = Loop(
        unit="epoch",
        total=config.epochs,
        checkpoint_every=config.checkpoint_every,
        start=start,
        template=lambda: start_pretraining(environment_class, config, look=False),
        step=step,
        show=partial(epoch_table, environment_class),
        labels=("seed",),
    )
    state = run_loop(loop, context)
    with stopwatch.phase(EVALUATION):
        policies = {seed: take_from_trees(state.learners.policy, i) for i, seed in enumerate(config.seed_list)}
        # The policies are saved before the evaluation, so that a failure there does not lose them.
        for seed, policy in policies.items():
            save_policy(policy, folder.policy(seed))
        batches, track = config.evaluation_batches, context.progress.evaluating
        evaluation = measure_exploration(
            policies, environment_class, config, alpha=config.alpha, batches=batches, track=track
        )
        save_evaluation(evaluation, folder.evaluation)
    context.interrupts.check()
    context.progress.say("drawing figures")
    metrics = read_metrics(folder.metrics)
    draw_learning_curves(metrics, environment_class, folder.figures)
    if config.diagnostics:
        draw_diagnostics_curves(metrics, folder.figures)
    draw_entropy_histogram({config.label: evaluation}, folder.figures)
    draw_heat_maps({config.label: evaluation}, environment_class, folder.figures)
    summary = summarise_alphamepol_records(config, evaluation, metrics, context)
    context.finish(summary, evaluation_table(evaluation, f"final policies of {config.label}"))


def _draw_visits_in_run(environment_class: AnyClass, trajectories: Trajectories) -> dict[str, np.ndarray]:
    """Draw heat-maps of the first seed's samples, one for each member that was drawn."""
    parts = trajectories.whereabouts, trajectories.valid, trajectories.members
    places, valid, members = jax.device_get(take_from_trees(parts, 0))
    pictures = {
        environment_class.names[number]: heat_map_pixels(
            places[members == number].reshape(-1, places.shape[-1]),
            valid[members == number].ravel(),
            environment_class[int(number)],
        )
        for number in np.unique(members)
    }
    return {f"visits/{name}": pixels for name, pixels in pictures.items() if pixels is not None}
