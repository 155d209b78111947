"""An experiment of the paper: its claims, its figures, and the runs that both need."""

from dataclasses import dataclass

from alphamepol.reproduction.claims import Claim
from alphamepol.reproduction.drawings import Drawing
from alphamepol.reproduction.planned import Planned


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper."""

    name: str
    """The name on the command line."""
    title: str
    """The heading in the report."""
    claims: tuple[Claim, ...]
    drawings: tuple[Drawing, ...]

    @property
    def runs(self) -> list[Planned]:
        """All runs of the experiment, each once: the runs that decide claims, then runs that only figures show."""
        of_claims = (run for claim in self.claims for run in claim.runs)
        of_drawings = (run for drawing in self.drawings for run in drawing.runs)
        return list(dict.fromkeys([*of_claims, *of_drawings]))
