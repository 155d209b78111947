"""Write the tables of the README and the docs from the runs in results/: `python docs/write_tables.py`.

A table stands between the comments `<!-- table: NAME -->` and `<!-- end -->`, which readers of a page do not see. The
command replaces what is between them. All intervals come from `alphamepol.estimation.statistics`.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.estimation.statistics import Estimate, Sample, bootstrap_inflation, estimate_statistic
from alphamepol.reproduction.report.domains import COLUMNS, DomainRow, domain_rows, words_of_domain_number
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
BLOCK = re.compile(r"(<!-- table: (?P<name>[a-z-]+) -->\n\n)(?P<table>.*?)(\n\n<!-- end -->)", re.DOTALL)

SLOPE = {
    "αMEPOL (α = 0.2)": "runs/gridworld-slope-alpha-0.2-12240309",
    "MEPOL (α = 1)": "runs/gridworld-slope-alpha-1-97f7162d",
}
SLOPE_RANDOM = "runs/gridworld-slope-random-014980b8"
TUNED = {
    "αMEPOL (α = 0.2)": ("runs/finetune-{}-gridworld-slope-alpha-0.2", 10),
    "MEPOL (α = 1)": ("runs/finetune-{}-gridworld-slope-alpha-1-*", 10),
    "Random": ("runs/finetune-{}-random", 0),
}
"""The runs of fine-tuning in a member of `gridworld-slope`, and the number of policies that take turns in them."""
MEMORY = ("none-alpha-0.2", "none-alpha-1", "last-alpha-0.2", "last-alpha-1", "recurrent-alpha-1")
MEMORY_POLICIES = 5
MINIGRID = {"αMEPOL (α = 0.2)": "minigrid-alpha-0.2", "MEPOL (α = 1)": "minigrid-alpha-1", "Random": "random"}


def main() -> None:
    """Rewrite every page that has tables."""
    for page in pages_with_tables():
        page.write_text(page_with_fresh_tables(page.read_text()))


def pages_with_tables() -> list[Path]:
    pages = [ROOT / "README.md", RESULTS / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in pages if BLOCK.search(page.read_text())]


def page_with_fresh_tables(text: str) -> str:
    """Return the text of a page with its tables made from the results."""
    return BLOCK.sub(lambda block: f"{block[1]}{TABLES[block['name']]()}{block[4]}", text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["".join(f"| {one} " if one else "| " for one in row) + "|" for row in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def summary(run: str) -> dict[str, Any]:
    """Return the summary of a run; its folder is relative to results/ and may have a wildcard."""
    (folder,) = RESULTS.glob(run)
    return json.loads((folder / "summary.json").read_text())


def number(value: float, decimals: int = 2) -> str:
    """Return a number without the sign of a rounded zero."""
    return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}".replace("-", "−")


def cell(found: Estimate, decimals: int = 2) -> str:
    """Return a mean with its interval. Two numbers, which have no interval, are shown instead."""
    value, *ends = (number(one, decimals) for one in (found.value, *(found.interval or found.values)))
    if not ends:
        return value
    return f"{value} [{', '.join(ends)}]" if found.interval else f"{value} ({' and '.join(ends)})"


def over_seeds(run: str, member: str | None = None, entry: str = "entropy") -> Estimate:
    """Return an entry of a summary in a member, over seeds; without a member the mean entropy under p_M."""
    found = summary(run)
    return estimate_statistic(Sample.of_seeds(found["mean"] if member is None else found[entry][member]))


def returns_of_tasks(run: str, policies: int, last: bool = True) -> Estimate:
    """Return the return of the last iteration, or the mean over all iterations, over tasks and policies."""
    found = summary(run)
    returns = np.array(found.get("returns_by_seed") or [found["returns"]], float)
    values = returns[:, :, -1] if last else returns.mean(axis=-1)
    return estimate_statistic(Sample.of_tasks(values.T, policies))


def tuned_in_slope(method: str, member: str) -> Estimate:
    run, policies = TUNED[method]
    return returns_of_tasks(run.format(member), policies)


def tuned_with_memory(run: str, member: str) -> Estimate:
    return returns_of_tasks(f"memory/finetune/{member}/{run}", MEMORY_POLICIES)


def claimed_difference(claim: str, *names: str) -> Estimate:
    """Return the difference of a statement, whose two terms end with these names, from claims.json."""
    claims = {one["id"]: one for one in json.loads((RESULTS / "claims.json").read_text())}
    for statement in claims[claim]["statements"]:
        terms = [term["name"] for term in statement["terms"]]
        if len(terms) == len(names) and all(term.endswith(name) for term, name in zip(terms, names, strict=True)):
            return Estimate(statement["found"]["value"], tuple(statement["found"]["interval"]))
    raise LookupError(f"{claim} has no statement about {names}")


def rows_of_domains() -> list[DomainRow]:
    return domain_rows(Store(RESULTS), Scale("paper"))


def domains() -> str:
    """Return the table of domains with intervals, as the page shows it."""
    rows = [
        (f"`{row.domain}`, {row.member}", *(" ".join(words_of_domain_number(row, one)).strip() for one in row.cells))
        for row in rows_of_domains()
    ]
    return table(("", *COLUMNS), rows)


def domains_in_brief() -> str:
    """Return the rows of the domains that the authors released a policy for, without intervals."""
    rows = [
        (f"`{row.domain}`, {row.member}", *(words_of_domain_number(row, one)[0] for one in row.cells))
        for row in rows_of_domains()
        if row.cells[0] is not None
    ]
    return table(("", *COLUMNS), rows)


def slope_entropies() -> str:
    rows = []
    for member, probability in (("GWS", 0.8), ("GWN", 0.2)):
        alone = over_seeds(f"runs/gridworld-slope-only-{member}", member)
        found = [*(over_seeds(run, member) for run in SLOPE.values()), alone]
        ceiling = summary(SLOPE["MEPOL (α = 1)"])["ceiling"][member]
        rows.append((f"{member} (p = {probability})", *map(cell, found), number(ceiling)))
    rows.append(("mean under p_M", *(cell(over_seeds(run)) for run in SLOPE.values()), "", ""))
    return table(("", *SLOPE, "specialist", "ceiling"), rows)


def slope_returns() -> str:
    rows = [(member, *(cell(tuned_in_slope(method, member)) for method in TUNED)) for member in ("GWS", "GWN")]
    return table(("", *TUNED), rows)


def memory_in_brief() -> str:
    rows = []
    for run in MEMORY:
        memory, _, alpha = run.partition("-alpha-")
        entropies = [over_seeds(f"memory/gridworld-slope/{run}", member) for member in ("GWS", "GWN")]
        returns = [tuned_with_memory(run, member) for member in ("GWS", "GWN")]
        rows.append((f"{memory}, {alpha}", *map(cell, entropies + returns)))
    members = [f"{what} in {member}" for what in ("entropy", "return") for member in ("GWS", "GWN")]
    return table(("memory, α", *members), rows)


def memory_means() -> str:
    rows = []
    for run in MEMORY:
        memory, _, alpha = run.partition("-alpha-")
        found = [over_seeds(f"memory/gridworld-slope/{run}", member) for member in ("GWS", "GWN", None)]
        rows.append((f"{memory}, α = {alpha}", *(number(one.value) for one in found)))
    return table(("`gridworld-slope`, mean over seeds", "GWS", "GWN", "mean under p_M"), rows)


def label_of_memory(run: str) -> str:
    memory, _, alpha = run.partition("-alpha-")
    return f"{'no memory' if memory == 'none' else memory}, α = {alpha}"


def memory_slope() -> str:
    rows = []
    for member in ("GWS", "GWN"):
        found = [over_seeds(f"memory/gridworld-slope/{run}", member) for run in MEMORY]
        rows.append((f"entropy in {member}", *map(cell, found)))
    rows += [
        (f"return in {member}", *(cell(tuned_with_memory(run, member)) for run in MEMORY)) for member in ("GWS", "GWN")
    ]
    reached = [" / ".join(iterations_until_return(run, member) for member in ("GWS", "GWN")) for run in MEMORY]
    rows.append(("iterations, GWS / GWN", *reached))
    return table(("`gridworld-slope`", *map(label_of_memory, MEMORY)), rows)


def iterations_until_return(run: str, member: str, enough: float = 0.95) -> str:
    """Return the number of iterations until the mean return over all goals is `enough`."""
    returns = np.mean(summary(f"memory/finetune/{member}/{run}")["returns"], axis=0)
    return str(int(np.argmax(returns >= enough)) + 1) if (returns >= enough).any() else "never"


def memory_multigrid() -> str:
    runs = ("none-alpha-0.1", "none-alpha-1", "last-alpha-0.1", "last-alpha-1")
    ceilings = summary("memory/multigrid/last-alpha-1")["ceiling"]
    uniform = json.loads((RESULTS / "uniform-entropies.json").read_text())["multigrid"]
    rows = []
    for member in (*ceilings, None):
        found = [over_seeds(f"memory/multigrid/{run}", member) for run in runs]
        best = np.mean(list(ceilings.values())) if member is None else ceilings[member]
        drawn = np.mean(list(uniform.values())) if member is None else uniform[member]
        rows.append((member or "mean", *map(cell, found), number(float(best)), number(float(drawn))))
    return table(("entropy", *map(label_of_memory, runs), "ln(free area)", "uniform"), rows)


def minigrid_entropies() -> str:
    runs = ("runs/minigrid-alpha-0.2-evaluated", "runs/minigrid-alpha-1-evaluated", "runs/minigrid-random-*")
    words = {"cells_per_trajectory": "cells per trajectory", "cells_per_minibatch": "cells per mini-batch"}
    rows = [
        (f"{member}: {words.get(entry, entry)}", *(cell(over_seeds(run, member, entry), 1) for run in runs))
        for member in ("EasyG", "AdvG")
        for entry in ("entropy", *words)
    ]
    return table(("ten seeds, 300 epochs [95 % interval]", *MINIGRID), rows)


def minigrid_returns() -> str:
    rows = []
    for member in ("EasyG", "AdvG"):
        for last, word in ((True, "last of 200 iterations"), (False, "mean over all iterations")):
            found = [
                returns_of_tasks(f"runs/finetune-{member}-{run}", 0 if run == "random" else 10, last)
                for run in MINIGRID.values()
            ]
            rows.append((f"{member}, {word}", *map(cell, found)))
    return table(("return, mean over 13 tasks and 5 seeds [95 % interval]", *MINIGRID), rows)


def ant_entropies() -> str:
    runs = ("runs/ant/alpha-0.2", "runs/ant/alpha-1", "runs/ant-stairs-random-*")
    authors = {"Down": 3.42, "Up": 0.90}  # the measurements of the authors' policy were not kept
    rows = []
    for member, probability in (("Down", 0.8), ("Up", 0.2)):
        found = [cell(over_seeds(run, member)) for run in runs]
        ceiling = summary(runs[-1])["ceiling"][member]
        rows.append((f"{member} (p = {probability})", *found, number(ceiling), number(authors[member])))
    return table(("entropy of x, y (B = 5, k = 500)", *TUNED, "ceiling", "authors' αMEPOL"), rows)


def pendulum_rows(seeds: Sequence[int]) -> list[list[str]]:
    """Return the entropies of the pendulums, with a column for each seed and one for Random beside it."""
    runs = [summary(f"pendulums/compared-seed-{seed}")["runs"] for seed in seeds]
    columns = [found[run] for seed, found in zip(seeds, runs, strict=True) for run in (f"seed-{seed}", "random")]
    first = columns[0]
    rows = [
        [f"{member} (p = {probability})", *(number(one["entropy"][member][0]) for one in columns)]
        for member, probability in zip(first["members"], first["probabilities"], strict=True)
    ]
    rows.append(["mean", *(number(one["mean"][0]) for one in columns)])
    rows.append(["mean of the worst fifth", *(number(one["cvar"][0]) for one in columns)])
    return rows


def pendulums() -> str:
    return table(("entropy", "αMEPOL (α = 0.2)", "Random"), pendulum_rows([0]))


def pendulums_of_two_seeds() -> str:
    taken = [str(round(summary(f"pendulums/seed-{seed}")["seconds"]["total"])) for seed in (0, 1)]
    rows = [*pendulum_rows([0, 1]), ["seconds in total, both runs at once", taken[0], "", taken[1], ""]]
    return table(("", "seed 0", "Random, seed 0", "seed 1", "Random, seed 1"), rows)


def metatraining() -> str:
    classes = ("gridworld-slope", "multigrid")

    def row(name: str, method: str, read: Callable[[dict[str, Any]], Any], decimals: int = 2) -> list[str]:
        found = [np.array(read(summary(f"runs/{one}-{method}")), float)[:, -10:].mean(axis=1) for one in classes]
        return [name, *(cell(estimate_statistic(Sample.of_seeds(values)), decimals) for values in found)]

    def gain(found: dict[str, Any]) -> Any:
        return np.subtract(found["return_after"], found["return_before"])

    rows = []
    for method, label, decimals in (("maml-r", "MAML+R", 2), ("maml-diayn", "MAML+DIAYN", -1)):
        rows.append(row(f"{label}, return before the inner step", method, lambda one: one["return_before"], decimals))
        rows.append(row("after it", method, lambda one: one["return_after"], decimals))
        rows.append(row("gain by the inner step", method, gain, decimals))
    told = row("DIAYN, ln q(z\\|s); chance is −3.00", "diayn", lambda one: one["discriminability"])
    return table(("", *(f"`{one}`" for one in classes)), [*rows[:3], told, *rows[3:]])


def meta_returns() -> str:
    members = {"GWS": "gridworld-slope", "GWN": "gridworld-slope", "MG0": "multigrid"}
    ours = {member: "alpha-0.1" if member == "MG0" else "alpha-0.2" for member in members}

    def row(name: str, policies: int, method: Callable[[str], str]) -> list[str]:
        found = [returns_of_tasks(f"runs/finetune-{member}-{method(member)}", policies) for member in members]
        return [name, *map(cell, found)]

    rows = [
        row("αMEPOL (α = 0.2; on `multigrid` 0.1), ten seeds", 10, lambda member: f"{members[member]}-{ours[member]}"),
        row("MAML+R, eight seeds", 8, lambda member: f"{members[member]}-maml-r"),
        row("MAML+DIAYN, eight seeds", 8, lambda member: f"{members[member]}-maml-diayn"),
        row("Random", 0, lambda _: "random"),
    ]
    for other in ("MAML+R", "MAML+DIAYN"):
        pairs = [(f"αMEPOL ({alpha.partition('-')[2]}) in {one}", f"{other} in {one}") for one, alpha in ours.items()]
        rows.append([f"αMEPOL less {other}", *(cell(claimed_difference("meta", *names)) for names in pairs)])
    return table(("", *members), rows)


def meta_entropies() -> str:
    random = [cell(over_seeds(SLOPE_RANDOM, member)) for member in ("GWS", "GWN")]
    # The evaluations of the meta-policies were not kept.
    rows = [("MAML+DIAYN", "−1.90", "−1.92"), ("Random", *random), ("MAML+R", "−0.64", "−0.68")]
    return table(("", "GWS", "GWN"), rows)


def random_variants() -> str:
    """Return the returns from several kinds of untrained policies.

    The file was written before intervals were widened, and has no numbers of single goals. Widening a percentile
    interval about its mean gives the interval that would be written today.
    """
    found = json.loads((RESULTS / "random-variants.json").read_text())["found"]
    goals = 50

    def widened(one: dict[str, Any]) -> str:
        low, high = (one["mean"] + bootstrap_inflation(goals) * (end - one["mean"]) for end in one["interval"])
        return cell(Estimate(one["mean"], (low, high)))

    kinds = {
        "a network for each goal (run again)": "a network for each goal",
        "the same, with steps of TRPO also before the first reward": "and steps before the first reward",
        "the same, with biases of zero": "and biases of zero",
    }
    rows = [[name, *(widened(found[member][kind]) for member in found)] for name, kind in kinds.items()]
    single = [[found[member][f"one network for all goals, seed {seed}"] for seed in range(5)] for member in found]
    means = [", ".join(number(one["mean"]) for one in networks) for networks in single]
    rows.append(["one network for all goals, five of them", *means])
    return table(("mean return at iteration 100", *found), rows)


def quick(runs: str) -> str:
    """Return the entropies of every seed of the runs with the quick preset."""
    found = {alpha: summary(f"quick/{runs}alpha-{alpha}") for alpha in ("0.2", "1")}
    rows = [
        (f"{member}, α = {alpha}", *(number(value) for value in one["entropy"][member]))
        for member in ("GWS", "GWN")
        for alpha, one in found.items()
    ]
    return table(("seed", *map(str, found["1"]["seeds"])), rows)


def cost_estimates() -> str:
    cases = json.loads((ROOT / "benchmarks/results/cost_estimate.json").read_text())["cases"]
    rows = []
    for name, case in cases.items():
        found = [case[part][what] for what in ("epoch", "memory") for part in ("estimated", "true", "ratio")]
        rows.append((name, *map(number, found)))
    header = ("seconds an epoch, estimated", "true", "ratio", "memory, estimated (GB)", "true", "ratio")
    return table(("run", *header), rows)


def unseen() -> str:
    """Return the scores on unseen members of generated classes, beside those on seen members."""
    rows = []
    for run in json.loads((RESULTS / "unseen/generated.json").read_text()).values():
        parts = run["unseen"]["score"], run["seen"]["score"], run["gap"], run["unseen"]["worst_tenth"]
        rows.append((run["class"], run["run"]["config"]["memory"], *map(score_with_interval, parts)))
    return table(("class", "memory", "unseen", "seen", "seen − unseen", "worst tenth, unseen"), rows)


def unseen_by_training() -> str:
    """Return the scores after training on so many rooms."""
    rows = []
    runs = json.loads((RESULTS / "unseen/training-members.json").read_text()).values()
    for run in sorted(runs, key=lambda run: run["training"] or math.inf):
        parts = run["unseen"]["score"], run["seen"]["score"], run["gap"], run["unseen"]["worst_tenth"]
        rows.append((str(run["training"] or "∞"), *map(score_with_interval, parts)))
    return table(("rooms trained on", "unseen", "seen", "seen − unseen", "worst tenth, unseen"), rows)


def score_with_interval(found: dict[str, Any]) -> str:
    return cell(Estimate(found["value"], tuple(found["interval"])), 3 if abs(found["value"]) < 0.1 else 2)


TABLES: dict[str, Callable[[], str]] = {
    "unseen": unseen,
    "unseen-by-training": unseen_by_training,
    "domains": domains,
    "domains-in-brief": domains_in_brief,
    "claims": lambda: (RESULTS / "claims.md").read_text().rstrip("\n"),
    "slope-entropies": slope_entropies,
    "slope-returns": slope_returns,
    "memory-in-brief": memory_in_brief,
    "memory-means": memory_means,
    "memory-slope": memory_slope,
    "memory-multigrid": memory_multigrid,
    "minigrid-entropies": minigrid_entropies,
    "minigrid-returns": minigrid_returns,
    "ant-entropies": ant_entropies,
    "pendulums": pendulums,
    "pendulums-of-two-seeds": pendulums_of_two_seeds,
    "metatraining": metatraining,
    "meta-returns": meta_returns,
    "meta-entropies": meta_entropies,
    "random-variants": random_variants,
    "quick": lambda: quick(""),
    "quick-held-out": lambda: quick("held-out-"),
    "cost-estimates": cost_estimates,
}
"""The function that makes each table."""

if __name__ == "__main__":
    main()
