"""The page of a sweep: the front of what α and memory buy, and the numbers of all runs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic
from alphamepol.figures.fronts.drawing import draw_fronts
from alphamepol.figures.tables import MOST
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.pages.html import (
    Html,
    html_bullets,
    html_code,
    html_page,
    html_paragraph,
    html_picture,
    html_table,
    join_html,
)
from alphamepol.reproduction.planned import Pretraining
from alphamepol.reproduction.report.run_tables import report_entropy_tables, report_runs_table
from alphamepol.reproduction.store import Store, Stored
from alphamepol.sweeping.front import TradeOff, trade_off_of_runs

MEMBERS, RISK = "front-members", "front-risk"
"""The names of the figures."""
MEMBERS_CAPTION = (
    "State entropy of the final policies in each member against the others (with several others, against their mean): "
    "means with 95 % intervals. The number at a point is its α; a line joins the runs of one kind of memory. A filled "
    "point is on the front: no other point is at least as good in both directions, and better in one. "
)
BEATEN = "Each other run is beaten by one that explores every member at least as well, and one member better. "
RISK_CAPTION = (
    "The mean entropy under p_M against the CVaR, the mean of the worst {alpha:g} of mini-batches under p_M. All runs "
    "are compared at this α, the smallest of the sweep below 1."
)


def write_sweep_page(class_name: str, runs: Sequence[Pretraining], store: Store, folder: Path | None = None) -> Path:
    """Draw the fronts of the runs that are done, and write sweep.json and sweep.html. Return the path of the page.

    The files are written into the folder of the store if no other folder is given.
    """
    folder = folder or store.folder
    done = {run: stored for run in runs if store.is_done(run) and (stored := store.find(run))}
    alone = {run.member_alone: stored for run, stored in done.items() if run.member_alone is not None}
    shared = {run: stored for run, stored in done.items() if run.member_alone is None and stored.evaluated}
    found = trade_off_of_runs(
        {run: stored.evaluation for run, stored in shared.items()},
        {member: _entropy_of_specialist(stored, member) for member, stored in alone.items()},
    )
    missing = [store.place_of(run).name for run in runs if run not in done]
    if found is not None:
        draw_fronts(found.member_panels(), folder / "figures", MEMBERS)
        draw_fronts([found.risk_panel()], folder / "figures", RISK)
        write_atomically(folder / "sweep.json", to_json(_sweep_as_json(class_name, found, missing)))
    stored = list(done.values())
    sections = [
        ("front", "What α and memory buy", Html() if found is None else _front_of_sweep(found, folder)),
        ("numbers", "Mean and worst cases", Html() if found is None else _table_of_sweep(found)),
        ("members", "Entropy in each member", report_entropy_tables(stored)),
        ("runs", "Settings", report_runs_table(stored)),
    ]
    shown = name_as_text(class_name, WIDTH)
    path = folder / "sweep.html"
    write_atomically(path, html_page(f"αMEPOL: a sweep on {shown}", sections, _introduction_of_sweep(stored, missing)))
    return path


def _entropy_of_specialist(stored: Stored, member: int) -> Estimate:
    """Return the entropy of a specialist in its own member. Only the evaluation has an interval for a single seed."""
    name = stored.summary["members"][member]
    if stored.evaluated:
        return stored.evaluation.estimate(name)
    return estimate_statistic(Sample.of_seeds(stored.summary["entropy"][name]))


def _introduction_of_sweep(stored: Sequence[Stored], missing: Sequence[str]) -> Html:
    devices = Counter(str(one.summary.get("device", "")) for one in stored)
    machines = ", ".join(f"{count} on {name_as_text(name, WIDTH)}" for name, count in devices.items())
    seconds = sum(one.summary.get("seconds", {}).get("total", 0.0) for one in stored)
    said = f"{len(stored)} runs are done ({machines}). Together they took {seconds / 60:.0f} minutes of these devices."
    parts = [html_paragraph(said)]
    if missing:
        parts += [html_paragraph("These runs are not done:"), html_bullets(html_code(name) for name in missing)]
    return join_html(*parts)


def _front_of_sweep(found: TradeOff, folder: Path) -> Html:
    marks = [
        *(["A dashed line is the ceiling."] if any(panel.y_levels for panel in found.member_panels()) else []),
        *(["A dotted line is the policy that was trained in the member alone."] if found.specialists else []),
        *([f"The first {MOST} members are shown."] if len(found.members) > MOST else []),
    ]
    best: dict[str, list[str]] = {}
    for run, on_front in zip(found.runs, found.on_front, strict=True):
        if on_front:
            best.setdefault(run.series, []).append(run.label)
    said = "; ".join(f"α = {', '.join(labels)} {series}" for series, labels in best.items())
    beaten = "" if all(found.on_front) else BEATEN
    return join_html(
        html_paragraph(
            f"On the front over all members: {said}. {beaten}The front is that of the means; the intervals "
            "say how sure it is."
        ),
        html_picture(folder / "figures" / f"{MEMBERS}.png", MEMBERS_CAPTION + " ".join(marks)),
        html_picture(folder / "figures" / f"{RISK}.png", RISK_CAPTION.format(alpha=found.alpha)),
    )


def _table_of_sweep(found: TradeOff) -> Html:
    header = ("memory", "α", "mean", f"mean of the worst {found.alpha:g}", "on the front")
    rows = [
        (run.planned.config.memory, run.label, run.mean.text, run.cvar.text, "yes" if on_front else "")
        for run, on_front in zip(found.runs, found.on_front, strict=True)
    ]
    over = found.runs[0].evaluation.intervals_over
    return join_html(
        html_table(header, rows, range(1, 4)), html_paragraph(f"Brackets are 95 % intervals over {over}.", soft=True)
    )


def _sweep_as_json(class_name: str, found: TradeOff, missing: Sequence[str]) -> dict[str, object]:
    return {
        "class": class_name,
        "members": list(found.members),
        "cvar_alpha": found.alpha,
        "runs": [
            {
                "name": run.planned.name,
                "alpha": run.planned.config.alpha,
                "memory": run.planned.config.memory,
                "entropy": {name: one.to_dict() for name, one in zip(found.members, run.members, strict=True)},
                "mean": run.mean.to_dict(),
                "cvar": run.cvar.to_dict(),
                "on_front": on_front,
            }
            for run, on_front in zip(found.runs, found.on_front, strict=True)
        ],
        "specialists": {found.members[i]: one.to_dict() for i, one in sorted(found.specialists.items())},
        "missing": list(missing),
    }
