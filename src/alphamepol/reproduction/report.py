"""`alphamepol report`: everything that runs say, on one page that needs nothing but itself."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.make import make
from alphamepol.environments.registry import class_names
from alphamepol.errors import InputError
from alphamepol.estimation.statistics import Estimate, Sample, estimate, weighted_interquartile_mean
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.pages.html import (
    Html,
    bullets,
    code,
    details,
    emphasised,
    heading,
    marked,
    page,
    paragraph,
    picture,
    replay,
    table,
    together,
)
from alphamepol.reproduction.claims import Decision, JudgedStatement, returns_at
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import member_alone
from alphamepol.reproduction.store import Store, Stored, read_runs

MARKS = {"holds": "✓", "fails": "✗", "undecided": "?"}
PLURALS = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}
TRAILS = 3
"""Trajectories of a method that are shown in a member."""


def write_report(
    store: Store, experiments: Sequence[Experiment], decisions: Sequence[Decision], path: Path | None = None
) -> Path:
    """Write claims.json, claims.md and the page, with the figures that are there; returns the page."""
    folder = store.folder
    write_atomically(folder / "claims.json", to_json([decision.to_dict() for decision in decisions]))
    write_atomically(folder / "claims.md", claims_markdown(decisions))
    planned = dict.fromkeys(run for experiment in experiments for run in experiment.runs)
    used = {one.folder: one for run in planned if (one := store.find(run)) is not None}
    # Others that lie there, too; those that stand in for longer ones know it.
    stored = sorted((used.get(one.folder, one) for one in store.all()), key=lambda one: str(one.folder))
    verdicts = [decision.verdict for decision in decisions]
    counted = ", ".join(f"{verdicts.count(verdict)} {plural}" for verdict, plural in PLURALS.items())
    introduction = paragraph(
        f"{len(decisions)} claims of the paper ",
        emphasised("Unsupervised Reinforcement Learning in Multiple Environments"),
        f", decided from {len(stored)} runs: {counted}. A statement holds if its whole 95 % interval says so, fails if "
        "the whole interval says the opposite, and is undecided else. Intervals are bootstrapped over seeds, and over "
        "tasks where there are tasks.",
    )
    sections = [
        ("claims", "Claims", claims_table(decisions)),
        *((experiment.name, experiment.title, _figures(experiment, store)) for experiment in experiments),
        ("members", "Entropy, member by member", entropy_tables(stored)),
        ("returns", "Returns after fine-tuning", returns_table(stored)),
        ("replays", "Replays", replays(stored)),
        ("runs", "Runs", runs_table(stored)),
    ]
    path = path or folder / "report.html"
    write_atomically(path, page("αMEPOL: the paper's claims and what these runs say", sections, introduction))
    return path


def claims_markdown(decisions: Sequence[Decision]) -> str:
    """The claims as a table for a text file."""
    rows = ["| claim | what the paper says | verdict | what was found |", "|---|---|---|---|"]
    for decision in decisions:
        found = "; ".join(_in_short(part) for part in decision.parts if part.found is not None and _matters(part))
        missing = dict.fromkeys(name for part in decision.parts for name in part.missing)
        short = dict.fromkeys(said for part in decision.parts for said in part.shortfalls)
        notes = [found, f"missing: {'; '.join(missing)}" if missing else "", "; ".join(short)]
        cells = (f"`{decision.claim.id}`", decision.claim.says, decision.verdict, ". ".join(filter(None, notes)))
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def _matters(part: JudgedStatement) -> bool:
    return not (part.statement.minor and part.verdict == "holds")


def _in_short(part: JudgedStatement) -> str:
    assert part.found is not None
    if len(part.terms) == 1:
        return f"{part.statement.says}: {shown(part.terms[0][1])}"
    means = " and ".join(_short(mean.value) for _, mean, _ in part.terms)
    return f"{part.statement.says}: {means}, difference {shown(part.found)}"


def claims_table(decisions: Sequence[Decision]) -> Html:
    rows = []
    for decision in decisions:
        verdict = decision.verdict
        missing = dict.fromkeys(name for part in decision.parts for name in part.missing)
        shown_parts = [part for part in decision.parts if part.found is not None and _matters(part)]
        said = [_statement(part) for part in shown_parts]
        if steps := sum(not _matters(part) for part in decision.parts):
            held = f" none of the {steps} steps between goes back by more than a little"
            said.append(together(marked("holds", MARKS["holds"]), held))
        if missing:
            said.append(together(f"missing: {'; '.join(missing)}"))
        badge = marked(f"verdict {verdict}", f"{MARKS[verdict]} {verdict}")
        rows.append((code(decision.claim.id), badge, together(decision.claim.says, bullets(said))))
    return table(("claim", "verdict", "what the paper says, and what was found"), rows)


def _statement(part: JudgedStatement) -> Html:
    assert part.found is not None
    means = " and ".join(shown(mean) for _, mean, _ in part.terms)
    difference = f", difference {shown(part.found)}" if len(part.terms) > 1 else ""
    improved = f", probability of improvement {part.improvement.value:.2f}" if part.improvement else ""
    short = f". Shorter than planned: {'; '.join(part.shortfalls)}" if part.shortfalls else ""
    found = f" {part.statement.says}: {means}{difference}{improved}{short}"
    return together(marked(part.verdict, MARKS[part.verdict]), found)


def _figures(experiment: Experiment, store: Store) -> Html:
    parts = []
    for drawing in experiment.drawings:
        path = store.folder / "figures" / f"{drawing.name}.png"
        if path.is_file():
            found = [(run, store.find(run)) for run in drawing.runs]
            short = [f"{run.name} had {stored.shortfall}" for run, stored in found if stored and stored.shortfall]
            parts.append(picture(path, f"{drawing.caption} {'; '.join(short)}".strip()))
    return together(*parts)


def entropy_tables(stored: Sequence[Stored]) -> Html:
    """For every class: methods beside Random, policies trained for a member alone, and the ceiling."""
    explored = [one for one in stored if "entropy" in one.summary and isinstance(one.config, PretrainConfig)]
    parts = []
    for class_name in dict.fromkeys(one.summary["class"] for one in explored):
        runs = [one for one in explored if one.summary["class"] == class_name]
        alone = {_only(one): one for one in runs if _only(one)}
        shared = [one for one in runs if not _only(one)]
        parts += [heading(class_name), _entropy_table(shared, alone)]
    note = paragraph("Mean over seeds [95 % interval], inter-quartile mean after the bar.", soft=True)
    return together(note, *parts) if parts else Html()


def _entropy_table(shared: Sequence[Stored], alone: dict[str | None, Stored]) -> Html:
    first = [*shared, *alone.values()][0]
    members: list[str] = first.summary["members"]
    ceilings = [first.summary["ceiling"][member] for member in members]
    columns = [
        ("", *members, "mean under p_M"),
        *(
            (
                label_of(one),
                *(_cell(one.summary["entropy"][member]) for member in members),
                _cell(one.summary["mean"]),
            )
            for one in shared
        ),
        (
            "trained for it alone",
            *(_cell(alone[member].summary["entropy"][member]) if member in alone else "" for member in members),
            "",
        ),
        ("ceiling", *("" if ceiling is None else _short(ceiling) for ceiling in ceilings), ""),
    ]
    # Rows are what there are more of.
    lines = columns if len(columns) > len(members) + 2 else list(zip(*columns, strict=True))
    return table(lines[0], lines[1:], range(1, len(lines[0])))


def _cell(values: Sequence[float]) -> str:
    sample = Sample.of_seeds(values)
    return f"{shown(estimate(sample))} | {_short(estimate(sample, weighted_interquartile_mean).value)}"


def _only(one: Stored) -> str | None:
    """The member that a policy was trained for alone."""
    alone = member_alone(one.summary["probabilities"])
    return None if alone is None else one.summary["members"][alone]


def label_of(one: Stored) -> str:
    """What to call a run's method in a table."""
    if one.description["command"] == "untrained":
        return "Random"
    if one.description["command"] == "finetune":
        return one.summary["label"]
    config = one.config
    label = "" if isinstance(config, FinetuneConfig) else config.label
    if isinstance(config, PretrainConfig) and config.update == "on-policy":
        label += ", on-policy" + ("" if config.baseline else " without b")
    return f"{label}, {one.shortfall}" if one.shortfall else label


def returns_table(stored: Sequence[Stored]) -> Html:
    rows = []
    tuned = [one for one in stored if one.description["command"] == "finetune"]
    for one in sorted(tuned, key=lambda one: (one.summary["class"], one.summary["member"], one.summary["label"])):
        first, last = (returns_at(one, number) for number in (0, -1))
        iqm = estimate(last, weighted_interquartile_mean)
        amount = f"{last.task_count} × {len(last.values) // last.task_count}"
        where = f"{one.summary['class']}, {one.summary['member']}"
        cells = shown(estimate(first)), shown(estimate(last)), shown(iqm)
        rows.append((where, one.summary["label"], amount, str(one.summary["iterations"]), *cells))
    header = ("member", "from", "tasks × seeds", "iterations", "first return", "final return", "inter-quartile mean")
    return table(header, rows, range(2, 7)) if rows else Html()


def replays(stored: Sequence[Stored]) -> Html:
    """Trajectories of every method in the members of gridworlds."""
    parts: list[Html] = []
    moving = [one for one in stored if one.evaluated]
    for class_name in dict.fromkeys(str(one.description["class"]) for one in moving):
        if not _is_gridworld(class_name):
            continue
        runs = [one for one in moving if one.description["class"] == class_name and not _only(one)]
        if runs:
            parts += [heading(class_name), replay(_replay_data(class_name, runs))]
    return together(*parts)


def _is_gridworld(class_name: str) -> bool:
    try:
        return class_name in class_names() and isinstance(make(class_name)[0], Gridworld)
    except InputError:  # what it needs is not installed
        return False


def _replay_data(class_name: str, runs: Sequence[Stored]) -> dict[str, Any]:
    environment_class = make(class_name)
    members: list[dict[str, Any]] = []
    corners, scales = [], []
    for number, name in enumerate(environment_class.names):
        ground = environment_class[number].map
        assert ground is not None
        west, east, south, north = ground.extent
        scale = np.array([1000 / (east - west), 1000 / (north - south)])
        walls = [
            [*((np.array(patch.corner) - (west, south)) * scale).round(), *(np.array(patch.size) * scale).round()]
            for patch in ground.patches
        ]
        members.append({"name": name, "walls": np.array(walls, int).tolist()})
        corners.append((west, south))
        scales.append(scale)
    panels, steps = [], 1
    for method, one in enumerate(runs):
        trails = one.evaluation.trails
        for member in range(len(members)):
            ways = (trails[member, :TRAILS] - corners[member]) * scales[member]
            steps = max(steps, ways.shape[1])
            whole = [way[np.isfinite(way[:, 0])].round().astype(int).ravel().tolist() for way in ways]
            panels.append({"method": method, "member": member, "trails": whole})
    labels = [label_of(one) for one in runs]
    return {"members": members, "methods": labels, "panels": panels, "steps": steps}


def runs_table(stored: Sequence[Stored]) -> Html:
    rows = []
    for one in stored:
        description = one.description
        parts = (description.get("command_line", ""), json.dumps(description.get("versions", {})))
        settings = "\n".join([*map(str, parts), json.dumps(description["config"], indent=1, ensure_ascii=False)])
        commit = str(description.get("commit") or "")
        shown_commit = commit[:7] + ("-dirty" if commit.endswith("-dirty") else "")
        seeds = str(len(one.summary.get("seeds", [])))
        taken = str(round(one.summary.get("seconds", {}).get("total", 0)))
        device = str(description.get("device", ""))
        rows.append((details(one.folder.name, settings), description["command"], seeds, shown_commit, device, taken))
    return table(("run and settings", "command", "seeds", "commit", "device", "seconds"), rows, (2, 5))


def shown(found: Estimate) -> str:
    """A number with its interval."""
    interval = "" if found.interval is None else f" [{_short(found.interval[0])}, {_short(found.interval[1])}]"
    return f"{_short(found.value)}{interval}"


def _short(value: float) -> str:
    """Two decimals, three where two say little."""
    small = 0 < abs(value) < 0.095
    text = f"{value:.3f}" if small else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return text.replace("-", "−")


def report_runs(folders: Sequence[Path], path: Path) -> None:
    """A page of any runs: their numbers, figures, replays and settings."""
    stored = read_runs(folders)
    figures: list[Html] = []
    for one in stored:
        if pictures := sorted((one.folder / "figures").glob("*.png")):
            figures += [heading(one.folder.name), *(picture(path, path.stem) for path in pictures)]
    sections = [
        ("members", "Entropy, member by member", entropy_tables(stored)),
        ("returns", "Returns after fine-tuning", returns_table(stored)),
        ("figures", "Figures", together(*figures)),
        ("replays", "Replays", replays(stored)),
        ("runs", "Runs", runs_table(stored)),
    ]
    write_atomically(path, page("αMEPOL: runs", sections, ""))
