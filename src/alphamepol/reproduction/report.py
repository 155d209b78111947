"""`alphamepol report`: one HTML page with the results of runs, which needs no other file."""

import json
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.make import make
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError
from alphamepol.estimation.statistics import Sample, estimate_statistic, text_of_statistic, weighted_interquartile_mean
from alphamepol.figures.curves import CURVE_FIELDS, draw_learning_curves
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.pages.html import (
    Html,
    html_bullets,
    html_code,
    html_details,
    html_emphasised,
    html_heading,
    html_marked,
    html_page,
    html_paragraph,
    html_picture,
    html_replay,
    html_table,
    join_html,
)
from alphamepol.reproduction.claims import Decision, JudgedStatement, claimed_returns_at
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import member_planned_alone
from alphamepol.reproduction.store import Store, Stored, read_stored_runs
from alphamepol.runs.metrics import thinned_metrics

MARKS = {"holds": "✓", "fails": "✗", "undecided": "?"}
PLURALS = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}
TRAILS = 3
"""The number of trajectories that a replay shows for a method in a member."""
OTHER_UNITS = (
    "Other runs of this class were measured in other units. Their entropies cannot be compared with these; "
    "`alphamepol evaluate RUN RUN` measures all of them in the units of the class."
)
MARKDOWN_WIDTH = 120
"""The longest line of a Markdown file, in characters."""


def write_report(
    store: Store, experiments: Sequence[Experiment], decisions: Sequence[Decision], path: Path | None = None
) -> Path:
    """Write claims.json, claims.md and the page, with the figures that the folder has. Return the path of the page."""
    folder = store.folder
    write_atomically(folder / "claims.json", to_json([decision.to_dict() for decision in decisions]))
    write_atomically(folder / "claims.md", report_claims_as_markdown(decisions))
    planned = dict.fromkeys(run for experiment in experiments for run in experiment.runs)
    used = {one.folder: one for run in planned if (one := store.find(run)) is not None}
    # The page lists every run of the folder. `used` has the shortfalls of runs that replace longer ones.
    stored = sorted((used.get(one.folder, one) for one in store.all()), key=lambda one: str(one.folder))
    verdicts = [decision.verdict for decision in decisions]
    counted = ", ".join(f"{verdicts.count(verdict)} {plural}" for verdict, plural in PLURALS.items())
    introduction = html_paragraph(
        f"{len(decisions)} claims of the paper ",
        html_emphasised("Unsupervised Reinforcement Learning in Multiple Environments"),
        f" are decided from {len(stored)} runs: {counted}. A claim consists of statements. A statement holds if it is "
        "true of its whole 95 % interval. It fails if the opposite is true of the whole interval. Otherwise it is "
        "undecided. Intervals are bootstrapped over seeds, and over tasks where a run has tasks. An interval that ends "
        "near its limit has more resamples than usual.",
    )
    sections = [
        ("claims", "Claims", report_claims_table(decisions)),
        *((experiment.name, experiment.title, _report_figures(experiment, store)) for experiment in experiments),
        ("members", "Entropy in each member", report_entropy_tables(stored)),
        ("returns", "Returns after fine-tuning", report_returns_table(stored)),
        ("replays", "Replays", report_replays(stored)),
        ("runs", "Runs", report_runs_table(stored)),
    ]
    path = path or folder / "report.html"
    write_atomically(
        path, html_page("αMEPOL: the claims of the paper, and the results of these runs", sections, introduction)
    )
    return path


def report_claims_as_markdown(decisions: Sequence[Decision]) -> str:
    """Return the claims as Markdown: a table of verdicts, then a list with the numbers behind each verdict."""
    header = ("claim", "verdict", "statements that hold", "statements that fail", "undecided statements")
    rows = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    items: list[str] = []
    for decision in decisions:
        verdicts = [part.verdict for part in decision.parts]
        counts = (str(verdicts.count(verdict)) for verdict in MARKS)
        rows.append(f"| `{decision.claim.id}` | {decision.verdict} | {' | '.join(counts)} |")
        said = f"`{decision.claim.id}`: {decision.verdict}. {decision.claim.says}"
        quoted = f' The paper says: "{decision.claim.quote}".' if decision.claim.quote else ""
        items.append(_report_markdown_item(said + quoted))
        items += _report_numbers_as_markdown(decision)
        if decision.earlier is not None:
            items.append(_report_markdown_item(_report_earlier_reading(decision.earlier), level=1))
            items += _report_numbers_as_markdown(decision.earlier, level=2)
    return "\n".join([*rows, "", *items]) + "\n"


def _report_earlier_reading(earlier: Decision) -> str:
    return (
        f"An earlier version of this project read the claim more strictly, and changed the reading after the results "
        f"were known. The earlier reading: {earlier.verdict}. {earlier.claim.says}"
    )


def _report_numbers_as_markdown(decision: Decision, level: int = 1) -> list[str]:
    """Return the items below a claim: its statements with their numbers, missing runs, and runs that are shorter."""
    items: list[str] = []
    for part in decision.parts:
        if part.found is None or not _matters_in_report(part):
            continue
        items.append(_report_markdown_item(_report_statement_in_short(part), level))
        # The sentence has the means of two terms. More than two means need names to be understood.
        for quantity, mean, _ in part.terms if len(part.terms) > 2 else ():
            named = f"The mean of {quantity.name} is {text_of_statistic(mean.value)}."
            items.append(_report_markdown_item(named, level + 1))
    if steps := sum(not _matters_in_report(part) for part in decision.parts):
        held = f"Holds: none of the {steps} steps between the two ends goes back by more than the tolerance."
        items.append(_report_markdown_item(held, level))
    missing = dict.fromkeys(name for part in decision.parts for name in part.missing)
    short = dict.fromkeys(said for part in decision.parts for said in part.shortfalls)
    items += [_report_markdown_item(f"A run is missing: {name}.", level) for name in missing]
    for name, _, amounts in (said.partition(": ") for said in short):
        items.append(_report_markdown_item(f"The run {name} is shorter than planned: {amounts}.", level))
    return items


def _report_markdown_item(text: str, level: int = 0) -> str:
    """Return an item of a list, wrapped to `MARKDOWN_WIDTH` columns; `level` is its depth."""
    indent = "  " * level
    # A line that begins with a number and a full stop would begin a numbered list, so no line breaks there.
    bound = re.sub(r" (\d+\. )", "\N{NO-BREAK SPACE}\\1", text)
    wrapped = textwrap.fill(
        bound,
        MARKDOWN_WIDTH,
        initial_indent=f"{indent}- ",
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped.replace("\N{NO-BREAK SPACE}", " ")


def _matters_in_report(part: JudgedStatement) -> bool:
    return not (part.statement.minor and part.verdict == "holds")


def _report_statement_in_short(part: JudgedStatement) -> str:
    assert part.found is not None
    said = f"{part.verdict.capitalize()}: {part.statement.says}."
    if len(part.terms) == 1:
        return f"{said} The mean is {part.terms[0][1].text}.{part.precision}{part.power}"
    means = " and ".join(text_of_statistic(mean.value) for _, mean, _ in part.terms)
    shown = f" The means are {means}, and the" if len(part.terms) == 2 else " The"
    return f"{said}{shown} difference is {part.found.text}.{part.precision}{part.power}"


def report_claims_table(decisions: Sequence[Decision]) -> Html:
    rows = []
    for decision in decisions:
        verdict = decision.verdict
        said = [decision.claim.says, html_bullets(_report_statements(decision))]
        if decision.earlier is not None:
            said += [_report_earlier_reading(decision.earlier), html_bullets(_report_statements(decision.earlier))]
        badge = html_marked(f"verdict {verdict}", f"{MARKS[verdict]} {verdict}")
        rows.append((html_code(decision.claim.id), badge, join_html(*said)))
    return html_table(("claim", "verdict", "the claim of the paper, and the results of the runs"), rows)


def _report_statements(decision: Decision) -> list[Html]:
    missing = dict.fromkeys(name for part in decision.parts for name in part.missing)
    shown_parts = [part for part in decision.parts if part.found is not None and _matters_in_report(part)]
    said = [_report_statement(part) for part in shown_parts]
    if steps := sum(not _matters_in_report(part) for part in decision.parts):
        held = f" none of the {steps} steps between the two ends goes back by more than the tolerance"
        said.append(join_html(html_marked("holds", MARKS["holds"]), held))
    if missing:
        said.append(join_html(f"missing runs: {'; '.join(missing)}"))
    return said


def _report_statement(part: JudgedStatement) -> Html:
    assert part.found is not None
    means = " and ".join(mean.text for _, mean, _ in part.terms)
    difference = f", difference {part.found.text}" if len(part.terms) > 1 else ""
    improved = f", probability of improvement {part.improvement.value:.2f}" if part.improvement else ""
    short = f". Shorter than planned: {'; '.join(part.shortfalls)}" if part.shortfalls else ""
    found = f" {part.statement.says}: {means}{difference}{improved}{short}"
    if part.precision or part.power:
        found += f".{part.precision}{part.power}"
    return join_html(html_marked(part.verdict, MARKS[part.verdict]), found)


def _report_figures(experiment: Experiment, store: Store) -> Html:
    parts = []
    for drawing in experiment.drawings:
        path = store.folder / "figures" / f"{drawing.name}.png"
        if path.is_file():
            found = [(run, store.find(run)) for run in drawing.runs]
            short = [f"{run.name} had {stored.shortfall}" for run, stored in found if stored and stored.shortfall]
            parts.append(html_picture(path, f"{drawing.caption} {'; '.join(short)}".strip()))
    return join_html(*parts)


def report_entropy_tables(stored: Sequence[Stored]) -> Html:
    """Return a table for every class: the entropies of its methods, of Random, of specialists, and the ceiling."""
    explored = [one for one in stored if "entropy" in one.summary and isinstance(one.config, PretrainConfig)]
    parts = []
    for class_name, members, units in dict.fromkeys(map(_reported_class_and_units, explored)):
        runs = [one for one in explored if _reported_class_and_units(one) == (class_name, members, units)]
        alone = {_reported_member_alone(one): one for one in runs if _reported_member_alone(one)}
        shared = [one for one in runs if not _reported_member_alone(one)]
        parts += [html_heading(name_as_text(class_name, WIDTH)), _report_entropy_table(shared, alone)]
        if units:
            parts.append(
                html_paragraph(f"Particles are in units of {', '.join(f'{unit:.3g}' for unit in units)}.", soft=True)
            )
        if any(_reported_class_and_units(one)[:2] == (class_name, members) for one in explored if one not in runs):
            parts.append(html_paragraph(OTHER_UNITS, soft=True))
    note = html_paragraph(
        "Each cell shows the mean over seeds [95 % interval] | the inter-quartile mean. The interval of a single seed "
        "is over its mini-batches. Two seeds have no interval, and both of their numbers are shown in parentheses.",
        soft=True,
    )
    return join_html(note, *parts) if parts else Html()


def _reported_class_and_units(one: Stored) -> tuple[str, tuple[str, ...], tuple[float, ...] | None]:
    """Return the class of a run, its members, and the units of its entropies, which can be compared only within all."""
    units = one.summary.get("units")
    return one.summary["class"], tuple(one.summary["members"]), None if units is None else tuple(units)


def _report_entropy_table(shared: Sequence[Stored], alone: dict[str | None, Stored]) -> Html:
    first = [*shared, *alone.values()][0]
    members: list[str] = first.summary["members"]
    ceilings = [first.summary["ceiling"][member] for member in members]
    columns = [
        ("", *(name_as_text(str(member), WIDTH) for member in members), "mean under p_M"),
        *(
            (
                reported_label_of_run(one),
                *(_report_table_cell(one, member) for member in members),
                _report_table_cell(one),
            )
            for one in shared
        ),
        (
            "trained on it alone",
            *(_report_table_cell(alone[member], member) if member in alone else "" for member in members),
            "",
        ),
        ("ceiling", *("" if ceiling is None else text_of_statistic(ceiling) for ceiling in ceilings), ""),
    ]
    # A page has more room downwards: the longer side of the table becomes its rows.
    lines = columns if len(columns) > len(members) + 2 else list(zip(*columns, strict=True))
    return html_table(lines[0], lines[1:], range(1, len(lines[0])))


def _report_table_cell(one: Stored, member: str | None = None) -> str:
    """Return the entropy of a run in a member, or under p_M if no member is named."""
    values = one.summary["mean"] if member is None else one.summary["entropy"][member]
    if not values:
        return ""  # a run that has not ended, and has not met the member yet
    sample = Sample.of_seeds(values)
    if sample.seed_count == 1:
        return one.evaluation.estimate(member).text if one.evaluated else text_of_statistic(float(sample.values[0]))
    middle = estimate_statistic(sample, weighted_interquartile_mean)
    return f"{estimate_statistic(sample).text} | {text_of_statistic(middle.value)}"


def _reported_member_alone(one: Stored) -> str | None:
    """Return the member that a specialist was trained on; None if the run is not a specialist."""
    alone = member_planned_alone(one.summary["probabilities"])
    return None if alone is None else one.summary["members"][alone]


def reported_label_of_run(one: Stored) -> str:
    """Return the name of a run's method in tables."""
    if one.description["command"] == "untrained":
        return "Random"
    if one.description["command"] == "finetune":
        return one.summary["label"]
    config = one.config
    label = "" if isinstance(config, FinetuneConfig) else config.label
    if isinstance(config, PretrainConfig) and config.update == "on-policy":
        label += ", on-policy" + ("" if config.baseline else " without b")
    return f"{label}, {one.shortfall}" if one.shortfall else label


def report_returns_table(stored: Sequence[Stored]) -> Html:
    rows = []
    tuned = [one for one in stored if one.description["command"] == "finetune"]
    for one in sorted(tuned, key=lambda one: (one.summary["class"], one.summary["member"], one.summary["label"])):
        first, last = (claimed_returns_at(one, number) for number in (0, -1))
        iqm = estimate_statistic(last, weighted_interquartile_mean)
        amount = f"{last.task_count} × {len(last.values) // last.task_count}"
        where = ", ".join(name_as_text(str(one.summary[part]), WIDTH) for part in ("class", "member"))
        cells = (
            estimate_statistic(first).text,
            estimate_statistic(last).text,
            iqm.text,
        )
        rows.append(
            (where, name_as_text(str(one.summary["label"]), WIDTH), amount, str(one.summary["iterations"]), *cells)
        )
    header = ("member", "from", "tasks × seeds", "iterations", "first return", "final return", "inter-quartile mean")
    return html_table(header, rows, range(2, 7)) if rows else Html()


def report_replays(stored: Sequence[Stored]) -> Html:
    """Return replays of the trajectories of every method, for classes of gridworlds."""
    parts: list[Html] = []
    moving = [one for one in stored if one.evaluated]
    for class_name in dict.fromkeys(str(one.description["class"]) for one in moving):
        if not _report_can_replay(class_name):
            continue
        runs = [one for one in moving if one.description["class"] == class_name and not _reported_member_alone(one)]
        if runs:
            parts += [html_heading(class_name), html_replay(_report_replay_data(class_name, runs))]
    return join_html(*parts)


def _report_can_replay(class_name: str) -> bool:
    try:
        return class_name in registered_class_names() and isinstance(make(class_name)[0], Gridworld)
    except InputError:  # a library that the class needs is not installed
        return False


def _report_replay_data(class_name: str, runs: Sequence[Stored]) -> dict[str, Any]:
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
    labels = [reported_label_of_run(one) for one in runs]
    return {"members": members, "methods": labels, "panels": panels, "steps": steps}


def report_runs_table(stored: Sequence[Stored]) -> Html:
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
        title = html_details(name_as_text(one.name), settings)
        rows.append((title, description["command"], seeds, shown_commit, device, taken))
    return html_table(("run and settings", "command", "seeds", "commit", "device", "seconds"), rows, (2, 5))


def report_runs(folders: Sequence[Path], path: Path) -> None:
    """Write a page about runs of any kind: their numbers, figures, replays and settings."""
    stored = read_stored_runs(folders)
    figures: list[Html] = []
    for one in stored:
        if one.so_far is not None and one.description["command"] == "pretrain":
            lines = thinned_metrics(one.folder / "metrics.jsonl", "epoch", CURVE_FIELDS)
            draw_learning_curves(lines, one.summary["members"], None, one.folder / "figures")
        if pictures := sorted((one.folder / "figures").glob("*.png")):
            heading = html_heading(name_as_text(one.name))
            figures += [heading, *(html_picture(path, name_as_text(path.stem)) for path in pictures)]
    sections = [
        ("members", "Entropy in each member", report_entropy_tables(stored)),
        ("returns", "Returns after fine-tuning", report_returns_table(stored)),
        ("figures", "Figures", join_html(*figures)),
        ("replays", "Replays", report_replays(stored)),
        ("runs", "Runs", report_runs_table(stored)),
    ]
    write_atomically(path, html_page("αMEPOL: runs", sections, ""))
