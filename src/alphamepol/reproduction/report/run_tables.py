"""The tables of runs on the page: entropies, returns, and the runs with their settings."""

import json
from collections.abc import Mapping, Sequence

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic, text_of_statistic
from alphamepol.figures.tables import held_out_sentence
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.measuring.held_out import HeldOutGap
from alphamepol.pages.html import Html, html_code, html_details, html_heading, html_paragraph, html_table, join_html
from alphamepol.reproduction.claims import claimed_returns_at
from alphamepol.reproduction.planned import member_planned_alone
from alphamepol.reproduction.store import Stored

CELLS = (
    "A cell shows the mean over seeds [95 % interval]. The interval of a single seed is over its mini-batches. Two "
    "seeds have no interval; their numbers are in parentheses."
)
OTHER_UNITS = join_html(
    "Other runs of this class were measured in other units. Their entropies cannot be compared with these; ",
    html_code("alphamepol evaluate RUN RUN"),
    " measures all of them in the units of the class.",
)


def report_entropy_tables(stored: Sequence[Stored]) -> Html:
    """Return a table for every class: the entropies of its methods, of Random, of specialists, and the ceiling."""
    parts = [
        join_html(html_heading(name_as_text(group[0].summary["class"], WIDTH)), report_entropy_table(group, stored))
        for group in report_comparable_runs(stored)
    ]
    return join_html(html_paragraph(CELLS, soft=True), *parts) if parts else Html()


def report_comparable_runs(stored: Sequence[Stored]) -> list[list[Stored]]:
    """Return the runs that explored, grouped by class, members and units: only these entropies can be compared."""
    groups: dict[tuple, list[Stored]] = {}
    for one in stored:
        if "entropy" in one.summary and isinstance(one.config, PretrainConfig):
            groups.setdefault(_reported_class_and_units(one), []).append(one)
    return list(groups.values())


def report_entropy_table(
    group: Sequence[Stored], stored: Sequence[Stored], beside: Mapping[str, Mapping[str | None, Estimate]] | None = None
) -> Html:
    """Return the table of runs that can be compared, with a remark if `stored` has others of the class in other units.

    `beside` has further methods: their entropy in each member, and under None the mean under p_M.
    """
    alone = {reported_member_alone(one): one for one in group if reported_member_alone(one)}
    shared = [one for one in group if not reported_member_alone(one)]
    class_name, members, units = _reported_class_and_units(group[0])
    parts = [_report_entropy_table(shared, alone, beside or {})]
    if units:
        parts.append(
            html_paragraph(f"Particles are in units of {', '.join(f'{unit:.3g}' for unit in units)}.", soft=True)
        )
    for label, one in zip(distinct_reported_labels(shared), shared, strict=True):
        if (gap := HeldOutGap.of_summary(one.summary)) is not None:
            parts.append(html_paragraph(f"{label}: {held_out_sentence(gap)}.", soft=True))
    others = (one for one in stored if one not in group and "entropy" in one.summary)
    if any(_reported_class_and_units(one)[:2] == (class_name, members) for one in others):
        parts.append(html_paragraph(OTHER_UNITS, soft=True))
    return join_html(*parts)


def _reported_class_and_units(one: Stored) -> tuple[str, tuple[str, ...], tuple[float, ...] | None]:
    """Return the class of a run, its members, and the units of its entropies, which can be compared only within all."""
    units = one.summary.get("units")
    return one.summary["class"], tuple(one.summary["members"]), None if units is None else tuple(units)


def _report_entropy_table(
    shared: Sequence[Stored],
    alone: Mapping[str | None, Stored],
    beside: Mapping[str, Mapping[str | None, Estimate]],
) -> Html:
    first = [*shared, *alone.values()][0]
    members: list[str] = first.summary["members"]
    ceilings = [first.summary["ceiling"][member] for member in members]
    columns = [
        ("", *(name_as_text(str(member), WIDTH) for member in members), "mean under p_M"),
        *(
            (label, *(_report_table_cell(one, member) for member in members), _report_table_cell(one))
            for label, one in zip(distinct_reported_labels(shared), shared, strict=True)
        ),
        *((label, *(found[member].text for member in (*members, None))) for label, found in beside.items()),
    ]
    if alone:
        found = (_report_table_cell(alone[member], member) if member in alone else "" for member in members)
        columns.append(("trained on it alone", *found, ""))
    if any(ceiling is not None for ceiling in ceilings):
        columns.append(("ceiling", *("" if one is None else text_of_statistic(one) for one in ceilings), ""))
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
    return estimate_statistic(sample).text


def reported_member_alone(one: Stored) -> str | None:
    """Return the member that a specialist was trained on; None if the run is not a specialist."""
    alone = member_planned_alone(one.summary["probabilities"])
    return None if alone is None else one.summary["members"][alone]


def distinct_reported_labels(stored: Sequence[Stored]) -> list[str]:
    """Return the names of the methods of runs.

    Runs of one method are told apart by the start of their policies, else by the names of their folders.
    """
    labels = [reported_label_of_run(one) for one in stored]
    labels = [
        f"{label}, natural start" if labels.count(label) > 1 and _began_standing_still(one) else label
        for label, one in zip(labels, stored, strict=True)
    ]
    named = [f"{label}, {name_as_text(one.name, WIDTH)}" for label, one in zip(labels, stored, strict=True)]
    return [more if labels.count(label) > 1 else label for label, more in zip(labels, named, strict=True)]


def _began_standing_still(one: Stored) -> bool:
    """Tell whether the policies were regressed to standing still before the first epoch."""
    start = one.config.initial_mean if isinstance(one.config, PretrainConfig) else "none"
    return start != "none" and not any(start)


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
    """Return a table of the returns of fine-tuning at its first and at its last iteration."""
    rows = []
    tuned = [one for one in stored if one.description["command"] == "finetune"]
    for one in sorted(tuned, key=lambda one: (one.summary["class"], one.summary["member"], one.summary["label"])):
        first, last = (claimed_returns_at(one, number) for number in (0, -1))
        amount = f"{last.task_count} × {len(last.values) // last.task_count}"
        where = ", ".join(name_as_text(str(one.summary[part]), WIDTH) for part in ("class", "member"))
        cells = estimate_statistic(first).text, estimate_statistic(last).text
        rows.append(
            (where, name_as_text(str(one.summary["label"]), WIDTH), amount, str(one.summary["iterations"]), *cells)
        )
    header = ("member", "from", "tasks × seeds", "iterations", "first return", "final return")
    return html_table(header, rows, range(2, 6)) if rows else Html()


def report_runs_table(stored: Sequence[Stored]) -> Html:
    """Return a table of runs; the settings of each unfold below its name."""
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
