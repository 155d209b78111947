"""`alphamepol check`: is a class well-posed for this, and what is it like? Sentences, numbers, pictures, a page."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from alphamepol.diagnostics import tail_shares
from alphamepol.environments.registry import resolve_class
from alphamepol.errors import InputError
from alphamepol.estimation.risk import tail_count
from alphamepol.experiments.page import Html, page, picture, table
from alphamepol.files import to_json, write_atomically
from alphamepol.policies import Policy
from alphamepol.runs.check_figures import CAPTIONS, draw
from alphamepol.runs.config import PretrainConfig, config_to_dict
from alphamepol.runs.diagnose import STAGES, diagnose
from alphamepol.runs.diagnosis import Diagnosis, Finding
from alphamepol.runs.findings import command, find
from alphamepol.runs.folder import describe
from alphamepol.runs.sources import read_source
from alphamepol.runs.tables import MOST

EFFORT: dict[str, int] = dict(zip(STAGES, (4, 2, 3, 12, 6, 1), strict=True))
"""About what part of the time each stage takes."""


def check(
    class_name: str,
    config: PretrainConfig,
    *,
    run: str | None = None,
    batches: int | None = None,
    folder: Path | None = None,
) -> Path:
    """Diagnose a class through the policy of a run, or an untrained one, and write what was found; returns the folder.

    check.json has all numbers, check.html the page, figures/ the pictures.
    """
    if batches is not None and batches < 2:
        raise InputError(f"batches: {batches} was given; it must be at least 2, an interval needs several")
    label, policy = _policy(run, config.seed)
    folder = folder or _default_folder(class_name, run)
    if (folder / "config.json").exists():
        raise InputError(f"folder: {folder} holds a run; choose another --folder")
    environment_class = resolve_class(class_name, config.probabilities)
    console = Console()
    with _progress(console) as stage:
        found = diagnose(environment_class, config, policy, label=label, batches=batches, stage=stage)
    findings = find(found)
    line = command(found, findings)
    console.print(members_table(found))
    for number, finding in enumerate(findings, 1):
        console.print(f"{number}. {finding.sentence}", highlight=False, markup=False, style=_weight(finding))
    console.print(f"To train with that: {line}", highlight=False, markup=False, soft_wrap=True)
    drawn = draw(found, environment_class, folder / "figures")
    write_atomically(folder / "check.json", to_json(to_dict(found, findings, line)))
    write_atomically(folder / "check.html", check_page(found, findings, line, drawn))
    return folder


def _weight(finding: Finding) -> str:
    return "bold" if finding.serious else ""


def _policy(run: str | None, seed: int) -> tuple[str, Policy | None]:
    """What to call the policy that is looked through, and itself; None stands for an untrained one."""
    if run is None or run == "random":
        return f"Random (seed {seed})", None
    source = read_source(run)
    policies = source.policies
    if seed not in policies and len(policies) > 1:
        known = ", ".join(map(str, policies))
        raise InputError(f"seed: {seed} was given; {run} has policies of seeds {known}")
    return source.label, policies.get(seed) or next(iter(policies.values()))


def _default_folder(class_name: str, run: str | None) -> Path:
    name = f"check-{class_name.rpartition(':')[2]}"
    return Path(run) / name if run and Path(run).is_dir() else Path("runs") / name


@contextmanager
def _progress(console: Console) -> Iterator[Any]:
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


def to_dict(found: Diagnosis, findings: Sequence[Finding], line: str) -> dict[str, Any]:
    """check.json."""
    means, low, high = found.means
    tail = tail_shares(found.entropies, found.probabilities, found.config.alpha)
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
        **describe("check", **{"class": found.class_name}),
        "config": config_to_dict(found.config),
        "policy": found.policy,
        "findings": [
            {"serious": finding.serious, "sentence": finding.sentence, "settings": finding.settings}
            for finding in findings
        ],
        "train_with": line,
        "minibatches": found.config.minibatches,
        "tail": tail_count(found.config.alpha, found.config.minibatches),
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
        "by_neighbours": _sensitivity(found.by_neighbours.settings, found.by_neighbours.entropies, found.members),
        "by_batch": _sensitivity(found.by_batch.settings, found.by_batch.entropies, found.members),
        "learning_rates": [vars(one) for one in found.learned],
        "step_contrasts": None if found.contrasts is None else found.contrasts.tolist(),
        "theory": found.bounds.to_dict(),
        "baseline": trade_off and vars(trade_off),
    }
    return _finite(numbers)


def _finite(content: Any) -> Any:
    """With null for what JSON has no number for."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _sensitivity(settings: Sequence[int], entropies: np.ndarray, members: Sequence[str]) -> dict[str, Any]:
    return {
        str(setting): dict(zip(members, row.tolist(), strict=True))
        for setting, row in zip(settings, entropies, strict=True)
    }


HEADER = ("member", "p", "entropy", "ceiling", "coincide", "safe k", "steps", "drawn", "absent", "of tail")
ENTROPY = HEADER.index("entropy")


def _rows(found: Diagnosis) -> list[tuple[str, ...]]:
    means, low, high = found.means
    tail = tail_shares(found.entropies, found.probabilities, found.config.alpha)
    rows = []
    for i, member in enumerate(found.members[:MOST]):
        ceiling, alias, lot = found.ceilings[i], found.aliasing[i], found.draws[i]
        rows.append(
            (
                member,
                f"{found.probabilities[i]:g}",
                _with_interval(means[i], low[i], high[i]),
                f"{ceiling:.2f}" if math.isfinite(ceiling) else "?",
                f"{alias.coinciding:.0%}",
                str(alias.largest),
                f"{found.lengths[i]:.0f}",
                f"{lot.expected:.1f}",
                f"{lot.absent:.0%}",
                f"{tail[i]:.0%}",
            )
        )
    if len(found.members) > MOST:
        rows.append((f"and {len(found.members) - MOST} more", *[""] * (len(HEADER) - 1)))
    return rows


def _with_interval(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]" if math.isfinite(mean) else "−∞"


def members_table(found: Diagnosis) -> Table:
    """For the terminal, which is narrow; the page has more columns."""
    shown = Table(title=Text(f"{found.class_name} under {found.policy}, k = {found.neighbours}"), title_justify="left")
    columns = [i for i, column in enumerate(HEADER) if column not in ("steps", "drawn", "absent")]
    for i in columns:
        shown.add_column(HEADER[i], justify="right" if i else "left", no_wrap=i == ENTROPY)
    for row in _rows(found):
        shown.add_row(*(Text(row[i]) for i in columns))
    return shown


def check_page(found: Diagnosis, findings: Sequence[Finding], line: str, figures: Sequence[Path]) -> str:
    """The page: what was found, then the numbers and pictures behind it."""
    config = found.config
    said = "".join(
        f"<li>{'<b>' if finding.serious else ''}{escape(finding.sentence)}{'</b>' if finding.serious else ''}</li>"
        for finding in findings
    )
    introduction = (
        f"<p>{len(found.members)} members, looked at through {escape(found.policy)} with T = {config.horizon}, N = "
        f"{config.trajectories}, B = {config.batch}, k = {config.neighbours}, α = {config.alpha:g} and learning rate "
        f"{config.learning_rate:g}; {found.entropies.shape[1]} mini-batches in each.</p>"
    )
    pictures = {path.stem: picture(path, CAPTIONS[path.stem]) for path in figures}
    note = (
        "<p class='soft'>Entropy: mean of mini-batches [95 % interval]. Coincide: share of particles with a twin in "
        "their mini-batch. Safe k: the smallest with which no distance was 0. Drawn: mini-batches of an epoch, on "
        "average. Absent: epochs that do not meet the member. Of tail: its share of the worst mini-batches.</p>"
    )
    sections = [
        ("findings", "What was found", f"<ol>{said}</ol><p>To train with that:</p><pre>{escape(line)}</pre>"),
        (
            "members",
            "Members",
            table(HEADER, _rows(found), range(1, len(HEADER)))
            + note
            + pictures.get("check-entropies", "")
            + pictures.get("heat-maps", ""),
        ),
        ("scales", "Scales", _scales_table(found)),
        ("estimate", "Is the estimate stable?", pictures.get("check-stability", "")),
        ("rates", "Learning rate", pictures.get("check-rates", "")),
        ("theory", "Theory", theory_table(found) + pictures.get("check-distances", "")),
    ]
    return page(f"αMEPOL: {found.class_name} before training", sections, introduction)


def _scales_table(found: Diagnosis) -> str:
    rows = []
    for name, scale in (("observation", found.observations), ("particle", found.particles)):
        count = len(scale.mean)
        shown = range(count) if count <= MOST else ()
        for i in shown:
            numbers = (scale.mean[i], scale.deviation[i], scale.low[i], scale.high[i])
            rows.append((f"{name} {i}", *(f"{number:.3g}" for number in numbers)))
        if not shown:
            moving = scale.deviation[scale.moving]
            spread = f"{moving.min():.3g} to {moving.max():.3g}" if moving.size else "0"
            middle = f"{scale.mean.min():.3g} to {scale.mean.max():.3g}"
            rows.append(
                (f"{name}, {count} numbers", middle, spread, f"{scale.low.min():.3g}", f"{scale.high.max():.3g}")
            )
    text = table(("component", "mean", "deviation", "lowest", "highest"), rows, range(1, 5))
    if found.actions is not None:
        ranges = ", ".join(
            f"{sigma:.3g} of ±{half:.3g}" if math.isfinite(half) else f"{sigma:.3g}, no range"
            for sigma, half in zip(found.actions.sigma, found.actions.half_ranges, strict=True)
        )
        text += f"<p>σ of actions: {ranges}; {found.actions.clipped:.0%} of components are clipped.</p>"
    return text


def theory_table(found: Diagnosis) -> str:
    """Each quantity of the theory: what was measured, what bounds it, what that assumes, whether it says anything."""
    if len(found.members) < 2:
        return ""
    rows = [tuple(Html(cell) if cell.startswith("<") else cell for cell in row) for row in theory_rows(found)]
    return table(("", "measured", "bound", "assumes", "says"), rows, (1, 2))


def theory_rows(found: Diagnosis) -> list[tuple[str, str, str, str, str]]:
    bounds, dynamics = found.bounds, found.bounds.dynamics
    low, high = bounds.diameter
    no_state = "environments on the host cannot be put into a state"
    ends = "; trajectories ended early here, which it does not allow" if bounds.ends else ""
    step, far = bounds.one_step_bound, bounds.wasserstein_bound
    gap, sharp = bounds.entropy_gap_bound, bounds.sharp_entropy_gap_bound
    rows = [
        (
            "π-diameter D(π) (D1), total variation on cells",
            f"{low:.2f} to {high:.2f}",
            "1",
            f"{bounds.cells} cells; differences inside a cell are not seen",
            "low: tried on other trajectories than it was found on; high: chance included",
        ),
        (
            "D(π) from one step (D2): starts + T · share of steps that differ",
            "" if dynamics is None else f"{dynamics.steps_differ.max():.3g} of {dynamics.steps} steps",
            "" if step is None else f"{step:.3g}",
            "nothing but a horizon that all reach; steps are compared with common random numbers, which makes it "
            f"larger than the paper's, if anything; it is known as well as that share is, times T{ends}",
            no_state if step is None else _vacuous(step, 1.0),
        ),
        (
            "Wasserstein distance of state distributions (D3)",
            f"{bounds.wasserstein.max():.3g} (by chance {bounds.wasserstein_chance:.3g})",
            "" if far is None else _count(far),
            "that particles tell the whole state, and a Lipschitz constant L < 1 of the policy's dynamics"
            + ("" if dynamics is None else f"; found {dynamics.lipschitz:.3g}, the largest of pairs of visited states")
            + ("" if found.config.memory == "none" else ", memory beginning anew in each")
            + ends,
            no_state
            if dynamics is None
            else "vacuous: L is not below 1, the bound grows with L^T"
            if dynamics.lipschitz >= 1
            else "not vacuous",
        ),
        (
            "entropy gap (D4): D²/σ + D ln(1/σ)",
            f"{bounds.entropy_gap:.2f}",
            f"{gap:.3g}" if math.isfinite(gap) else "∞",
            f"that every member is in every cell; the smallest probability is σ = {bounds.smallest:.2g}",
            "vacuous: some member never is in some cell"
            if not math.isfinite(gap)
            else _vacuous(gap, math.log(bounds.cells)),
        ),
        (
            "entropy gap (D5): D ln(K − 1) + h(D)",
            f"{bounds.entropy_gap:.2f}",
            f"{sharp:.2f}",
            "nothing more",
            _vacuous(sharp, math.log(bounds.cells)),
        ),
    ]
    if found.trade_off is not None:
        trade = found.trade_off
        rows.append(
            (
                "baseline b: from how many mini-batches on the gradient without it is the better one (D7), and its "
                "error below what the bias of the other can be (D6)",
                _from(trade.crossing),
                _from(trade.samples),
                f"on-policy gradients, along one direction; δ = 0.05, bias at most U α |b| = {trade.bias_bound:.3g}, "
                f"found {trade.bias:.3g}",
                f"an epoch has {found.config.minibatches}",
            )
        )
    return rows


def _vacuous(bound: float, trivial: float) -> str:
    return f"vacuous: {trivial:.3g} holds anyway" if bound >= trivial else "not vacuous"


def _count(number: float) -> str:
    return f"{number:.3g}" if math.isfinite(number) else "∞"


def _from(samples: float) -> str:
    return "at once" if samples <= 1 else f"from {_count(samples)} on"
