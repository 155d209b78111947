"""The run of pre-training: a loop over epochs that can be interrupted and resumed at any epoch."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.cost import say_pretraining_cost
from alphamepol.algorithms.alphamepol.epoch import run_epoch
from alphamepol.algorithms.alphamepol.presets import preset, usual_preset
from alphamepol.algorithms.alphamepol.records import (
    SUMMARISED_METRICS,
    BestPolicies,
    alphamepol_record_lines,
    first_noisy_epoch,
    summarise_alphamepol_records,
)
from alphamepol.algorithms.alphamepol.start import (
    check_given_policies,
    check_pretraining_start,
    default_folder_of_pretraining,
    objective_of_untrained_start,
    settings_of_given_policies,
    start_pretraining,
)
from alphamepol.compute.stopwatch import DIAGNOSTICS, EVALUATION, LEARNING, NEIGHBOURS, SAMPLING
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.host import AnyClass, remark_about_class
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.figures.curves import (
    CURVE_FIELDS,
    DIAGNOSTICS_FIELDS,
    draw_diagnostics_curves,
    draw_learning_curves,
)
from alphamepol.figures.heat_maps import draw_heat_maps, heat_map_pixels
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.style import ShownFigure
from alphamepol.figures.tables import epoch_table, evaluation_table, held_out_sentence
from alphamepol.figures.videos.video import Video
from alphamepol.files.names import WIDTH, name_as_tag, name_as_text
from alphamepol.files.reading import refusing_odd_files
from alphamepol.measuring.evaluation_files import save_evaluation
from alphamepol.measuring.exploration import measure_exploration
from alphamepol.measuring.held_out import measure_held_out_gap
from alphamepol.measuring.particles import units_of_particles
from alphamepol.measuring.samples import SamplePlan
from alphamepol.notebooks.views import view
from alphamepol.policies.files import save_policy
from alphamepol.policies.policy import Policy, unstack_policies
from alphamepol.runs.callbacks import Callback
from alphamepol.runs.context import RunContext, Way, Work, running_in_context
from alphamepol.runs.description import describe_run, repr_of_run
from alphamepol.runs.device_count import check_device_count
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.loop import Loop, LoopState, run_loop
from alphamepol.runs.metrics import thinned_metrics
from alphamepol.runs.progress import counted
from alphamepol.runs.sources import (
    Given,
    describe_source,
    keep_source_of_run,
    read_source,
    say_checkpoints_of_sources,
    source_of_resumed_run,
)
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.conversion import settings_to_dict
from alphamepol.settings.run import LogTarget, PhysicsKind, WorkersGiven
from alphamepol.settings.samples import NOISE_IF_COINCIDING, settings_with_noise

NOISE_NOTICE = f"noise of {NOISE_IF_COINCIDING:g} particle units is added to all particles from then on"


@dataclass(frozen=True)
class PretrainRun:
    """A finished run of pre-training, which `pretrain` returns."""

    def __repr__(self) -> str:
        return repr_of_run(self)

    def _repr_html_(self) -> str:
        return view("run", self)

    folder: Path
    """The run folder."""
    summary: dict[str, Any]
    """The content of summary.json: the final numbers of the run (docs/run-folder.md)."""
    policies: dict[int, Policy]
    """The final policy of each seed, by seed."""
    environment_class: AnyClass = field(repr=False)
    """The class that the policies were trained on."""

    def plot(self) -> ShownFigure:
        """Draw the entropy of each member and the objective along the epochs, as a matplotlib figure."""
        metrics = thinned_metrics(RunFolder(self.folder).metrics, "epoch", CURVE_FIELDS)
        random: Any = self.summary.get("random_objective")
        return draw_learning_curves(metrics, self.environment_class.reported_names, random, None)

    def replay(self, member: str | int | Sequence[str | int] | None = None, **options: Any) -> Video:
        """Film the policies while they act. A notebook shows the result as a moving picture.

        `member` is a member or a list of members. The other arguments are those of `alphamepol.render`.
        """
        return view("replay", self.folder, member, environment_class=self.environment_class, **options)


def pretrain(
    environment_class: AnyClass | str,
    config: PretrainConfig | None = None,
    *,
    init: Given | None = None,
    checkpoint: int | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
    log: LogTarget = "tensorboard",
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> PretrainRun:
    """Pre-train one policy per seed on a class of environments, and save everything in a run folder.

    Each policy is trained without reward, to explore every member of the class (E1). The run folder holds metrics,
    checkpoints, the final policies, their evaluation, and figures (docs/run-folder.md).

    **Arguments**

    - `environment_class`: a class of environments or its name.
    - `config`: the settings, e.g. `preset("quick", "multigrid")` or `PretrainConfig(alpha=0.2, epochs=50)`. The default
      is the preset `"paper"` if the class has it, else `"own"`.
    - `init`: the policy to begin with instead of an untrained one: the folder of a run that trained policies, a policy
      file, the name of a released policy, a policy, or a dict of policies by seed. The memory, the scales and the
      network of the run are those of this policy; the fields `memory`, `recurrent_units`, `normalise`, `hidden` and
      `initial_mean` of `config` are not used.
    - `checkpoint`: the number of epochs after which the run `init` saved the policy. The default is the final policy,
      or the newest checkpoint of a run that has not ended.
    - `folder`: the run folder. The default is `runs/CLASS-alpha-α-seed-FIRST`. With memory it is
      `runs/CLASS-alpha-α-MEMORY-seed-FIRST`. With `init` its name ends in `-from-INIT`.
    - `resume`: continue the run in that folder, or start it if there is none. A finished run is only read, unless
      `config` has more epochs than before.
    - `devices`: the number of devices. The seeds are spread over the devices if their number is a multiple of
      `devices`. Otherwise the number of mini-batches must be a multiple of `devices`, and these are spread.
    - `physics`: the engine that steps a class of MuJoCo models: `"cpu"`, `"gpu"` or `"auto"` (see `mujoco_class`).
    - `workers`: the workers of a class of Gymnasium environments: a number of processes, or "ray" or "ray:64" for
      actors of a Ray cluster (docs/scaling.md). By default they are those that the class was made with.
    - `log`: the program that metrics and pictures are written for, besides metrics.jsonl: `"tensorboard"`, `"wandb"`
      (Weights & Biases) or `"none"`.
    - `callbacks`: functions that are called after every epoch with a `FinishedStep`. They can stop the run.
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
    environment_class = make_class(environment_class, config.probabilities, physics, workers)
    source = None if init is None else read_source(init, checkpoint=checkpoint)
    if source is not None:
        check_given_policies(source, environment_class)
        config = settings_of_given_policies(config, source.policies)
    run_folder = RunFolder(folder or default_folder_of_pretraining(name, config, source))
    if source is not None:
        source = source_of_resumed_run(source, run_folder)
        say_checkpoints_of_sources([source], quiet=quiet)
    way = Way(resume, devices, quiet, log, callbacks)
    way.check()
    check_device_count(devices, environment_class, {"seeds": config.seeds, "mini-batches": config.minibatches})
    check_pretraining_start(environment_class, config)
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    description = describe_run(
        "pretrain",
        environment_class.name,
        {
            "members": list(environment_class.names),
            "members_sha256": environment_class.fingerprint,
            "probabilities": list(environment_class.probabilities),
            **describe_source(source),
            "config": settings_to_dict(config),
        },
    )
    with run_folder.claim(description, resume=resume, length="epochs", settings=config) as to_do:
        if to_do:
            keep_source_of_run(source, run_folder)
            title = (
                f"{config.label} on {name_as_text(environment_class.name, WIDTH)}, {counted(config.epochs, 'epoch')}, "
                f"{counted(config.seeds, 'seed')}, in {run_folder.path}"
            )
            work = Work(
                title, "epoch", config.epochs, (SAMPLING, NEIGHBOURS, LEARNING), remark_about_class(environment_class)
            )
            with running_in_context(run_folder, work, way, precision=config.matmul_precision) as context:
                _run_pretraining(plan, config, source and source.policies, context)
    return PretrainRun(run_folder.path, run_folder.read_summary(), run_folder.load_policies(), environment_class)


def _run_pretraining(
    plan: SamplePlan, config: PretrainConfig, given: Mapping[int, Policy] | None, context: RunContext
) -> None:
    environment_class, folder, stopwatch = plan.environment_class, context.folder, context.stopwatch
    with refusing_odd_files(folder.path):
        best = BestPolicies(folder, config.seed_list)
        noisy_since = first_noisy_epoch(folder, config)

    def start() -> LoopState:
        say_pretraining_cost(environment_class, config, context)
        state = start_pretraining(environment_class, config, given)
        units = units_of_particles(state.learners.policy)
        folder.write_class_record(environment_class, None if units is None else jax.device_get(units)[0].tolist())
        return state

    def step(state: LoopState, epoch: int):
        nonlocal noisy_since
        lap = stopwatch.lap()
        noisy = noisy_since is not None and epoch >= noisy_since
        done = run_epoch(state, epoch, plan.with_noise() if noisy else plan, config, stopwatch)
        used, trajectories = done.plan, done.trajectories
        lines = alphamepol_record_lines(epoch, used, config, trajectories, done.report, done.state, lap())
        if used.settings.feature_noise > config.feature_noise and not noisy:
            noisy_since = epoch
            context.progress.say(f"epoch {epoch}: particles coincide; {NOISE_NOTICE}")
        best.record(state.learners.policy, lines)
        if config.diagnostics:
            # This imports SciPy's optimisation. Runs without diagnostics start a sixth of a second earlier without it.
            from alphamepol.algorithms.alphamepol.diagnostics import epoch_diagnostics

            with stopwatch.phase(DIAGNOSTICS):
                found = epoch_diagnostics(state, epoch, used, config, trajectories, done.report)
            lines = [{**line, "diagnostics": of_seed} for line, of_seed in zip(lines, found, strict=True)]
        return done.state, lines, partial(_draw_visits_in_run, environment_class, trajectories)

    def policies_of(state: LoopState) -> dict[str, Policy]:
        last = unstack_policies(state.learners.policy, [f"seed-{seed}" for seed in config.seed_list])
        return last | best.by_name()

    loop = Loop(
        unit="epoch",
        total=config.epochs,
        checkpoint_every=config.checkpoint_every,
        keep_checkpoints=config.keep_checkpoints,
        start=start,
        template=lambda: start_pretraining(environment_class, config, given, look=False),
        step=step,
        policies=policies_of,
        show=partial(epoch_table, environment_class),
        labels=("seed",),
        charted=("objective", "entropy"),
        summarised=SUMMARISED_METRICS,
    )
    state, epochs = run_loop(loop, context)
    config = dataclasses.replace(config, epochs=epochs)
    with stopwatch.phase(EVALUATION):
        named = policies_of(state)
        # The policies are saved before the evaluation, so that a failure there does not lose them.
        for name, policy in named.items():
            save_policy(policy, folder.policies / f"{name}.safetensors")
        policies: dict[int, Policy] = jax.device_put({seed: named[f"seed-{seed}"] for seed in config.seed_list})
        batches, track = config.evaluation_batches, context.progress.evaluating
        measure = partial(
            measure_exploration,
            policies,
            settings=config if noisy_since is None else settings_with_noise(config),
            alpha=config.alpha,
            batches=batches,
            units=units_of_particles(policies[config.seed]),
            track=track,
        )
        evaluation = measure(environment_class)
        save_evaluation(evaluation, folder.evaluation)
        gap = measure_held_out_gap(environment_class, evaluation, measure)
        random = objective_of_untrained_start(plan, config)
    context.interrupts.check()
    context.progress.say("drawing figures")
    draw_learning_curves(
        thinned_metrics(folder.metrics, "epoch", CURVE_FIELDS), environment_class.reported_names, random, folder.figures
    )
    if config.diagnostics:
        draw_diagnostics_curves(thinned_metrics(folder.metrics, "epoch", DIAGNOSTICS_FIELDS), folder.figures)
    draw_entropy_histogram({config.label: evaluation}, folder.figures)
    draw_heat_maps({config.label: evaluation}, environment_class, folder.figures)
    names = environment_class.reported_names
    summary = summarise_alphamepol_records(config, names, evaluation, best, context)
    summary |= {"random_objective": random, **(gap.to_dict() if gap else {})}
    context.finish(summary, evaluation_table(evaluation, f"final policies of {config.label}"))
    if gap:
        context.progress.say(held_out_sentence(gap))
    if "feature_noise_since" in summary:
        context.progress.say(f"particles coincided in epoch {summary['feature_noise_since']}; {NOISE_NOTICE}")


def _draw_visits_in_run(environment_class: AnyClass, trajectories: Trajectories) -> dict[str, np.ndarray]:
    """Draw heat-maps of the first seed's samples, one for each member that was drawn and has a name."""
    if environment_class.generator is not None:
        return {}
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
    return {f"visits/{name_as_tag(name)}": pixels for name, pixels in pictures.items() if pixels is not None}
