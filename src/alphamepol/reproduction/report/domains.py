"""The table of domains: what each method reaches in every domain, on the same measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic
from alphamepol.files.json_files import read_json
from alphamepol.pages.html import Html, html_paragraph, html_table, join_html
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Store

COLUMNS = ("authors", "αMEPOL", "MEPOL", "memory", "specialist", "ceiling")
"""The columns of the table after the name of the environment."""
MEAN = "mean of all"
"""The name of the row with the mean over the members of a class."""
NOTES = (
    "The entropy of visited places in nats; in minigrid, the number of cells that a mini-batch of five trajectories "
    "visits. Higher is better. Brackets hold a 95 % interval over seeds. Two seeds have no interval; their numbers are "
    "in parentheses. A dash: not measured. Each environment belongs to the class below its name.",
    "Authors: the αMEPOL policy that the authors of the paper released, run in these environments when this "
    "project began. Those measurements were not kept, so they have no interval. Memory: MEPOL that also sees "
    "what its last actions did, for 200 instead of 150 epochs on gridworld-slope and 100 instead of 50 on multigrid. "
    "Specialist: MEPOL, without memory, trained on that environment alone. Ceiling: the entropy of the uniform "
    "distribution over the free space, or the number of cells that can be reached. An estimate can be some hundredths "
    "above the ceiling, because a trajectory can be more even than independent draws. Ant-stairs has 100 of the "
    "paper's 400 epochs.",
)
"""The notes below the table."""


@dataclass(frozen=True)
class Domain:
    """A class of environments as rows of the table."""

    class_name: str
    members: Mapping[str, str]
    """The members that have a row, with a word about each."""
    alpha: float = 0.2
    entry: str = "entropy"
    """The entry of summaries that is shown."""
    authors: Mapping[str, float] = field(default_factory=dict)
    """The numbers of the authors' released policy."""
    memory: str = ""
    """The run with memory, relative to the folder of the reproduction."""
    specialist_seeds: int = 3
    ceilings: Mapping[str, float] = field(default_factory=dict)
    """The ceilings that summaries do not have."""


DOMAINS = (
    Domain(
        "gridworld-slope",
        {"GWS": "likely", "GWN": "rare"},
        authors={"GWS": 0.50, "GWN": 0.45},
        memory="memory/gridworld-slope/recurrent-alpha-1",
        specialist_seeds=5,
    ),
    Domain(
        "multigrid",
        {MEAN: "", "MG0": "adverse"},
        alpha=0.1,
        authors={MEAN: fmean((0.26, 0.49, 0.30, 0.21, 0.60, 0.10, 0.11, 0.60, 0.53, 0.43)), "MG0": 0.26},
        memory="memory/multigrid/last-alpha-1",
    ),
    Domain("ant-stairs", {"Down": "likely", "Up": "rare"}, authors={"Down": 3.42, "Up": 0.90}),
    Domain(
        "minigrid",
        {"EasyG": "likely", "AdvG": "rare"},
        entry="cells_per_minibatch",
        authors={"EasyG": 120.0, "AdvG": 18.0},
        ceilings={"EasyG": 232.0, "AdvG": 55.0},
    ),
    Domain("gridworld-slope-everywhere", {"GWS": "likely", "GWN": "rare"}),
    Domain("gridworld-counterexample", {"four-rooms": "", "two-halls": ""}, alpha=0.35),
)
"""The domains in the order of the table."""


@dataclass(frozen=True)
class DomainRow:
    """One member of a domain, with a number for each of `COLUMNS`; None where nothing was measured."""

    domain: str
    member: str
    cells: tuple[Estimate | None, ...]
    decimals: int

    @property
    def measured(self) -> bool:
        """True if one of the methods of this package was measured."""
        return any(self.cells[1:4])


def domain_rows(store: Store, scale: Scale) -> list[DomainRow]:
    """Return the rows whose methods are among the runs of a reproduction."""
    rows = [_domain_row(domain, member, store, scale) for domain in DOMAINS for member in domain.members]
    return [row for row in rows if row.measured]


def html_table_of_domains(rows: Sequence[DomainRow]) -> Html:
    """Return the table with its notes; empty if there are no rows."""
    if not rows:
        return Html()
    names = [_html_domain_pair(row.member, row.domain) for row in rows]
    lines = [(name, *(_html_domain_cell(row, one) for one in row.cells)) for name, row in zip(names, rows, strict=True)]
    table = html_table(("environment", *COLUMNS), lines, range(1, 1 + len(COLUMNS)))
    return join_html(table, *(html_paragraph(note, soft=True) for note in NOTES))


def _html_domain_cell(row: DomainRow, found: Estimate | None) -> Html:
    return _html_domain_pair(*words_of_domain_number(row, found))


def _html_domain_pair(large: str, small: str) -> Html:
    return join_html(large, Html("<small>"), small, Html("</small>"))


def words_of_domain_number(row: DomainRow, found: Estimate | None) -> tuple[str, str]:
    """Return a number of a row and its interval in words; the second is empty if there is none."""
    if found is None:
        return "–", ""
    value, *ends = (
        f"{round(one, row.decimals) + 0.0:.{row.decimals}f}".replace("-", "−")
        for one in (found.value, *(found.interval or found.values))
    )
    if not ends:
        return value, ""
    return value, f"[{', '.join(ends)}]" if found.interval else f"({' and '.join(ends)})"


def _domain_row(domain: Domain, member: str, store: Store, scale: Scale) -> DomainRow:
    of_paper = scale.name == "paper"  # the numbers of the authors and of memory have the settings of the paper
    planned = [scale.pretraining(domain.class_name, alpha=alpha) for alpha in (domain.alpha, 1.0)]
    ours, mepol = (_summary_for_domain(store, run) for run in planned)
    known = ours or mepol or {"members": [], "ceiling": {}}
    memory = _memory_for_domain(domain, store) if of_paper else None
    found = (
        Estimate(domain.authors[member], None) if of_paper and member in domain.authors else None,
        *(_number_for_domain(summary, domain, member) for summary in (ours, mepol, memory)),
        _specialist_for_domain(domain, member, known["members"], store, scale),
        _ceiling_for_domain(domain, member, known["ceiling"]),
    )
    word = domain.members[member]
    decimals = 2 if domain.entry == "entropy" else 0
    return DomainRow(domain.class_name, f"{member} ({word})" if word else member, found, decimals)


def _summary_for_domain(store: Store, run: Planned) -> dict[str, Any] | None:
    stored = store.find(run)
    return None if stored is None else stored.summary


def _memory_for_domain(domain: Domain, store: Store) -> dict[str, Any] | None:
    folder = store.folder / domain.memory
    if not domain.memory or not (folder / "summary.json").is_file():
        return None
    return read_json(folder / "summary.json")


def _number_for_domain(summary: dict[str, Any] | None, domain: Domain, member: str) -> Estimate | None:
    """Return the number of a run in a member, over its seeds; None if the run did not measure it."""
    if summary is None or domain.entry not in summary:
        return None
    values = summary["mean"] if member == MEAN else summary[domain.entry].get(member)
    return estimate_statistic(Sample.of_seeds(values)) if values else None


def _specialist_for_domain(
    domain: Domain, member: str, members: Sequence[str], store: Store, scale: Scale
) -> Estimate | None:
    """Return what the specialist of a member reaches there, or the mean over the specialists of all members."""
    found = []
    for number, name in enumerate(members):
        if member in (name, MEAN):
            run = scale.specialist(domain.class_name, number, len(members), seeds=domain.specialist_seeds)
            found.append(_number_for_domain(_summary_for_domain(store, run), domain, name))
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return known[0] if member != MEAN else Estimate(fmean(one.value for one in known), None)


def _ceiling_for_domain(domain: Domain, member: str, ceilings: Mapping[str, float | None]) -> Estimate | None:
    known = [one for name, one in ceilings.items() if member in (name, MEAN) and one is not None]
    if domain.entry != "entropy":
        known = [domain.ceilings[member]]
    return Estimate(fmean(known), None) if known else None
