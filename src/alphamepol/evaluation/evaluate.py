"""`evaluate`: measure how well policies explore a class, and compare several policies."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Float
from rich.console import Console

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import preset, usual_preset
from alphamepol.algorithms.alphamepol.start import untrained_start_policies
from alphamepol.compute.devices import device_name
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.environments.horizons import check_horizon
from alphamepol.environments.host import AnyClass, remark_about_class
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.errors import InputError
from alphamepol.figures.heat_maps import draw_heat_maps, draw_trails_like_heat_maps
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.tables import comparison_table, evaluation_table
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.files.names import WIDTH, join_path_words, name_as_path, name_as_text
from alphamepol.files.reading import check_folder_is_plain
from alphamepol.measuring.exploration import Evaluation, measure_exploration
from alphamepol.measuring.particles import class_particle_units
from alphamepol.notebooks.views import view
from alphamepol.policies.policy import Policy
from alphamepol.policies.shape import check_policy_shape
from alphamepol.runs.folder import class_in_folder_name, default_run_folder
from alphamepol.runs.progress import track_progress
from alphamepol.runs.sources import (
    Given,
    Source,
    common_class_of_sources,
    distinct_source_labels,
    joined_source_names,
    read_sources,
    say_checkpoints_of_sources,
    short_source_names,
)
from alphamepol.settings.run import PhysicsKind, WorkersGiven
from alphamepol.settings.samples import NOISE_IF_COINCIDING, settings_with_noise

MANY = 20
"""The most policies for which each has a heat-map of its own. DIAYN, for example, has more skills."""


@dataclass(frozen=True)
class Evaluated:
    """The result of `evaluate`: the measurements, and the folder of the files."""

    folder: Path
    """The folder that holds summary.json and figures/."""
    evaluations: dict[str, Evaluation]
    """An `Evaluation` for each given policy or run, by its label, for example "αMEPOL (0.2)" or "Random"."""
    summary: dict[str, Any] = field(repr=False)
    """The content of summary.json. With several policies, its entry "runs" has a summary for each of them."""

    def _repr_html_(self) -> str:
        return view("evaluation", self.evaluations)


def evaluate(
    policies: Given | Sequence[Given],
    environment_class: AnyClass | str | None = None,
    config: PretrainConfig | None = None,
    *,
    alpha: float | None = None,
    feature_noise: float | None = None,
    encoder_seed: int | None = None,
    checkpoint: int | None = None,
    batches: int = 40,
    members: str = "unseen",
    folder: str | Path | None = None,
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
    quiet: bool = False,
) -> Evaluated:
    """Measure how well policies explore each member of a class: state entropy, CVaR and heat-maps.

    If several policies or runs are given, they are compared. All of them are measured with the same settings, and in
    the same units. The numbers are written to summary.json, and the pictures to figures/.

    **Arguments**

    - `policies`: the folder of a run that trained policies, a policy file, the name of a policy that comes with the
      package, a policy, or a dict of policies by seed. It can also be a list of these, which may contain "random" for
      an untrained policy.
    - `environment_class`: the class to evaluate in, or its name. If it is not given, the class of the run is used.
    - `config`: the settings for sampling and measuring the class. If they are not given, those of the first
      pre-training run are used, or those of the usual preset of the class if there is no such run.
    - `alpha`: the percentile α of the CVaR. If it is not given, that of the settings is used. If the settings come from
      several runs, this is the smallest α of the runs.
    - `feature_noise`: the standard deviation of the noise on particles. If it is not given, that of the settings is
      used. If the settings come from several runs, this is the largest noise of the runs.
    - `encoder_seed`: the seed of the random network that encodes particles which are images. If it is not given, that
      of the settings is used.
    - `checkpoint`: the number of steps after which the given runs saved the policies to evaluate. The default is the
      final policies, or the newest checkpoint of a run that has not ended.
    - `batches`: the number of mini-batches in each member.
    - `members`: the members of a generated class to evaluate in: "unseen" for its named members, which nobody has
      trained on, a number such as "200" for so many unseen members, or "seen" or "seen:200" for members of the
      training stream.
    - `folder`: the folder for the files. By default it is `RUN/evaluation-CLASS` for a run,
      `FILE-evaluation-CLASS` beside a policy file, and `runs/evaluation-CLASS-RUN-RUN` for several runs.
    - `physics`: the engine that steps a class of MuJoCo models: `"cpu"`, `"gpu"` or `"auto"` (see `mujoco_class`).
    - `workers`: the workers of a class of Gymnasium environments: a number of processes, or "ray" or "ray:64" for
      actors of a Ray cluster (docs/scaling.md). By default they are those that the class was made with.
    - `quiet`: show no progress and no table.

    **Returns**

    An `Evaluated`, with an `Evaluation` for each given policy or run.

    **Raises**

    - `InputError`: if there is no policy to evaluate, if a policy does not fit the class, or if the class is not known.
    - `InputError`: if a setting or `batches` is out of its range, or if `folder` holds a run.
    - `RunError`: if an entropy cannot be estimated, for example because more than k particles coincide.

    **Example**

    ```python
    import alphamepol as am

    done = am.evaluate("gridworld-slope/alpha-0.2", batches=2, folder="evaluation", quiet=True)
    (evaluation,) = done.evaluations.values()
    print(evaluation.members)  # ('GWS', 'GWN')
    print(evaluation.member_means)  # a row of two mean entropies, both about 0.5
    ```
    """
    if batches < 1:
        raise InputError(f"batches: {batches} was given; it must be at least 1")
    given = [policies] if isinstance(policies, str | Path | Policy | Mapping) else list(policies)
    if not given:
        raise InputError("run: none was given; name the folder of a run, or a policy file")
    sources = read_sources(given, checkpoint=checkpoint)
    say_checkpoints_of_sources(sources, quiet=quiet)
    if not any(source.policies for source in sources):
        raise InputError("run: random alone was given; name a run or a policy file to compare it with")
    environment_class = common_class_of_sources(sources) if environment_class is None else environment_class
    class_name = registered_name(environment_class)
    config = config or _settings_to_evaluate_with(sources, class_name)
    config = dataclasses.replace(
        config,
        alpha=config.alpha if alpha is None else alpha,
        feature_noise=config.feature_noise if feature_noise is None else feature_noise,
        encoder_seed=config.encoder_seed if encoder_seed is None else encoder_seed,
        evaluation_batches=batches,
    )
    config.check()
    whole = make_class(environment_class, physics=physics, workers=workers)
    shown = class_of_shown_members(whole, members)
    check_horizon(shown, config.horizon)
    # Random and the units of particles belong to the class, whichever of its members are shown.
    sources = [_source_to_evaluate(source, whole, config) for source in sources]
    units = class_particle_units(whole, config) if config.normalise else None
    path = Path(folder) if folder else _default_folder_of_evaluate(sources, class_name, members)
    if (path / "config.json").exists():
        raise InputError(f"folder: {path} holds a run; choose another --folder")
    check_folder_is_plain(path if folder else path.parent, folders=["figures" if folder else path.name])
    console = Console(quiet=quiet, markup=False, emoji=False)
    shown_class = name_as_text(class_name, WIDTH)
    if remark := remark_about_class(whole):
        console.print(remark)
    evaluations = _evaluate_each_source(sources, make_class(shown, config.probabilities), config, units, console)
    _draw_evaluated_sources(evaluations, shown, path / "figures")
    summary = _summarise_evaluated_sources(sources, evaluations, config, class_name)
    write_atomically(path / "summary.json", to_json(summary))
    if len(sources) == 1:
        ((label, evaluation),) = evaluations.items()
        title = f"{name_as_text(label, WIDTH)} ({name_as_text(sources[0].name)}) in {shown_class}"
        console.print(evaluation_table(evaluation, title))
    else:
        console.print(comparison_table(evaluations, f"state entropy in {shown_class}"))
    return Evaluated(path, evaluations, summary)


def _settings_to_evaluate_with(sources: Sequence[Source], class_name: str) -> PretrainConfig:
    """Return the settings with which all policies are measured.

    They are those of the first pre-training run, with the smallest α and the largest feature noise of all such runs.
    Without such a run they are those of the usual preset of the class.
    """
    runs = [source for source in sources if isinstance(source.config, PretrainConfig)]
    configs: list[PretrainConfig] = [source.config for source in runs]
    if not configs:
        return dataclasses.replace(preset(usual_preset(class_name), class_name), probabilities=())
    probabilities = configs[0].probabilities if runs[0].class_name == class_name else ()
    return dataclasses.replace(
        configs[0],
        probabilities=probabilities,
        alpha=min(one.alpha for one in configs),
        feature_noise=max(one.feature_noise for one in configs),
    )


def _source_to_evaluate(source: Source, environment_class: AnyClass, config: PretrainConfig) -> Source:
    """Return the source with its policies; `random` gets untrained ones. Refuse policies that do not fit the class."""
    if not source.policies:
        return dataclasses.replace(source, policies=untrained_start_policies(environment_class, config))
    for policy in source.policies.values():
        check_policy_shape(policy, environment_class, f"policy {source.name}")
    return source


def _evaluate_each_source(
    sources: Sequence[Source],
    environment_class: AnyClass,
    config: PretrainConfig,
    units: Float[Array, " features"] | None,
    console: Console,
) -> dict[str, Evaluation]:
    """Evaluate each source, all with the same units and the same noise."""
    evaluations: dict[str, Evaluation] = {}
    for source, label in zip(sources, distinct_source_labels(sources), strict=True):
        track = partial(
            track_progress, description=f"evaluating {name_as_text(label, WIDTH)} in each member", console=console
        )
        with jax.default_matmul_precision(config.matmul_precision):
            evaluations[label] = measure_exploration(
                source.policies,
                environment_class,
                config,
                alpha=config.alpha,
                batches=config.evaluation_batches,
                units=units,
                track=track,
            )
    if any(evaluation.feature_noise > config.feature_noise for evaluation in evaluations.values()):
        say_in_terminal(console, f"particles coincide: noise of {NOISE_IF_COINCIDING:g} particle units is added")
        if len(sources) > 1:
            return _evaluate_each_source(sources, environment_class, settings_with_noise(config), units, console)
    return evaluations


def _draw_evaluated_sources(evaluations: dict[str, Evaluation], environment_class: AnyClass, folder: Path) -> None:
    draw_entropy_histogram(evaluations, folder)
    draw_heat_maps(evaluations, environment_class, folder)
    draw_trails_like_heat_maps(evaluations, environment_class, folder)
    if len(evaluations) > 1:
        return
    ((label, evaluation),) = evaluations.items()
    for seed in evaluation.seeds if 1 < len(evaluation.seeds) <= MANY else ():
        of_seed = {label: evaluation.of_seed(seed)}
        draw_heat_maps(of_seed, environment_class, folder, name=f"heat-maps-seed-{seed}")


def _default_folder_of_evaluate(sources: Sequence[Source], class_name: str, members: str) -> Path:
    which = "" if members == "unseen" else name_as_path(members)
    name = join_path_words("evaluation", class_in_folder_name(class_name), which)
    if len(sources) > 1:
        return default_run_folder(name, joined_source_names(sources))
    path = Path(sources[0].name)
    return path / name if path.is_dir() else path.with_name(join_path_words(name_as_path(path.stem), name))


def _summarise_evaluated_sources(
    sources: Sequence[Source], evaluations: dict[str, Evaluation], config: PretrainConfig, class_name: str
) -> dict[str, Any]:
    """Return the content of summary.json. With several policies, it has an entry for each of them."""
    pairs = zip(sources, evaluations.values(), strict=True)
    summaries = [_summary_of_evaluated_source(source, config, evaluation) for source, evaluation in pairs]
    if len(summaries) == 1:
        return summaries[0]
    return {"class": class_name, "runs": dict(zip(short_source_names(sources), summaries, strict=True))}


def _summary_of_evaluated_source(source: Source, config: PretrainConfig, evaluation: Evaluation) -> dict[str, Any]:
    name, trained = Path(source.name).name, source.config
    of_run = {"run": name, "method": trained.method} if isinstance(trained, PretrainConfig) else {"policy": name}
    more = {"label": source.label, "memory": source.memory, **evaluation.to_dict()}
    if source.checkpoint is not None:
        more["checkpoint"] = source.checkpoint.done
    return of_run | more | {"evaluation_batches": config.evaluation_batches, "device": device_name()}
