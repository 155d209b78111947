"""The page of a reproduction: a headline, the paper's story, the claims, all figures, and the runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.figures.style import DrawnFigure, svg_for_page
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.pages.html import (
    Html,
    html_emphasised,
    html_figure,
    html_fold,
    html_page,
    html_paragraph,
    html_side_by_side,
    html_strong,
    join_html,
)
from alphamepol.reproduction.claims import Decision
from alphamepol.reproduction.drawings import Drawing
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.report.claim_lists import (
    report_claims_as_markdown,
    report_claims_list,
    report_counted_verdicts,
)
from alphamepol.reproduction.report.domains import domain_rows, html_table_of_domains
from alphamepol.reproduction.report.run_places import report_places
from alphamepol.reproduction.report.run_tables import (
    report_entropy_tables,
    report_returns_table,
    report_runs_table,
)
from alphamepol.reproduction.report.story import STORY, report_story
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store, Stored

HEADLINE = "slope-heat-maps"
"""The drawing that the page opens with."""


def write_report(
    store: Store,
    experiments: Sequence[Experiment],
    decisions: Sequence[Decision],
    drawn: Mapping[str, DrawnFigure | None],
    path: Path,
    scale: Scale,
) -> None:
    """Write claims.json, claims.md and the page.

    `drawn` has the figures by the names of their drawings; None for the heat-maps, which the page draws itself.
    """
    folder = store.folder
    write_atomically(folder / "claims.json", to_json([decision.to_dict() for decision in decisions]))
    write_atomically(folder / "claims.md", report_claims_as_markdown(decisions))
    planned = dict.fromkeys(run for experiment in experiments for run in experiment.runs)
    used = {one.folder: one for run in planned if (one := store.find(run)) is not None}
    # The page lists every run of the folder. `used` has the shortfalls of runs that replace longer ones.
    stored = sorted((used.get(one.folder, one) for one in store.all()), key=lambda one: str(one.folder))
    figures = {
        drawing.name: _report_drawing(drawing, drawn[drawing.name], store, used)
        for experiment in experiments
        for drawing in experiment.drawings
        if drawing.name in drawn
    }
    sections = [
        ("start", "In one picture", _report_headline(figures.get(HEADLINE, Html()))),
        ("domains", "All domains in one table", html_table_of_domains(domain_rows(store, scale))),
        ("story", "The paper's story in five figures", report_story(figures, decisions)),
        ("claims", "Claims", _report_claims(decisions, len(stored))),
        ("figures", "All figures", _report_experiments(experiments, figures)),
        ("runs", "Runs", _report_runs(stored)),
    ]
    introduction = html_paragraph(
        "An agent that may be put into one of several environments should explore all of them, also the rare and "
        "adverse ones, before it is told what to do. This page shows the experiments of the paper ",
        html_emphasised("Unsupervised Reinforcement Learning in Multiple Environments"),
        ", done again. ",
        html_strong("MEPOL"),
        " maximises the average exploration over all that it meets, and ",
        html_strong("αMEPOL"),
        " the average over the worst cases only: the share α of all that it meets. ",
        "" if scale.name == "paper" else "These runs are miniatures, so their numbers are not those of the paper.",
    )
    write_atomically(path, html_page("One policy that explores every environment", sections, introduction))


def _report_headline(places: Html) -> Html:
    if not places:
        return places
    said = html_paragraph(
        "Two gridworlds of four rooms. The agent starts in the room at the top left. In GWS (South slope) a slope "
        "pushes it south, out of this room. In GWN (North slope), which it meets one time in five, a slope pushes it "
        "back to the north. One policy has to explore both, and does not know in which it is. With α = 1 it looks at "
        "the average, and gives up GWN. With a smaller α it looks at the worst cases, and explores both about "
        "equally; the price is paid in GWS. ",
        html_strong("Move the slider; point at a map for values; press Play below."),
    )
    more = html_paragraph(
        "The number above a map is the entropy of the visited places: the higher, the more evenly they are visited. "
        "It is that of a density, so that it can be negative. A uniform visit of all free places has 1.06. Random is "
        "an untrained policy, which drifts somewhere by chance. MEPOL with memory goes beyond the paper: it also sees "
        "what its last actions did, so that it can tell the two worlds apart.",
        soft=True,
    )
    return join_html(said, more, places)


def _report_drawing(drawing: Drawing, figure: DrawnFigure | None, store: Store, used: Mapping[Path, Stored]) -> Html:
    found = [(run, stored) for run in drawing.runs if (stored := store.find(run)) is not None]
    short = [f"{run.name} had {stored.shortfall}" for run, stored in found if stored.shortfall]
    caption = f"{drawing.caption} {'; '.join(short)}".strip()
    if not drawing.places:
        return Html() if figure is None else html_figure(svg_for_page(figure, drawing.caption), caption)
    class_name = drawing.runs[0].class_name
    beside = [one for one in used.values() if one.description["class"] == class_name and _is_off_policy(one)]
    ordered = list({one.folder: one for one in [*(stored for _, stored in found), *beside]}.values())
    heat_maps, replays = report_places(ordered, store.folder / "maps")
    if not heat_maps:
        return replays
    moving = html_paragraph(
        "Three trajectories of each method, in three colours, from the first seed. A ring is the start, a dot the "
        "place at the chosen step.",
        soft=True,
    )
    return join_html(html_paragraph(caption, soft=True), heat_maps, join_html(moving, replays) if replays else Html())


def _is_off_policy(one: Stored) -> bool:
    return one.evaluated and isinstance(one.config, PretrainConfig) and one.config.update == "off-policy"


def _report_claims(decisions: Sequence[Decision], runs: int) -> Html:
    said = html_paragraph(
        f"{len(decisions)} claims of the paper are decided from {runs} runs: {report_counted_verdicts(decisions)}. "
        "Open a claim to see its statements and their numbers. A statement holds if it is true of the whole 95 % "
        "interval, fails if the opposite is, and is undecided otherwise. E^α is the mean of the worst α-fraction of "
        "entropies, and p_M is the probability with which each environment is met."
    )
    return join_html(said, report_claims_list(decisions))


def _report_experiments(experiments: Sequence[Experiment], figures: Mapping[str, Html]) -> Html:
    """Return a fold for each experiment with those of its figures that are not above."""
    above = {HEADLINE, *(part.figure for part in STORY)}
    folds = []
    for experiment in experiments:
        own = [drawing for drawing in experiment.drawings if figures.get(drawing.name) and drawing.name not in above]
        wide = [figures[drawing.name] for drawing in own if drawing.places]
        beside = [figures[drawing.name] for drawing in own if not drawing.places]
        if own:
            folds.append(html_fold(experiment.title, join_html(html_side_by_side(*beside), *wide)))
    said = html_paragraph("The figures that are not above, by experiment. Open one to see it.")
    return join_html(said, *folds) if folds else Html()


def _report_runs(stored: Sequence[Stored]) -> Html:
    parts = (
        ("Entropy in each member", report_entropy_tables(stored)),
        ("Returns after fine-tuning", report_returns_table(stored)),
        (f"{len(stored)} runs and their settings", report_runs_table(stored)),
    )
    return join_html(*(html_fold(heading, content) for heading, content in parts if content))
