"""`alphamepol check`: examine a class before training, and write the findings as sentences, numbers and a page."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import usual_preset_settings
from alphamepol.checking.diagnose import STAGES, diagnose
from alphamepol.checking.diagnosis_types import Diagnosis, Finding
from alphamepol.checking.findings import command_of_findings, find_all_findings
from alphamepol.checking.member_shares import member_shares_of_tail
from alphamepol.checking.page import check_page, check_page_members_table
from alphamepol.checking.pictures import draw_check_pictures
from alphamepol.environments.host import AnyClass, remark_about_class
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.errors import InputError
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.files.reading import check_folder_is_plain
from alphamepol.pages.notebook import html_of_findings
from alphamepol.policies.policy import Policy
from alphamepol.runs.description import describe_run
from alphamepol.runs.folder import class_in_folder_name, default_run_folder
from alphamepol.runs.progress import showing_progress, time_columns
from alphamepol.runs.sources import RANDOM, read_sources, say_checkpoints_of_sources
from alphamepol.settings.conversion import settings_to_dict
from alphamepol.settings.run import PhysicsKind, WorkersGiven

EFFORT: dict[str, int] = dict(zip(STAGES, (5, 1, 2, 3, 6, 5, 2, 2, 2, 1, 2, 12, 1, 4), strict=True))
"""The approximate share of the time that each stage takes, for the progress bar."""


@dataclass(frozen=True)
class Checked:
    """The result of `check`: the numbers, the findings, and the folder of the files."""

    folder: Path
    """The folder that holds check.json, check.html and figures/."""
    diagnosis: Diagnosis = field(repr=False)
    """The numbers."""
    findings: list[Finding]
    """The findings, the most important first. Each has a `sentence`, the suggested `settings`, and `serious`, which is
    true if something should be changed before training."""
    train_with: str
    """The command line that trains with the suggested settings."""

    def _repr_html_(self) -> str:
        return html_of_findings(self.findings, self.train_with, str(self.folder))


def check(
    environment_class: AnyClass | str,
    config: PretrainConfig | None = None,
    *,
    run: str | Path | None = None,
    checkpoint: int | None = None,
    batches: int | None = None,
    folder: str | Path | None = None,
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
    quiet: bool = False,
) -> Checked:
    """Examine a class before training, and write the findings.

    A policy collects samples in every member. The numbers are written to check.json, a page with the findings to
    check.html, and the pictures to figures/. `diagnose` computes the same numbers without writing files.

    **Arguments**

    - `environment_class`: the class, or its name.
    - `config`: the settings to examine. If they are not given, those of `run` are used if it is a pre-training run on
      the class, and otherwise those of the usual preset of the class.
    - `run`: the policy that collects the samples: a run folder (then the policy of `config.seed` is used), a policy
      file, or the name of a policy that comes with the package. If it is not given, an untrained policy is used.
    - `checkpoint`: the number of epochs after which the run saved the policy. The default is the final policy, or the
      newest checkpoint of a run that has not ended.
    - `batches`: the number of mini-batches in each member, at least 2. If it is not given, 12 are sampled, or fewer in
      a class of more than twenty members.
    - `folder`: the folder for the files. By default it is `runs/check-CLASS`, and `RUN/check-CLASS` if `run` is a run
      folder.
    - `physics`: the engine that steps a class of MuJoCo models: `"cpu"`, `"gpu"` or `"auto"` (see `mujoco_class`).
    - `workers`: the workers of a class of Gymnasium environments: a number of processes, or "ray" or "ray:64" for
      actors of a Ray cluster (docs/scaling.md). By default they are those that the class was made with.
    - `quiet`: print nothing.

    **Returns**

    A `Checked`, with the numbers, the findings and a command line to train with.

    **Raises**

    - `InputError`: if the class or the policy is not known, or if they do not fit together.
    - `InputError`: if a setting or `batches` is out of its range, or if `folder` holds a run.
    - `RunError`: if the class cannot be sampled, for example because a state is not finite.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(
        epochs=2, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2
    )
    checked = am.check("gridworld-slope", config, batches=2, folder="check", quiet=True)
    print(checked.findings[0].sentence)
    print(checked.train_with)  # alphamepol pretrain gridworld-slope, with options
    ```
    """
    if batches is not None and batches < 2:
        raise InputError(f"batches: {batches} was given; it must be at least 2, because an interval needs several")
    class_name = registered_name(environment_class)
    config = config or usual_preset_settings(class_name, run)
    label, policy = _policy_to_check_with(run, config.seed, checkpoint, quiet)
    given, folder = folder, Path(folder) if folder else _default_check_folder(class_name, run)
    if (folder / "config.json").exists():
        raise InputError(f"folder: {folder} holds a run; choose another --folder")
    check_folder_is_plain(folder if given else folder.parent, folders=["figures" if given else folder.name])
    environment_class = make_class(environment_class, config.probabilities, physics, workers)
    console = Console(quiet=quiet, highlight=False, markup=False, emoji=False)
    if remark := remark_about_class(environment_class):
        console.print(remark)
    with _check_progress(console) as stage:
        found = diagnose(environment_class, config, policy, label=label, batches=batches, stage=stage)
    findings = find_all_findings(found)
    line = command_of_findings(found, findings)
    console.print(check_page_members_table(found))
    for number, finding in enumerate(findings, 1):
        style = _style_of_checked_finding(finding)
        say_in_terminal(console, f"{number}. {finding.sentence}", style, soft_wrap=False)
    say_in_terminal(console, f"To train with the suggested settings: {line}")
    write_atomically(folder / "check.json", to_json(check_to_dict(found, findings, line)))
    drawn = draw_check_pictures(found, environment_class, folder / "figures")
    write_atomically(folder / "check.html", check_page(found, findings, line, drawn))
    return Checked(folder, found, findings, line)


def _style_of_checked_finding(finding: Finding) -> str:
    return "bold" if finding.serious else ""


def _policy_to_check_with(
    run: str | Path | None, seed: int, checkpoint: int | None, quiet: bool
) -> tuple[str, Policy | None]:
    """Return the label of the policy that collects samples, and the policy; None stands for an untrained policy."""
    if run is None or str(run) == RANDOM:
        return f"Random (seed {seed})", None
    (source,) = read_sources([run], checkpoint=checkpoint)
    say_checkpoints_of_sources([source], quiet=quiet)
    policies = source.policies
    if seed not in policies and len(policies) > 1:
        known = ", ".join(map(str, policies))
        raise InputError(f"seed: {seed} was given; {run} has policies of seeds {known}")
    return source.label, policies.get(seed) or next(iter(policies.values()))


def _default_check_folder(class_name: str, run: str | Path | None) -> Path:
    name = f"check-{class_in_folder_name(class_name)}"
    return Path(run) / name if run and Path(run).is_dir() else default_run_folder(name)


@contextmanager
def _check_progress(console: Console) -> Iterator[Any]:
    """Show each stage with the remaining time, or print a line per stage if there is no terminal."""
    columns = TextColumn("{task.description}"), BarColumn(), *time_columns()
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=sum(EFFORT.values()))

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        number = STAGES.index(name)
        before = sum(EFFORT[earlier] for earlier in STAGES[:number])  # stages may be left out
        progress.update(task, description=name, completed=before, step=EFFORT[name])
        if not console.is_terminal:  # bars are drawn in a terminal only
            say_in_terminal(console, f"{number + 1} of {len(STAGES)}: {name}")
        yield

    with showing_progress(progress):
        yield stage


def check_to_dict(found: Diagnosis, findings: Sequence[Finding], line: str) -> dict[str, Any]:
    """Return the content of check.json."""
    means, low, high = found.means
    tail = member_shares_of_tail(found.entropies, found.probabilities, found.config.alpha)
    members = {
        name: (
            {
                "probability": found.probabilities[i],
                "entropy": float(means[i]),
                "interval": [float(low[i]), float(high[i])],
                "ceiling": found.ceilings[i],
                "coinciding": found.aliasing[i].coinciding,
                "smallest_safe_k": found.aliasing[i].largest,
                "coinciding_without_noise": found.bare[i].coinciding,
                "mean_steps": float(found.lengths[i]),
                "own_neighbours": float(found.own_neighbours[i]),
                "expected_draws": found.draws[i].expected,
                "absent": found.draws[i].absent,
                "share_of_tail": float(tail[i]),
            }
        )
        for i, name in enumerate(found.members)
    }
    trade_off = found.trade_off
    numbers = {
        **describe_run("check", found.class_name, {}),
        "config": settings_to_dict(found.config),
        "policy": found.policy,
        "findings": [
            {"serious": finding.serious, "sentence": finding.sentence, "settings": finding.settings}
            for finding in findings
        ],
        "train_with": line,
        "minibatches": found.config.minibatches,
        "tail": found.config.tail_size,
        "neighbours": found.neighbours,
        "fewest_particles": found.fewest,
        "members": members,
        "variance_between_members": found.between,
        "scales": {
            name: {part: getattr(scale, part).tolist() for part in ("mean", "deviation", "low", "high")}
            for name, scale in (("observations", found.observations), ("particles", found.particles))
        },
        "actions": found.actions
        and {
            "sigma": found.actions.sigma.tolist(),
            "half_ranges": [half if math.isfinite(half) else None for half in found.actions.half_ranges.tolist()],
            "clipped": found.actions.clipped,
        },
        "by_neighbours": _sensitivity_in_check_json(
            found.by_neighbours.settings, found.by_neighbours.entropies, found.members
        ),
        "by_batch": _sensitivity_in_check_json(found.by_batch.settings, found.by_batch.entropies, found.members),
        "learning_rates": [vars(one) for one in found.learned],
        "step_contrasts": None if found.contrasts is None else found.contrasts.tolist(),
        "theory": found.bounds.to_dict(),
        "baseline": trade_off and vars(trade_off),
        "cost": found.cost and found.cost.to_dict(),
    }
    return _finite_in_check_json(numbers)


def _finite_in_check_json(content: Any) -> Any:
    """Replace numbers that are not finite by null, because JSON does not have them."""
    if isinstance(content, dict):
        return {name: _finite_in_check_json(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_finite_in_check_json(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _sensitivity_in_check_json(
    settings: Sequence[int], entropies: np.ndarray, members: Sequence[str]
) -> dict[str, Any]:
    return {
        str(setting): dict(zip(members, row.tolist(), strict=True))
        for setting, row in zip(settings, entropies, strict=True)
    }
