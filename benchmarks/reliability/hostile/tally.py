"""The figures of a campaign: counts, the slowest and largest inputs, and all violations."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.reliability.hostile.confinement import Outcome
from benchmarks.reliability.hostile.judging import signature

COUNTED = ("totals", "outcomes", "violations", "commands", "kinds")
MOST = 10
"""The number of slowest and of largest inputs that are listed."""


@dataclass
class Tally:
    """The figures of one process, or of all."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in COUNTED})
    slowest: list[dict[str, Any]] = field(default_factory=list)
    largest: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    """The seconds of computing, by command."""

    def add(self, outcome: Outcome, found: list[str], about: dict[str, Any]) -> None:
        """Count one input: the end of its command, the violations, and what is known about the input."""
        ended = f"status {outcome.status}"
        if outcome.noted("read"):
            ended = "read, before the work"
        elif outcome.noted("work"):
            ended = "worked"
        self.counts["totals"].update(["inputs"] + [about["sums"]] * bool(about["sums"]))
        self.counts["outcomes"][ended] += 1
        self.counts["violations"].update(found)
        self.counts["commands"][about["command"]] += 1
        self.counts["kinds"].update({kind.split("+")[0] for kind in about["kinds"]} or {"none"})
        self.cpu[about["command"]] = self.cpu.get(about["command"], 0.0) + outcome.cpu
        one = about | {"seconds": round(outcome.seconds, 2), "cpu": round(outcome.cpu, 2), "mib": outcome.peak >> 20}
        if not outcome.noted("work"):
            self._rank([one], [one])
        if found:
            said = outcome.err.decode("utf-8", "replace")[-600:]
            notes = [note for note in outcome.notes if note["kind"] in ("write", "program")][:3]
            more = {"violations": found, "signature": signature(outcome), "status": outcome.status, "said": said}
            self.failures.append(one | more | {"notes": notes})

    def merge(self, other: dict[str, Any]) -> None:
        """Add the figures of another process."""
        for name, counts in self.counts.items():
            counts.update(other[name])
        for name, seconds in other["cpu_seconds"].items():
            self.cpu[name] = self.cpu.get(name, 0.0) + seconds
        self._rank(other["slowest"], other["largest"])
        self.failures += other["failures"]

    def _rank(self, slow: list[dict[str, Any]], large: list[dict[str, Any]]) -> None:
        self.slowest = sorted([*self.slowest, *slow], key=lambda one: -one["seconds"])[:MOST]
        self.largest = sorted([*self.largest, *large], key=lambda one: -one["mib"])[:MOST]

    def to_dict(self) -> dict[str, Any]:
        counted = {name: dict(counts.most_common()) for name, counts in self.counts.items()}
        return counted | {
            "cpu_seconds": {name: round(seconds, 1) for name, seconds in self.cpu.items()},
            "slowest": self.slowest,
            "largest": self.largest,
            "failures": self.failures,
        }
