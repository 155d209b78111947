"""What an experiment is: claims, the runs that decide them, those to see beside them, and figures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alphamepol.experiments.claims import Claim
from alphamepol.experiments.figures import Found
from alphamepol.experiments.planned import Planned


@dataclass(frozen=True)
class Drawing:
    """A figure of an experiment, made from those of its runs that are there."""

    name: str
    """Of its files."""
    caption: str
    runs: tuple[Planned, ...]
    draw: Callable[[Found, Path, str], None]
    """Given the runs found, in the order of `runs`, a folder and the name; drawn only if some are, or none is asked."""


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper."""

    name: str
    title: str
    claims: tuple[Claim, ...]
    drawings: tuple[Drawing, ...]

    @property
    def runs(self) -> list[Planned]:
        """All of them, each once: those that decide claims, and those to see beside them."""
        of_claims = (run for claim in self.claims for run in claim.runs)
        of_drawings = (run for drawing in self.drawings for run in drawing.runs)
        return list(dict.fromkeys([*of_claims, *of_drawings]))
