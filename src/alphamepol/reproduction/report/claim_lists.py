"""The claims of the paper as lists, in Markdown and on the page."""

import re
import textwrap
from collections.abc import Sequence

from alphamepol.estimation.statistics import text_of_statistic
from alphamepol.pages.html import Html, html_bullets, html_code, html_fold, html_marked, html_paragraph, join_html
from alphamepol.reproduction.claims import Decision, JudgedStatement

MARKS = {"holds": "✓", "fails": "✗", "undecided": "?"}
PLURALS = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}
MARKDOWN_WIDTH = 120
"""The longest line of a Markdown file, in characters."""


def report_claims_list(decisions: Sequence[Decision]) -> Html:
    """Return a line for each claim, with its verdict; its statements with their numbers unfold below it."""
    return join_html(*(_report_claim(decision) for decision in decisions))


def report_counted_verdicts(decisions: Sequence[Decision]) -> str:
    """Return how many claims have each verdict, in words."""
    verdicts = [decision.verdict for decision in decisions]
    return ", ".join(f"{verdicts.count(verdict)} {plural}" for verdict, plural in PLURALS.items())


def report_verdict_badge(decision: Decision) -> Html:
    """Return the verdict on a claim with its mark."""
    return html_marked(f"verdict {decision.verdict}", f"{MARKS[decision.verdict]} {decision.verdict}")


def _report_claim(decision: Decision) -> Html:
    inside = [html_paragraph("The paper says: “", decision.claim.quote, "”.")] if decision.claim.quote else []
    inside.append(html_bullets(_report_statements(decision)))
    if decision.earlier is not None:
        inside.append(html_paragraph(_report_earlier_reading(decision.earlier)))
        inside.append(html_bullets(_report_statements(decision.earlier)))
    inside.append(html_paragraph("The name of this claim is ", html_code(decision.claim.id), ".", soft=True))
    summary = join_html(report_verdict_badge(decision), " ", html_marked("says", decision.claim.says))
    return html_fold(summary, join_html(*inside), "claim")


def _report_statements(decision: Decision) -> list[Html]:
    missing = dict.fromkeys(name for part in decision.parts for name in part.missing)
    shown_parts = [part for part in decision.parts if part.found is not None and _matters_in_report(part)]
    said = [_report_statement(part) for part in shown_parts]
    if steps := sum(not _matters_in_report(part) for part in decision.parts):
        held = f" None of the {steps} steps between the two ends goes back by more than the tolerance."
        said.append(join_html(html_marked("holds", MARKS["holds"]), held))
    if missing:
        said.append(join_html(f"These runs are missing: {'; '.join(missing)}."))
    return said


def _report_statement(part: JudgedStatement) -> Html:
    """Return a statement with the numbers that decided it."""
    assert part.found is not None
    sentence = f" {part.statement.says[0].upper()}{part.statement.says[1:]}. "
    means = " and ".join(mean.text for _, mean, _ in part.terms)
    if len(part.terms) == 1:
        numbers = f"The mean is {means}."
    else:
        numbers = f"The means are {means}, and the difference is {part.found.text}."
    # How often one method is ahead is of interest only if the statement says that the method is ahead.
    if part.improvement is not None and part.statement.above is not None and part.statement.above >= 0:
        numbers += f" In {part.improvement.value:.0%} of all pairs of runs, the first is above the second."
    if part.shortfalls:
        numbers += f" Some runs are shorter than planned: {'; '.join(part.shortfalls)}."
    return join_html(html_marked(part.verdict, MARKS[part.verdict]), f"{sentence}{numbers}{part.precision}{part.power}")


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
        f"An earlier version of this project read the claim differently, and changed the reading after the results "
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
