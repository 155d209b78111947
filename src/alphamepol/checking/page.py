"""The page of `alphamepol check`."""

import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from alphamepol.checking.diagnosis_types import Diagnosis, Finding
from alphamepol.checking.member_shares import member_shares_of_tail
from alphamepol.checking.pictures import CAPTIONS
from alphamepol.figures.tables import MOST, plain_table
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.pages.html import (
    html_code_block,
    html_numbered_list,
    html_page,
    html_paragraph,
    html_picture,
    html_strong,
    html_table,
    join_html,
)

HEADER = ("member", "p", "entropy", "ceiling", "coincide", "safe k", "steps", "drawn", "absent", "of tail")


def _check_page_rows(found: Diagnosis) -> list[tuple[str, ...]]:
    means, low, high = found.means
    tail = member_shares_of_tail(found.entropies, found.probabilities, found.config.alpha)
    rows = []
    for i in range(min(MOST, len(found.members))):
        ceiling, alias, lot = found.ceilings[i], found.aliasing[i], found.draws[i]
        rows.append(
            (
                found.member_in_words(i),
                f"{found.probabilities[i]:g}",
                _interval_on_check_page(means[i], low[i], high[i]),
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


def _interval_on_check_page(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]" if math.isfinite(mean) else "−∞"


def check_page_members_table(found: Diagnosis) -> Table:
    """Return the table of members for the terminal, which is narrow. The page shows more columns."""
    title = f"{name_as_text(found.class_name, WIDTH)} under {found.policy_in_words}, k = {found.neighbours}"
    columns = [i for i, column in enumerate(HEADER) if column not in ("steps", "drawn", "absent")]
    header, rows = [HEADER[i] for i in columns], [[row[i] for i in columns] for row in _check_page_rows(found)]
    return plain_table(title, header, rows, left=("member",), unbroken=("entropy",))


def check_page(found: Diagnosis, findings: Sequence[Finding], line: str, figures: Sequence[Path]) -> str:
    """Return the HTML page: the findings, then the numbers and pictures behind them."""
    config = found.config
    said = html_numbered_list(html_strong(one.sentence) if one.serious else one.sentence for one in findings)
    introduction = html_paragraph(
        f"The class has {len(found.members)} members. {found.policy_in_words} collected {found.entropies.shape[1]} "
        f"mini-batches in each. The settings are T = {config.horizon}, N = {config.trajectories}, B = {config.batch}, "
        f"k = {config.neighbours}, α = {config.alpha:g} and learning rate {config.learning_rate:g}."
    )
    pictures = {path.stem: html_picture(path, CAPTIONS[path.stem]) for path in figures}
    note = html_paragraph(
        "Entropy: the mean over mini-batches [95 % interval]. Ceiling: the largest possible entropy. Coincide: the "
        "share of particles that coincide with another one of their mini-batch. Safe k: the smallest k with which no "
        "distance to the k-th neighbour was 0. Steps: the mean length of a trajectory. Drawn: the mean number of "
        "mini-batches of an epoch that are in the member. Absent: the share of epochs in which the member is not "
        "drawn. Of tail: the share of the member in the worst mini-batches.",
        soft=True,
    )
    sections = [
        (
            "findings",
            "What was found",
            join_html(said, html_paragraph("To train with the suggested settings:"), html_code_block(line)),
        ),
        (
            "members",
            "Members",
            join_html(
                html_table(HEADER, _check_page_rows(found), range(1, len(HEADER))),
                note,
                pictures.get("check-entropies", ""),
                pictures.get("heat-maps", ""),
            ),
        ),
        ("scales", "Scales", _check_page_scales_table(found)),
        ("estimate", "Is the estimate stable?", pictures.get("check-stability", "")),
        ("rates", "Learning rate", pictures.get("check-rates", "")),
        ("theory", "Theory", join_html(check_page_theory_table(found), pictures.get("check-distances", ""))),
    ]
    title = f"αMEPOL: {name_as_text(found.class_name, WIDTH)} before training"
    return html_page(title, sections, introduction)


def _check_page_scales_table(found: Diagnosis) -> str:
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
    text = html_table(("component", "mean", "deviation", "lowest", "highest"), rows, range(1, 5))
    if found.actions is not None:
        ranges = ", ".join(
            f"{sigma:.3g} in a range of ±{half:.3g}" if math.isfinite(half) else f"{sigma:.3g} without a range"
            for sigma, half in zip(found.actions.sigma, found.actions.half_ranges, strict=True)
        )
        clipped = f"{found.actions.clipped:.0%} of action components are clipped"
        text = join_html(text, html_paragraph(f"σ of actions: {ranges}; {clipped}."))
    return text


def check_page_theory_table(found: Diagnosis) -> str:
    """Return the table of the theory: for each quantity its measured value, its bound, the assumptions, a remark."""
    if len(found.members) < 2:
        return ""
    return html_table(("", "measured", "bound", "assumes", "remark"), check_page_theory_rows(found), (1, 2))


def check_page_theory_rows(found: Diagnosis) -> list[tuple[str, str, str, str, str]]:
    bounds, dynamics = found.bounds, found.bounds.dynamics
    low, high = bounds.diameter
    no_state = "not measured: the members of a host class cannot be put into a given state"
    ends = "; here trajectories ended early, which the bound does not allow" if bounds.ends else ""
    step, far = bounds.one_step_bound, bounds.wasserstein_bound
    gap, sharp = bounds.entropy_gap_bound, bounds.sharp_entropy_gap_bound
    rows = [
        (
            "π-diameter D(π) (D1), total variation on cells",
            f"{low:.2f} to {high:.2f}",
            "1",
            f"{bounds.cells} cells; differences inside a cell do not count",
            "the first number is too low on average, the second too high, because it includes differences by chance",
        ),
        (
            "D(π) from one step (D2): starts + T · share of steps that differ",
            "" if dynamics is None else f"a share of {dynamics.steps_differ.max():.3g} in {dynamics.steps} steps",
            "" if step is None else f"{step:.3g}",
            "only that all trajectories reach the horizon; common random numbers can make this bound larger than the "
            f"paper's, but not smaller; its error is the error of the share of steps, times T{ends}",
            no_state if step is None else _vacuous_on_check_page(step, 1.0),
        ),
        (
            "Wasserstein distance of state distributions (D3)",
            f"{bounds.wasserstein.max():.3g} (by chance {bounds.wasserstein_chance:.3g})",
            "" if far is None else _number_on_check_page(far),
            "that a particle determines the whole state, and that a step of the policy has a Lipschitz constant L < 1"
            + ("" if dynamics is None else f"; here L = {dynamics.lipschitz:.3g}, the largest of pairs of states")
            + ("" if found.config.memory == "none" else ", with memory reset in each state")
            + ends,
            no_state
            if dynamics is None
            else "vacuous: L is not below 1, so that the bound grows with L^T"
            if dynamics.lipschitz >= 1
            else "not vacuous",
        ),
        (
            "entropy gap (D4): D²/σ + D ln(1/σ)",
            f"{bounds.entropy_gap:.2f}",
            f"{gap:.3g}" if math.isfinite(gap) else "∞",
            f"that every member visits every cell; the smallest probability is σ = {bounds.smallest:.2g}",
            "vacuous: some member never visits some cell"
            if not math.isfinite(gap)
            else _vacuous_on_check_page(gap, math.log(bounds.cells)),
        ),
        (
            "entropy gap (D5): D ln(K − 1) + h(D)",
            f"{bounds.entropy_gap:.2f}",
            f"{sharp:.2f}",
            "nothing else",
            _vacuous_on_check_page(sharp, math.log(bounds.cells)),
        ),
    ]
    if found.trade_off is not None:
        trade = found.trade_off
        rows.append(
            (
                "mini-batches that the gradient without the baseline b needs; measured: to be better than the gradient "
                "with b (D7); bound: for an error below the largest possible bias of the gradient with b (D6)",
                _samples_on_check_page(trade.crossing),
                _samples_on_check_page(trade.samples),
                "on-policy gradients along one direction of the parameters; δ = 0.05; the bias is at most U α |b| = "
                f"{trade.bias_bound:.3g}, and {trade.bias:.3g} was measured",
                f"an epoch has {found.config.minibatches} mini-batches",
            )
        )
    return rows


def _vacuous_on_check_page(bound: float, trivial: float) -> str:
    return f"vacuous: {trivial:.3g} is a bound in any case" if bound >= trivial else "not vacuous"


def _number_on_check_page(number: float) -> str:
    return f"{number:.3g}" if math.isfinite(number) else "∞"


def _samples_on_check_page(samples: float) -> str:
    return "1 is enough" if samples <= 1 else f"at least {_number_on_check_page(samples)}"
