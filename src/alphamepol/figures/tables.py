"""Tables and lines for the terminal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alphamepol.environments.host import AnyClass
from alphamepol.estimation.statistics import (
    Estimate,
    Sample,
    estimate_of_minibatches,
    estimate_statistic,
    text_of_statistic,
)
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.held_out import HeldOutGap

WORDS = {"trajectory": "trajectory", "minibatch": "mini-batch"}


MOST = 20
"""The largest number of members that tables and figures show, in the order of the class. Files have all members."""


def epoch_table(environment_class: AnyClass, lines: list[dict[str, Any]]) -> tuple[RenderableType, str]:
    """Return the metrics of an epoch, given one line per seed, as a table of members and as a sentence."""
    objective, kl = (np.mean([line[name] for line in lines]) for name in ("objective", "kl"))
    numbers = f" objective {objective:.3f}   KL {kl:.3f}   {lines[0]['iterations']} iterations"
    entropies = _mean_by_member_for_table(environment_class, lines)
    shown = [f"{name_as_text(name, WIDTH)} {value:.2f}" for name, value in list(entropies.items())[:MOST]]
    sentence = f"entropy {', '.join(shown)}"
    return Group(_table_of_epoch_members(environment_class, lines), numbers), sentence


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Return a table of the entropy in each member: the mean over seeds, and the lowest and the highest seed.

    With one seed, the table shows the interval over mini-batches. The last columns are the visited cells if the class
    has cells, otherwise the ceiling.
    """
    table = Table(title=Text(title), title_justify="left", caption_justify="left")
    table.add_column("member", overflow="fold")
    table.add_column("probability", justify="right")
    table.add_column("entropy", justify="right")
    if len(evaluation.seeds) == 1:
        table.caption = Text(_table_caption_of_intervals([evaluation]))
    if len(evaluation.seeds) > 1:
        table.add_column("lowest … highest", justify="right")
    cells = evaluation.cells or {}
    for column in [f"cells per {WORDS[per]}" for per in cells] or ["ceiling"]:
        table.add_column(column, justify="right")

    def row(name: str, probability: str, values: np.ndarray, found: Estimate, *more: float) -> None:
        several = len(values) > 1
        spread = [f"{text_of_statistic(values.min())} … {text_of_statistic(values.max())}"] if several else []
        shown = text_of_statistic(found.value) if several else found.text
        table.add_row(Text(name), probability, Text(shown), *spread, *map(_table_cell_if_finite, more))

    for i, name in enumerate(evaluation.members[:MOST]):
        more = [visited[:, i].mean() for visited in cells.values()] or [evaluation.ceilings[i]]
        values = evaluation.member_means[:, i]
        shown = name_as_text(name, WIDTH)
        row(shown, f"{evaluation.probabilities[i]:g}", values, evaluation.estimate(name), *more)
    _add_rest_to_table(table, len(evaluation.members))
    table.add_section()
    row("mean", "", evaluation.mean, evaluation.estimate())
    if (worst := evaluation.worst_members) is not None:
        row("worst tenth of members", "", worst, estimate_statistic(Sample.of_seeds(worst)))
    if evaluation.alpha < 1:
        row(f"mean of worst {evaluation.alpha:g}", "", evaluation.cvar, evaluation.estimate_cvar())
    return table


def comparison_table(evaluations: Mapping[str, Evaluation], title: str) -> Table:
    """Return a table of the entropy in each member, with a column per method: means with 95 % intervals.

    The caption says what the intervals are over. If the class has cells, rows with the visited cells follow.
    """
    first = next(iter(evaluations.values()))
    caption = Text(_table_caption_of_intervals(list(evaluations.values())))
    table = Table(title=Text(title), title_justify="left", caption=caption, caption_justify="left")
    table.add_column("member", overflow="fold")
    for label in evaluations:
        table.add_column(_name_in_table(label), justify="right", overflow="fold")
    if any(map(math.isfinite, first.ceilings)):
        table.add_column("ceiling", justify="right")

    def row(name: str, found: Iterable[Estimate], *ceiling: float) -> None:
        known = [text for text in map(_table_cell_if_finite, ceiling) if text]
        # The interval gets a line of its own, so that many methods fit side by side.
        table.add_row(Text(name), *(Text(one.text.replace(" ", "\n", 1)) for one in found), *known)

    for i, name in enumerate(first.members[:MOST]):
        means = [evaluation.estimate(name) for evaluation in evaluations.values()]
        row(f"{name_as_text(name, WIDTH)} (p = {first.probabilities[i]:g})", means, first.ceilings[i])
    _add_rest_to_table(table, len(first.members))
    table.add_section()
    row("mean", [evaluation.estimate() for evaluation in evaluations.values()])
    worst = [evaluation.worst_members for evaluation in evaluations.values()]
    if worst[0] is not None:
        row("worst tenth of members", [estimate_statistic(Sample.of_seeds(one)) for one in worst if one is not None])
    if first.alpha < 1:
        row(f"mean of worst {first.alpha:g}", [evaluation.estimate_cvar() for evaluation in evaluations.values()])
    for per in first.cells or {}:
        table.add_section()
        for i, name in enumerate(first.members[:MOST]):
            visited = [evaluation.cells[per][:, i] for evaluation in evaluations.values() if evaluation.cells]
            means = [estimate_of_minibatches(of_seeds[:, None]) for of_seeds in visited]
            row(f"{name_as_text(name, WIDTH)}, cells per {WORDS[per]}", means)
    return table


def _name_in_table(name: str) -> Text:
    return Text(name_as_text(name, WIDTH))


def _add_rest_to_table(table: Table, members: int) -> None:
    if members > MOST:
        table.add_row(f"and {members - MOST} more")


def _table_cell_if_finite(number: float | np.floating) -> str:
    return text_of_statistic(number) if math.isfinite(number) else ""


def held_out_sentence(found: HeldOutGap) -> str:
    """Return a sentence about the gap between seen and unseen members."""
    mean = text_of_statistic(float(np.mean(found.seen_mean)))
    return f"in {found.members} members of the training stream the mean is {mean}; seen − unseen: {found.gap.text}"


def _table_caption_of_intervals(evaluations: Sequence[Evaluation]) -> str:
    """Return a sentence that says what the intervals in a table are over."""
    over = dict.fromkeys(one.intervals_over for one in evaluations)
    pairs = " Two numbers in parentheses are those of two seeds." if "2 seeds" in over else ""
    over.pop("2 seeds", None)
    return (f"Brackets are 95 % intervals over {' or '.join(over)}." if over else "") + pairs


def iteration_table(lines: list[dict[str, Any]]) -> tuple[RenderableType, str]:
    """Return the metrics of an iteration, given one line per task and seed, as details and as a sentence."""
    returns = np.array([line["return"] for line in lines])
    sentence = f"return {returns.mean():.3f}"
    reported = [name for name in lines[0] if name not in ("iteration", "task", "seed", "return", "seconds")]
    means = "   ".join(f"{name.replace('_', ' ')} {np.mean([line[name] for line in lines]):.2g}" for name in reported)
    return f" {sentence} (from {returns.min():.2f} to {returns.max():.2f})   {means}", sentence


def finetune_table(summaries: Mapping[str, dict[str, Any]], title: str) -> Table:
    """Return a table of the mean return at the first and the last iteration, with a row per initial policy."""
    caption = Text("Intervals are over tasks. Fewer than three tasks have none.")
    table = Table(title=Text(title), title_justify="left", caption=caption, caption_justify="left")
    table.add_column("initial policy", overflow="fold")
    for column in ("first iteration", "last iteration", "95 % interval"):
        table.add_column(column, justify="right")
    for name, summary in summaries.items():
        final, first = summary["final"], np.mean([task[0] for task in summary["returns"]])
        interval = "{:.2f} … {:.2f}".format(*final["interval"]) if final["interval"] else ""
        table.add_row(_name_in_table(name), f"{first:.2f}", f"{final['mean']:.2f}", interval)
    return table


def meta_iteration_table(lines: list[dict[str, Any]]) -> tuple[RenderableType, str]:
    """Return the metrics of a meta-iteration, given one line per seed, as details and as a sentence."""
    before, after, kl = (np.mean([line[name] for line in lines]) for name in ("return_before", "return_after", "kl"))
    sentence = f"return {before:.3f} before the inner step, {after:.3f} after"
    return f" {sentence}   KL {kl:.2g}", sentence


def diayn_epoch_table(lines: list[dict[str, Any]]) -> tuple[RenderableType, str]:
    """Return the metrics of an epoch of DIAYN, given one line per seed, as details and as a sentence."""
    names = "discriminability", "reward", "action_entropy", "temperature"
    discriminability, reward, entropy, temperature = (np.mean([line[name] for line in lines]) for name in names)
    sentence = f"ln q(z|s) {discriminability:.3f}"
    return f" {sentence}   reward {reward:.3f}   entropy {entropy:.2f}   temperature {temperature:.2g}", sentence


def metatrain_table(final: Mapping[str, dict[str, Any]], title: str) -> Table:
    """Return a table of the final numbers of meta-training, with intervals over seeds."""
    caption = Text("Intervals are over seeds. Fewer than three seeds have none.")
    table = Table(title=Text(title), title_justify="left", caption=caption, caption_justify="left")
    for column in ("", "mean", "95 % interval"):
        table.add_column(column, justify="left" if not column else "right")
    for name, number in final.items():
        interval = "{:.3f} … {:.3f}".format(*number["interval"]) if number["interval"] else ""
        table.add_row(name.replace("_", " "), f"{number['mean']:.3f}", interval)
    return table


def _table_of_epoch_members(environment_class: AnyClass, lines: list[dict[str, Any]]) -> Table:
    table = Table(box=None)
    table.add_column("member", overflow="fold")
    table.add_column("entropy", justify="right")
    table.add_column("share of tail", justify="right")
    entropies = _mean_by_member_for_table(environment_class, lines)
    for name in environment_class.reported_names[:MOST]:
        share = np.mean([line["tail_share"].get(name, 0.0) for line in lines])
        entropy = f"{entropies[name]:.3f}" if name in entropies else "not met"
        table.add_row(_name_in_table(name), entropy, f"{share:.0%}")
    _add_rest_to_table(table, len(environment_class.reported_names))
    return table


def _mean_by_member_for_table(environment_class: AnyClass, lines: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean entropy of each member over the seeds that met it; members that no seed met are left out."""
    met = {
        name: [line["entropy"][name] for line in lines if name in line["entropy"]]
        for name in environment_class.reported_names
    }
    return {name: float(np.mean(values)) for name, values in met.items() if values}


def table_of_class_members(environment_class: AnyClass) -> Table:
    """Return a table of the members of a class, their probabilities, and the ceilings of their entropy."""
    table = Table(box=None, padding=(0, 2))
    for column in ("member", "probability", "entropy ceiling"):
        table.add_column(column, justify="left" if column == "member" else "right", overflow="fold")
    for i, member in enumerate(environment_class.names):
        ceiling = environment_class[i].entropy_ceiling
        known = f"{ceiling:.3f}" if math.isfinite(ceiling) else "unknown"
        table.add_row(_name_in_table(member), f"{environment_class.probabilities[i]:g}", known)
    return table


def plain_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    left: Sequence[str] = (),
    unbroken: Sequence[str] = (),
    total: Sequence[str | Text] = (),
    lines: bool = False,
) -> Table:
    """Return a table of plain text; markup in cells is not interpreted. Names must come from `name_as_text`.

    **Arguments**

    - `title`: the title above the table.
    - `header`: the names of the columns.
    - `rows`: the cells of each row.
    - `left`: the columns that are flush left; the others are flush right.
    - `unbroken`: the columns whose cells stay on one line.
    - `total`: a last row below a line.
    - `lines`: if true, draw lines between rows.
    """
    table = Table(title=Text(title), title_justify="left", show_lines=lines)
    for column in header:
        justify = "left" if column in left else "right"
        table.add_column(column, justify=justify, no_wrap=column in unbroken, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    if total:
        table.add_section()
        table.add_row(*total)
    return table


def print_table(table: Table, *, quiet: bool = False) -> None:
    """Print a table, unless `quiet`."""
    Console(quiet=quiet).print(table)
