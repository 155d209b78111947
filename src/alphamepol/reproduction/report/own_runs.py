"""The page about runs of any kind: what they explored, beside Random, and what they learned."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from alphamepol.figures.curves import (
    CURVE_FIELDS,
    draw_adaptation_curves,
    draw_discriminability_curve,
    draw_learning_curves,
)
from alphamepol.figures.histogram import draw_entropy_histogram
from alphamepol.figures.returns import draw_returns
from alphamepol.figures.style import svg_for_page
from alphamepol.files.atomic import write_atomically
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.files.reading import ODD
from alphamepol.pages.html import (
    Html,
    html_code,
    html_figure,
    html_heading,
    html_page,
    html_paragraph,
    html_picture,
    html_side_by_side,
    join_html,
)
from alphamepol.pages.places import PlacedMethod
from alphamepol.reproduction.report.random_beside import RandomBeside, measure_random_beside
from alphamepol.reproduction.report.run_places import report_member_of_class, report_places
from alphamepol.reproduction.report.run_tables import (
    CELLS,
    distinct_reported_labels,
    report_comparable_runs,
    report_entropy_table,
    report_returns_table,
    report_runs_table,
)
from alphamepol.reproduction.store import Stored, read_stored_runs
from alphamepol.runs.metrics import thinned_metrics

DRAWN = ("learning-curves", "heat-maps", "trails", "entropy-histogram", "returns", "adaptation", "discriminability")
"""The pictures in a run's folder that the page draws anew, so that they fit its style."""
CAPTIONS = {
    "diagnostics": "Bounds and distances between members along training.",
    "skill-trails": "A trajectory of every skill in every member, each skill in its own colour.",
}
"""The captions of other pictures in a run's folder."""


def report_runs(folders: Sequence[Path], path: Path) -> None:
    """Write a page about runs of any kind: where their policies go, their numbers, and their settings."""
    stored = read_stored_runs(folders)
    sections = [
        *_sections_about_exploration(stored),
        ("returns", "Fine-tuning", join_html(*_return_figures(stored), report_returns_table(stored))),
        ("meta", "Meta-training", join_html(*_meta_figures(stored))),
        ("pictures", "Other pictures of the runs", join_html(*_other_pictures(stored))),
        ("runs", "Runs and their settings", report_runs_table(stored)),
    ]
    introduction = html_paragraph(_runs_in_words(stored))
    write_atomically(path, html_page("αMEPOL: runs", sections, introduction))


def _runs_in_words(stored: Sequence[Stored]) -> str:
    kinds = {
        "pretrain": "learned to explore",
        "untrained": "measured untrained policies",
        "finetune": "learned from rewards",
        "metatrain": "learned to adapt",
        "gradient-variance": "measured gradients",
    }
    commands = [one.description["command"] for one in stored]
    counted = [f"{commands.count(name)} {words}" for name, words in kinds.items() if name in commands]
    classes = dict.fromkeys(name_as_text(str(one.description["class"]), WIDTH) for one in stored)
    number = "One run" if len(stored) == 1 else f"{len(stored)} runs"
    return f"{number} in {', '.join(classes)}: {', '.join(counted)}."


def _sections_about_exploration(stored: Sequence[Stored]) -> list[tuple[str, str, str]]:
    """Return a section for every class, with what its runs explored."""
    sections = []
    for number, group in enumerate(report_comparable_runs(stored)):
        random = measure_random_beside(group)
        labels = distinct_reported_labels(group)
        table = report_entropy_table(group, stored, random.estimates)
        extra = [] if random.evaluation is None else [PlacedMethod("Random", random.evaluation)]
        heat_maps, replays = report_places(group, extra=extra)
        parts = [
            table,
            html_paragraph(f"{CELLS} Entropies are in nats: the higher, the more evenly a policy explores.", soft=True),
            _about_random(random),
            _with_heading("Where the policies go", heat_maps),
            _with_heading("Trajectories of the first seed", replays),
            html_side_by_side(*_learning_figures(group, labels), *_histograms(group, labels, random)),
        ]
        title = f"Exploration of {name_as_text(group[0].summary['class'], WIDTH)}"
        sections.append((f"class-{number}", title, join_html(*parts)))
    return sections


def _about_random(random: RandomBeside) -> Html:
    """Return what Random is on the page, or how it can be compared."""
    if not random.command:
        return html_paragraph(random.sentence, soft=True) if random.sentence else Html()
    return html_paragraph(random.sentence, " ", html_code(random.command), " compares the run with it.", soft=True)


def _with_heading(heading: str, content: Html) -> Html:
    return join_html(html_heading(heading), content) if content else content


def _learning_figures(group: Sequence[Stored], labels: Sequence[str]) -> list[Html]:
    """Return the learning curves of the runs whose metrics were kept."""
    figures = []
    for label, one in zip(labels, group, strict=True):
        metrics = one.folder / "metrics.jsonl"
        if one.description["command"] != "pretrain" or not metrics.is_file():
            continue
        try:
            lines = list(thinned_metrics(metrics, "epoch", CURVE_FIELDS))
        except ODD:  # an edited file; the table still has the run
            continue
        random = one.summary.get("random_objective")
        figure = draw_learning_curves(
            lines, one.summary["members"], random if isinstance(random, float) else None, folder=None
        )
        caption = (
            f"{label}: the entropy of mini-batches in each member along training. Bands go from the lowest to the "
            "highest seed. The dotted line is the objective, the mean of the worst α-fraction; the horizontal line is "
            "the objective of untrained policies."
        )
        figures.append(html_figure(svg_for_page(figure, f"Learning curves of {label}"), caption))
    return figures


def _histograms(group: Sequence[Stored], labels: Sequence[str], random: RandomBeside) -> list[Html]:
    """Return a histogram of the entropies of single trajectories."""
    found = {label: one.evaluation for label, one in zip(labels, group, strict=True) if one.evaluated}
    if random.evaluation is not None:
        found["Random"] = random.evaluation
    figure = draw_entropy_histogram(found, folder=None) if found else None
    if figure is None:
        return []
    caption = (
        "The entropies of single trajectories, drawn from the members with their probabilities. A bar far to the left "
        "of the others stands for trajectories that get nowhere."
    )
    return [html_figure(svg_for_page(figure, "Histogram of the entropies of trajectories"), caption)]


def _return_figures(stored: Sequence[Stored]) -> list[Html]:
    """Return a figure for each member in which runs were fine-tuned on the same tasks."""
    groups: dict[tuple[str, str, str], list[Stored]] = {}
    for one in stored:
        if one.description["command"] == "finetune":
            key = str(one.summary["class"]), str(one.summary["member"]), repr(one.summary["tasks"])
            groups.setdefault(key, []).append(one)
    figures = []
    for (class_name, member, _), group in groups.items():
        curves = _curves_of_returns(group)
        figure = draw_returns(curves, group[0].summary["tasks"], report_member_of_class(class_name, member), None)
        shown = name_as_text(member, WIDTH)
        caption = (
            f"The return of reinforcement learning in {shown} from each start: means over "
            f"{len(group[0].summary['tasks'])} tasks with 95 % bands over tasks."
        )
        figures.append(html_figure(svg_for_page(figure, f"Returns in {shown}"), caption))
    return figures


def _curves_of_returns(group: Sequence[Stored]) -> Mapping[str, np.ndarray]:
    """Return the returns of each run of a group, by distinct labels, at the iterations that all runs have."""
    labels = distinct_reported_labels(group)
    curves = [np.array(one.summary["returns"], float) for one in group]
    shortest = min(curve.shape[1] for curve in curves)
    return {label: curve[:, :shortest] for label, curve in zip(labels, curves, strict=True)}


def _meta_figures(stored: Sequence[Stored]) -> list[Html]:
    figures = []
    for one in stored:
        if one.description["command"] != "metatrain" or one.so_far is not None:
            continue
        told, label = one.summary, name_as_text(one.name, WIDTH)
        if "discriminability" in told:
            figure = draw_discriminability_curve(np.array(told["discriminability"], float), told["skills"], None)
            caption = f"{label}: how well a discriminator tells the skills apart, along training."
        else:
            before, after = (np.array(told[part], float) for part in ("return_before", "return_after"))
            figure = draw_adaptation_curves(before, after, None)
            caption = f"{label}: the return before and after one step of adaptation, along meta-training."
        figures.append(html_figure(svg_for_page(figure, caption), caption))
    return [html_side_by_side(*figures)] if figures else []


def _other_pictures(stored: Sequence[Stored]) -> list[Html]:
    """Return the pictures in the folders of runs that the page does not draw itself."""
    parts = []
    for one in stored:
        for picture in sorted((one.folder / "figures").glob("*.png")):
            if picture.stem not in DRAWN and not picture.stem.startswith("heat-maps-seed-"):
                name = name_as_text(picture.stem)
                parts.append(html_picture(picture, f"{name_as_text(one.name)}: {CAPTIONS.get(picture.stem, name)}"))
    return parts
