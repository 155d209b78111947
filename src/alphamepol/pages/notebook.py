"""The views of objects in a notebook, as HTML that brings its own style."""

import base64
import math
from collections.abc import Iterable, Sequence
from typing import Any

from alphamepol.environments.host import AnyClass
from alphamepol.figures.tables import MOST
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.measuring.exploration import Evaluation
from alphamepol.pages.html import (
    Html,
    escape_html,
    html_code,
    html_code_block,
    html_numbered_list,
    html_paragraph,
    html_strong,
    html_table,
    join_html,
)
from alphamepol.runs.description import final_numbers_of_run
from alphamepol.runs.progress import counted, duration

STYLE = """
.alphamepol { color: inherit; font-size: 13px; line-height: 1.45; max-width: 60rem; }
.alphamepol p { margin: .3em 0; } .alphamepol p.soft { opacity: .7; }
.alphamepol table { border-collapse: collapse; margin: .4em 0; font-variant-numeric: tabular-nums; }
.alphamepol table tr, .alphamepol table tbody tr:nth-child(n) { background: none; }
.alphamepol table tr th, .alphamepol table tr td { text-align: left; padding: .2em 1.4em .2em 0; color: inherit;
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, .35); }
.alphamepol table tr .number { text-align: right; }
.alphamepol img { max-width: 100%; }
.alphamepol pre { white-space: pre-wrap; }
"""
"""The style of a view. It takes its colours from the notebook, light or dark."""


def _notebook_view(*parts: str) -> Html:
    return Html(f'<div class="alphamepol"><style>{STYLE}</style>{join_html(*parts)}</div>')


def _named_in_notebook(kind: str, *names: str) -> Html:
    """Return the first line of a view: the type of the object, and its names, which come from `name_as_text`."""
    return html_paragraph(html_strong(kind), f" {', '.join(names)}")


def _rest_in_notebook(members: Sequence[str]) -> Html:
    more = len(members) - MOST
    return html_paragraph(f"and {more} more members", soft=True) if more > 0 else Html("")


def html_of_class(environment_class: AnyClass) -> Html:
    """Return a class: its members with their probabilities and ceilings, and its spaces."""
    rows = []
    for number, name in enumerate(environment_class.names[:MOST]):
        ceiling = environment_class[number].entropy_ceiling
        shown = f"{ceiling:.2f}" if math.isfinite(ceiling) else "unknown"
        rows.append((name_as_text(name, WIDTH), f"{environment_class.probabilities[number]:g}", shown))
    first = environment_class[0]
    return _notebook_view(
        _named_in_notebook(type(environment_class).__name__, name_as_text(environment_class.name, WIDTH)),
        html_table(("member", "probability", "entropy ceiling"), rows, numbers=(1, 2)),
        _rest_in_notebook(environment_class.names),
        html_paragraph(f"observations {first.observation_space}, actions {first.action_space}"[: 6 * WIDTH], soft=True),
    )


def html_of_evaluation(evaluations: dict[str, Evaluation]) -> Html:
    """Return evaluations by the labels of their policies: the entropy in each member, with its interval."""
    labels, some = list(evaluations), next(iter(evaluations.values()))
    rows = [
        (name_as_text(name, WIDTH), *(one.estimate(name).text for one in evaluations.values()))
        for name in some.members[:MOST]
    ]
    rows.append(("mean under p_M", *(one.estimate().text for one in evaluations.values())))
    rows.append((f"CVaR, α = {some.alpha:g}", *(one.estimate_cvar().text for one in evaluations.values())))
    header = ["entropy in", *(name_as_text(label, WIDTH) for label in labels)]
    return _notebook_view(
        _named_in_notebook("Evaluation", name_as_text(some.class_name, WIDTH)),
        html_table(header, rows, numbers=range(1, len(header))),
        _rest_in_notebook(some.members),
        html_paragraph(f"Brackets are 95 % intervals over {some.intervals_over}.", soft=True),
    )


def html_of_run(run: Any) -> Html:
    """Return a finished run: its class, its final numbers, and its folder."""
    summary = run.summary
    place = [name_as_text(str(summary[part]), WIDTH) for part in ("class", "member") if part in summary]
    seconds = summary.get("seconds")
    parts = seconds.values() if isinstance(seconds, dict) else ()
    took = [duration(total)] if (total := sum(part for part in parts if isinstance(part, float | int))) else []
    rows = [(name_as_text(name, WIDTH), number) for name, number in final_numbers_of_run(summary)]
    folder = html_code(str(run.folder))
    label = summary.get("label")
    names = [name_as_text(label, WIDTH), *place] if isinstance(label, str) else place
    return _notebook_view(
        _named_in_notebook(type(run).__name__, *names),
        html_table(("final", "mean"), rows, numbers=(1,)),
        html_paragraph(", ".join([counted(len(summary["seeds"]), "seed"), *took]), ", in ", folder, soft=True),
    )


def html_of_video(video: Any, gif: bytes) -> Html:
    """Return a video as a moving picture, with a line for each episode."""
    data, words = base64.b64encode(gif).decode(), ", ".join(_words_of_episodes(video.episodes))
    return _notebook_view(Html(f'<img alt="{escape_html(words)}" src="data:image/gif;base64,{data}">'))


def _words_of_episodes(episodes: Iterable[Any]) -> Iterable[str]:
    for one in episodes:
        ending = "" if one.returned is None else f", return {one.returned:.2f}"
        yield f"{name_as_text(one.method, WIDTH)} in {name_as_text(one.member, WIDTH)}, {one.steps} steps{ending}"


def html_of_findings(findings: Sequence[Any], train_with: str, folder: str) -> Html:
    """Return the findings of `check`, the serious ones in bold, and the command line to train with."""
    sentences = [html_strong(one.sentence) if one.serious else one.sentence for one in findings]
    return _notebook_view(
        html_paragraph(html_strong("Findings"), ", the most important first"),
        html_numbered_list(sentences),
        html_paragraph("To train with the suggested settings:"),
        html_code_block(train_with),
        html_paragraph("The page and its pictures are in ", html_code(folder), soft=True),
    )
