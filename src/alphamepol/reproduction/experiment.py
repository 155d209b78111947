"""An experiment of the paper: claims, the runs that decide them, runs to see beside those, and figures."""

from dataclasses import dataclass

from alphamepol.reproduction.claims import Claim
from alphamepol.reproduction.drawings import Drawing
from alphamepol.reproduction.planned import Planned


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
