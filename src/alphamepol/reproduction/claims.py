"""The claims of the paper: each consists of statements about numbers of runs, which statistics decide."""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from alphamepol.estimation.power import units_for_narrower_interval
from alphamepol.estimation.statistics import (
    FEWEST,
    RESAMPLES,
    Estimate,
    Sample,
    contrast_statistic,
    estimate_statistic,
    probability_of_improvement,
    weighted_interquartile_mean,
)
from alphamepol.files.reading import ODD
from alphamepol.reproduction.planned import Finetuning, Planned
from alphamepol.reproduction.store import Stored

Verdict = Literal["holds", "fails", "undecided"]

ALIKE = 0.1
"""The largest difference, in nats or in return, between two numbers that are "about the same"."""


ENOUGH = 0.5
"""The smallest share of the planned work with which a shorter run can decide a statement."""


@dataclass(frozen=True)
class Quantity:
    """A number that a run has for every seed, or for every seed and task."""

    name: str
    """The name in sentences, with its article, e.g. `the mean entropy of MEPOL`."""
    run: Planned
    read: Callable[[Stored], Sample]
    """Reads the numbers from the stored run."""


@dataclass(frozen=True)
class Statement:
    """An inequality about a sum of means of quantities, each multiplied by a factor.

    The sum must be above `above`, below `below`, or between −`within` and `within`; one of the three is given. The
    statement holds if this is true of the whole 95 % interval of the sum. It fails if the opposite is true of the whole
    interval. Otherwise it is undecided. An interval that ends near its limit gets more resamples (`is_settled_by`).
    """

    says: str
    terms: tuple[tuple[float, Quantity], ...]
    above: float | None = None
    below: float | None = None
    within: float | None = None
    minor: bool = False
    """True if reports show the numbers of the statement only when it does not hold."""

    def judge(self, found: Estimate) -> Verdict:
        """Return the verdict. It is "undecided" if the bootstrap is not precise enough to tell it."""
        return self._judge_interval(*found.interval) if found.interval and self.is_settled_by(found) else "undecided"

    def is_settled_by(self, found: Estimate) -> bool:
        """Return True if the verdict stays the same when the ends of the interval move by their simulation errors."""
        if found.interval is None or found.simulation_errors is None:
            return True
        moved = [(end - error, end + error) for end, error in zip(found.interval, found.simulation_errors, strict=True)]
        return len({self._judge_interval(low, high) for low, high in product(*moved)}) == 1

    def _judge_interval(self, low: float, high: float) -> Verdict:
        if self.within is not None:
            outside = low > self.within or high < -self.within
            return "fails" if outside else "holds" if -self.within <= low and high <= self.within else "undecided"
        if self.below is not None:
            return "holds" if high < self.below else "fails" if low >= self.below else "undecided"
        assert self.above is not None
        return "holds" if low > self.above else "fails" if high <= self.above else "undecided"

    def units_to_decide(self, found: Estimate, units: int) -> int | None:
        """Return with how many seeds or tasks the statement would be expected to be decided; None if with too many.

        The estimate and the spread between units are taken to stay as they are. The verdict is then the one that the
        estimate alone would give.
        """
        assert found.interval is not None
        limits = [limit for limit in (self.above, self.below) if limit is not None]
        if self.within is not None:
            limits = [-self.within, self.within]
            if abs(found.value) > self.within:
                limits = [math.copysign(self.within, found.value)]  # the interval must only leave the nearer limit
        low, high = found.interval
        widths = [found.value - low if limit < found.value else high - found.value for limit in limits]
        ratios = [abs(found.value - limit) / max(width, 1e-12) for limit, width in zip(limits, widths, strict=True)]
        return units_for_narrower_interval(units, min(1.0, *ratios))

    @property
    def rule(self) -> str:
        if self.within is not None:
            return f"within ±{self.within:g}"
        return f"above {self.above:g}" if self.below is None else f"below {self.below:g}"


@dataclass(frozen=True)
class Claim:
    """A finding of the paper, as statements that must all hold."""

    id: str
    says: str
    """The finding in a sentence."""
    statements: tuple[Statement, ...]
    quote: str = ""
    """The words of the paper, where the finding depends on them."""
    earlier: "Claim | None" = None
    """The reading of an earlier version, if the reading was changed after results were known. Reports show both."""

    @property
    def runs(self) -> list[Planned]:
        """The runs that decide the claim and its earlier reading, each once."""
        own = [quantity.run for statement in self.statements for _, quantity in statement.terms]
        return list(dict.fromkeys([*own, *(self.earlier.runs if self.earlier else ())]))


@dataclass(frozen=True)
class JudgedStatement:
    """A statement with its verdict and the numbers behind the verdict."""

    statement: Statement
    verdict: Verdict
    found: Estimate | None
    """The sum of means that the statement is about; None if a run is missing."""
    terms: tuple[tuple[Quantity, Estimate, Estimate], ...]
    """The mean and the inter-quartile mean of each quantity."""
    improvement: Estimate | None
    """The probability that the first quantity is above the second, if the statement compares two; otherwise None."""
    missing: tuple[str, ...]
    """The runs that are not in the folder, or that did not keep the numbers that the statement needs."""
    shortfalls: tuple[str, ...]
    """For each run that is shorter than planned: its name and its amounts, e.g. `multigrid-alpha-1: 2 of 10 seeds`."""
    units: int = 0
    """The number of seeds or of tasks behind the interval, whichever is smaller."""
    has_tasks: bool = False

    @property
    def units_needed(self) -> int | None:
        """The number of seeds (and tasks) that would be expected to decide an undecided statement; None if unknown."""
        if self.verdict != "undecided" or self.found is None or self.found.interval is None:
            return None
        return self.statement.units_to_decide(self.found, self.units)

    @property
    def power(self) -> str:
        """A sentence about what would be expected to decide an undecided statement; empty if it is decided,
        or if a run is missing."""
        if self.verdict != "undecided" or self.missing:
            return ""
        what = "seeds and tasks" if self.has_tasks else "seeds"
        if self.found is None or self.found.interval is None:
            more = f" An interval needs at least {FEWEST} {what}."
        elif self.units_needed is None:
            more = f" The number is so near its limit that more {what} would not be expected to decide it."
        elif self.units_needed > self.units:
            more = f" About {self.units_needed} {what}, instead of {self.units}, would be expected to decide it."
        else:
            more = ""
        return " First, the planned work has to be done." * bool(self.shortfalls) + more

    @property
    def precision(self) -> str:
        """A sentence about an interval that ends near its limit; empty if the usual resamples were enough."""
        found = self.found
        if found is None or not found.interval or not found.simulation_errors or found.resamples <= RESAMPLES:
            return ""
        ends = "[{:.4f}, {:.4f}], each end within {:.4f}".format(*found.interval, max(found.simulation_errors))
        resamples = f"{found.resamples:,}".replace(",", "\N{NO-BREAK SPACE}")
        near = "near" if self.statement.is_settled_by(found) else "within the precision of the bootstrap at"
        return f" The interval ends {near} its limit: with {resamples} resamples it is {ends}.".replace("-", "−")

    def to_dict(self) -> dict[str, Any]:
        errors = self.found and self.found.simulation_errors
        return {
            "says": self.statement.says,
            "verdict": self.verdict,
            "rule": self.statement.rule,
            "found": self.found and self.found.to_dict(),
            "resamples": self.found.resamples if self.found else 0,
            "simulation_errors": errors and list(errors),
            "terms": [
                {"name": quantity.name, "mean": mean.to_dict(), "interquartile_mean": iqm.to_dict()}
                for quantity, mean, iqm in self.terms
            ],
            "probability_of_improvement": self.improvement and self.improvement.to_dict(),
            "units": self.units,
            "units_needed": self.units_needed,
            "missing": list(self.missing),
            "shortfalls": list(self.shortfalls),
        }


@dataclass(frozen=True)
class Decision:
    """A claim with the verdicts on its statements."""

    claim: Claim
    parts: tuple[JudgedStatement, ...]
    earlier: "Decision | None" = None
    """The decision on the earlier reading of the claim, if it has one."""

    @property
    def verdict(self) -> Verdict:
        """The verdict: "fails" if a statement fails, "holds" if all hold, otherwise "undecided"."""
        verdicts = {part.verdict for part in self.parts}
        return "fails" if "fails" in verdicts else "holds" if verdicts == {"holds"} else "undecided"

    @property
    def was_run(self) -> bool:
        """True if all runs of the claim or of its earlier reading are in the folder, at least shorter ones."""
        return not any(part.missing for part in self.parts) or (self.earlier is not None and self.earlier.was_run)

    def to_dict(self) -> dict[str, Any]:
        described = {
            "id": self.claim.id,
            "claim": self.claim.says,
            "verdict": self.verdict,
            "statements": [part.to_dict() for part in self.parts],
        }
        if self.claim.quote:
            described["quote"] = self.claim.quote
        if self.earlier is not None:
            described["earlier"] = {name: value for name, value in self.earlier.to_dict().items() if name != "id"}
        return described


@runtime_checkable
class FindsRuns(Protocol):
    """An object that finds runs, such as a `Store`."""

    def find(self, planned: Planned) -> Stored | None:
        """Return the planned run, or else a shorter one; None if there is neither."""
        ...


def decide_claim(claim: Claim, store: FindsRuns) -> Decision:
    """Decide a claim from the runs in the folder."""
    parts = tuple(_judge_claim_statement(statement, store) for statement in claim.statements)
    return Decision(claim, parts, claim.earlier and decide_claim(claim.earlier, store))


def _judge_claim_statement(statement: Statement, store: FindsRuns) -> JudgedStatement:
    found = {quantity.run: store.find(quantity.run) for _, quantity in statement.terms}
    missing = tuple(run.name for run, stored in found.items() if stored is None)
    shortfalls = tuple(
        f"{run.name}: {stored.shortfall}" for run, stored in found.items() if stored and stored.shortfall
    )
    if missing:
        return JudgedStatement(statement, "undecided", None, (), None, missing, shortfalls)
    samples: list[tuple[float, Quantity, Sample]] = []
    for factor, quantity in statement.terms:
        stored = found[quantity.run]
        assert stored is not None
        try:
            samples.append((factor, quantity, _read_claimed_sample(quantity, stored)))
        # An older run, a run without its evaluation, or one whose files were edited, may not have the numbers.
        except ODD as error:
            missing = (f"{quantity.run.name}, which did not keep its {error}",)
            return JudgedStatement(statement, "undecided", None, (), None, missing, shortfalls)
    if len({_tasks_behind_claim(stored) for stored in found.values()}) > 1:
        missing = tuple(f"{run.name} on the same tasks" for run in found)
        return JudgedStatement(statement, "undecided", None, (), None, missing, shortfalls)
    sum_of_means = contrast_statistic(
        [(factor, sample) for factor, _, sample in samples],
        [quantity.run for _, quantity, _ in samples],
        settled=statement.is_settled_by,
    )
    terms = tuple(
        (quantity, estimate_statistic(sample), estimate_statistic(sample, weighted_interquartile_mean))
        for _, quantity, sample in samples
    )
    verdict = statement.judge(sum_of_means)
    if any(stored.share < ENOUGH for stored in found.values() if stored is not None):
        verdict = "undecided"
    improvement = None
    if [factor for factor, _, _ in samples] == [1.0, -1.0]:
        improvement = probability_of_improvement(samples[0][2], samples[1][2])
    units = min(sample.units for _, _, sample in samples)
    has_tasks = any(sample.task_count > 1 for _, _, sample in samples)
    return JudgedStatement(
        statement, verdict, sum_of_means, terms, improvement, (), shortfalls, units=units, has_tasks=has_tasks
    )


def _read_claimed_sample(quantity: Quantity, stored: Stored) -> Sample:
    """Return the numbers of a quantity. Raises ValueError if they are not all finite, as those of edited files."""
    sample = quantity.read(stored)
    if not np.all(np.isfinite(sample.values)):
        raise ValueError("finite numbers")
    return sample


def _tasks_behind_claim(stored: Stored | None) -> str | None:
    """The tasks of fine-tuning: numbers are compared task by task."""
    if stored is None or "returns" not in stored.summary:
        return None
    return json.dumps(stored.summary.get("tasks"))


def claim_greater(first: Quantity, second: Quantity, by: float = 0.0) -> Statement:
    """State that the first quantity is above the second by more than `by`.

    With a negative `by` the first quantity may be below the second, but not by more than −`by`.
    """
    relation = f"is not more than {-by:g} below" if by < 0 else "is above"
    more = f" by more than {by:g}" if by > 0 else ""
    return Statement(f"{first.name} {relation} {second.name}{more}", ((1.0, first), (-1.0, second)), above=by)


def claim_alike(first: Quantity, second: Quantity, within: float = ALIKE) -> Statement:
    terms = ((1.0, first), (-1.0, second))
    return Statement(f"{first.name} is within {within:g} of {second.name}", terms, within=within)


def claim_above(quantity: Quantity, level: float) -> Statement:
    return Statement(f"{quantity.name} is above {level:g}", ((1.0, quantity),), above=level)


def claim_below(quantity: Quantity, level: float) -> Statement:
    return Statement(f"{quantity.name} is below {level:g}", ((1.0, quantity),), below=level)


def claim_rising(quantities: Sequence[Quantity], slack: float = ALIKE) -> tuple[Statement, ...]:
    """State that the last quantity is above the first, and that no step between goes down by more than `slack`."""
    steps = [
        dataclasses.replace(claim_greater(later, earlier, by=-slack), minor=True)
        for earlier, later in pairwise(quantities)
    ]
    return claim_greater(quantities[-1], quantities[0]), *steps


def claimed_entropy_in(run: Planned, member: str, label: str | None = None) -> Quantity:
    """Return the entropy of a run's final policies in a member."""
    name = f"the entropy of {label or run.label} in {member}"
    return Quantity(name, run, lambda stored: Sample.of_seeds(stored.summary["entropy"][member]))


def claimed_mean_entropy(run: Planned) -> Quantity:
    """Return the mean entropy E^1 under p_M of a run's final policies."""
    return Quantity(f"the mean entropy of {run.label}", run, lambda stored: Sample.of_seeds(stored.summary["mean"]))


def claimed_final_return(run: Finetuning) -> Quantity:
    """Return the final returns of fine-tuning, of every task and seed."""

    return Quantity(
        f"the return after fine-tuning {run.label} in {run.member}", run, lambda stored: claimed_returns_at(stored, -1)
    )


def claimed_mean_return(run: Finetuning) -> Quantity:
    """Return the mean of the returns over all iterations of fine-tuning, of every task and seed."""

    def read(stored: Stored) -> Sample:
        return Sample.of_tasks(_claimed_returns(stored).mean(axis=2).T, stored.policies)

    return Quantity(f"the mean return over fine-tuning {run.label} in {run.member}", run, read)


def claimed_returns_at(stored: Stored, iteration: int) -> Sample:
    """Return the returns at an iteration of fine-tuning, of every task and seed."""
    return Sample.of_tasks(_claimed_returns(stored)[:, :, iteration].T, stored.policies)


def _claimed_returns(stored: Stored) -> Float[np.ndarray, "seeds tasks iterations"]:
    return np.array(stored.summary.get("returns_by_seed") or [stored.summary["returns"]], float)
