"""`alphamepol check`: is a class well-posed for this, and what is it like? Sentences, numbers, pictures, a page."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import usual_preset_settings
from alphamepol.checking.diagnose import STAGES, diagnose
from alphamepol.checking.diagnosis_types import Diagnosis, Finding
from alphamepol.checking.findings import command_of_findings, find_all_findings
from alphamepol.checking.member_shares import member_shares_of_tail
from alphamepol.checking.page import check_page, check_page_members_table
from alphamepol.checking.pictures import draw_check_pictures
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.environments.registry import registered_name
from alphamepol.errors import InputError
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.policies.policy import Policy
from alphamepol.runs.description import describe_run
from alphamepol.runs.folder import class_in_folder_name, default_run_folder
from alphamepol.runs.sources import RANDOM, read_source
from alphamepol.settings.conversion import settings_to_dict

EFFORT: dict[str, int] = dict(zip(STAGES, (4, 2, 3, 12, 6, 1), strict=True))
"""About what part of the time each stage takes."""


@dataclass(frozen=True)
class Checked:
    """What was found of a class, and the folder of its files."""

    folder: Path
    diagnosis: Diagnosis
    findings: list[Finding]
    """In the order of their importance."""
    train_with: str
    """The command line that trains with what is suggested."""


def check(
    environment_class: AnyClass | str,
    config: PretrainConfig | None = None,
    *,
    run: str | Path | None = None,
    batches: int | None = None,
    folder: str | Path | None = None,
    quiet: bool = False,
) -> Checked:
    """Diagnose a class through the policy of a run, or an untrained one, and write what was found.

    check.json has all numbers, check.html is a page, figures/ has the pictures.

    **Arguments**

    - `environment_class`: a class or its name.
    - `config`: the settings that are looked at; if not given, those of the run if it is of the class, else the usual
      ones of the class.
    - `run`: a run folder, a policy file, or the name of a released policy; an untrained policy if not given.
    - `batches`: mini-batches that are sampled in each member; 12 if not given, fewer of more than twenty members.
    - `folder`: where the files go; by default `runs/check-CLASS`, of a run `RUN/check-CLASS`.
    - `quiet`: print nothing.
    """
    if batches is not None and batches < 2:
        raise InputError(f"batches: {batches} was given; it must be at least 2, an interval needs several")
    class_name = registered_name(environment_class)
    config = config or usual_preset_settings(class_name, run)
    label, policy = _policy_to_check_with(run, config.seed)
    folder = Path(folder) if folder else _default_check_folder(class_name, run)
    if (folder / "config.json").exists():
        raise InputError(f"folder: {folder} holds a run; choose another --folder")
    environment_class = make_class(environment_class, config.probabilities)
    console = Console(quiet=quiet)
    with _check_progress(console) as stage:
        found = diagnose(environment_class, config, policy, label=label, batches=batches, stage=stage)
    findings = find_all_findings(found)
    line = command_of_findings(found, findings)
    console.print(check_page_members_table(found))
    for number, finding in enumerate(findings, 1):
        console.print(
            f"{number}. {finding.sentence}", highlight=False, markup=False, style=_style_of_checked_finding(finding)
        )
    console.print(f"To train with that: {line}", highlight=False, markup=False, soft_wrap=True)
    drawn = draw_check_pictures(found, environment_class, folder / "figures")
    write_atomically(folder / "check.json", to_json(check_to_dict(found, findings, line)))
    write_atomically(folder / "check.html", check_page(found, findings, line, drawn))
    return Checked(folder, found, findings, line)


def _style_of_checked_finding(finding: Finding) -> str:
    return "bold" if finding.serious else ""


def _policy_to_check_with(run: str | Path | None, seed: int) -> tuple[str, Policy | None]:
    """What to call the policy that is looked through, and itself; None stands for an untrained one."""
    if run is None or str(run) == RANDOM:
        return f"Random (seed {seed})", None
    source = read_source(run)
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
    """Shows each stage, with the time left, or a line where there is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(EFFORT.values()))

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            progress.update(task, description=name)
            if not console.is_terminal:  # where bars are not drawn
                console.print(f"{STAGES.index(name) + 1} of {len(STAGES)}: {name}", highlight=False)
            yield
            progress.advance(task, EFFORT[name])

        yield stage


def check_to_dict(found: Diagnosis, findings: Sequence[Finding], line: str) -> dict[str, Any]:
    """check.json."""
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
        "tail": risk_tail_count(found.config.alpha, found.config.minibatches),
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
    }
    return _finite_in_check_json(numbers)


def _finite_in_check_json(content: Any) -> Any:
    """With null for what JSON has no number for."""
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
