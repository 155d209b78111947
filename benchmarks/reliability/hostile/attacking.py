"""The process that attacks: it makes inputs from numbers, gives them to commands, and judges the ends."""

import json
import os
import random
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability.hostile import confinement
from benchmarks.reliability.hostile.confinement import Outcome, alone, begin_no_work, note_begin_of_work, run_confined
from benchmarks.reliability.hostile.judging import EVIL, guard_state, make_guard, violations
from benchmarks.reliability.hostile.mutations import Place, mutate_input
from benchmarks.reliability.hostile.reader_coverage import measured_coverage
from benchmarks.reliability.hostile.tally import Tally
from benchmarks.reliability.hostile.victims import (
    Victim,
    choose_victim,
    command_line_of,
    files_that_are_read,
    lay_out_input,
    possible_pairs,
)
from benchmarks.reliability.hostile.warming import import_everything, take_tiny_settings

REAL = 0.03
"""The share of inputs for which the work of the command is done, too."""
PATIENCE_FOR_WORK = 20.0
"""The seconds after which a command is stopped while it does its work, which is no violation."""
WRITE_EVERY = 10.0
"""The seconds between two writings of the figures."""


@dataclass(frozen=True)
class Assignment:
    """The part of a campaign that one process does. Negative numbers are the originals, which are not mutated."""

    originals: str
    work: str
    """The folder of this process. Its parent folder is shared with the other processes."""
    cache: str
    """The folder of compiled programs."""
    seed: int
    numbers: tuple[int, int, int]
    """The first number, the end, and the step."""
    minutes: float
    commands: tuple[str, ...] = ()
    """The commands that are attacked; empty for all."""
    coverage: str = ""
    """The folder of the data of coverage; empty if it is not measured."""


@dataclass(frozen=True)
class Made:
    """An input, and the command that it is given to."""

    victim: Victim
    target: Path
    about: dict[str, Any]
    """The number, the command, the original and the mutations."""


class Attacker:
    """The maker of inputs, and the judge of the commands that are given them."""

    def __init__(self, assignment: Assignment):
        self.assignment = assignment
        work = Path(assignment.work)
        self.pairs = possible_pairs(Path(assignment.originals), tuple(assignment.commands))
        self.turn, self.place = work.parent / "turn", Place(work / "inside", work / "guard")
        confinement.PROGRAMS = (os.path.realpath(self.place.inside / "own"),)
        self._restore_guard()

    def judge(self, number: int) -> tuple[Outcome, list[str], dict[str, Any]]:
        """Try an input. If it takes too long, try it again while the other processes wait."""
        with alone(self.turn, exclusive=False):
            outcome, found, about = self.attempt(number)
        if "time" in found or (outcome.timed_out and not outcome.noted("work")):
            with alone(self.turn, exclusive=True):
                outcome, found, about = self.attempt(number, patience=4 * confinement.SECONDS)
        return outcome, found, about

    def make(self, number: int) -> Made:
        """Make the input of a number."""
        chance = random.Random(f"{self.assignment.seed}-{number}")
        inside = self.place.inside
        if os.path.lexists(inside):
            shutil.rmtree(inside)
        inside.mkdir()
        victim, original = self.pairs[number] if number < 0 else choose_victim(self.pairs, chance)
        target = lay_out_input(victim, original, Path(self.assignment.originals), inside)
        real = victim.works or (number >= 0 and chance.random() < REAL)
        patterns = files_that_are_read(victim, original)
        kinds, sums = mutate_input(target, self.place, patterns, chance) if number >= 0 else ([], "")
        assert guard_state(self.place.guard) == self.guard, f"input {number} was not made inside its folder: {kinds}"
        about = {"number": number, "command": victim.name, "original": original, "kinds": kinds}
        return Made(victim, target, about | {"sums": sums, "real": real})

    def attempt(
        self, number: int, patience: float = confinement.SECONDS + 1
    ) -> tuple[Outcome, list[str], dict[str, Any]]:
        """Make an input, give it to its command, and judge the end."""
        made = self.make(number)
        covered = Path(self.assignment.coverage) if self.assignment.coverage else None

        def action() -> int:
            (note_begin_of_work if made.about["real"] else begin_no_work)()
            take_tiny_settings()
            with measured_coverage(covered, f"input{number}"):
                return self._give_to_victim(made)

        allowed = Path(self.assignment.cache), *([covered] if covered else [])
        patience = PATIENCE_FOR_WORK if made.about["real"] else patience
        outcome = run_confined(action, self.place.inside, allowed, patience=patience)
        found = violations(outcome, self.place, self.guard, function=made.victim.call is not None)
        if number < 0 and outcome.status != 0:
            found.append("original refused")
        if {"written outside", "program"} & set(found):
            self._restore_guard()
        return outcome, found, made.about

    def _give_to_victim(self, made: Made) -> int:
        if made.victim.call is not None:
            import alphamepol as am

            made.victim.call(am, made.target)
            return 0
        from alphamepol.cli.main import main

        words = command_line_of(made.victim, made.target)
        sys.argv = ["alphamepol", *words]
        return main(words)

    def _restore_guard(self) -> None:
        make_guard(self.place.guard)
        for path in EVIL:
            path.unlink(missing_ok=True)
        self.guard = guard_state(self.place.guard)


def attack(assignment: Assignment) -> None:
    """Try the inputs of an assignment. Write the figures to figures.json in its folder every few seconds."""
    work = Path(assignment.work)
    work.mkdir(parents=True)
    with measured_coverage(Path(assignment.coverage) if assignment.coverage else None, f"imports{os.getpid()}"):
        import_everything()
    attacker, tally = Attacker(assignment), Tally()
    end, written = time.monotonic() + 60 * assignment.minutes, 0.0
    for number in range(*assignment.numbers):
        tally.add(*attacker.judge(number))
        if time.monotonic() - written > WRITE_EVERY:
            write_figures(tally, work)
            written = time.monotonic()
        if time.monotonic() > end:
            break
    write_figures(tally, work)


def write_figures(tally: Tally, work: Path) -> None:
    temporary = work / "figures.tmp"
    temporary.write_text(json.dumps(tally.to_dict()))
    temporary.replace(work / "figures.json")
