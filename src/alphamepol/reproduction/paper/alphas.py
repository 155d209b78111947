"""gridworld-slope with six values of α: a smaller α shifts exploration to the adverse member."""

from pathlib import Path

from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic
from alphamepol.figures.bars import draw_bars
from alphamepol.figures.style import DrawnFigure
from alphamepol.reproduction.claims import Claim, Quantity, claim_rising, claimed_entropy_in
from alphamepol.reproduction.drawings import Drawing, Found
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import Planned, Pretraining
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLASS, MEMBERS = "gridworld-slope", ("GWS", "GWN")
ALPHAS = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1)


def experiment(scale: Scale) -> Experiment:
    runs = [scale.pretraining(CLASS, alpha=alpha) for alpha in ALPHAS]
    beside = (scale.untrained(CLASS), *(scale.specialist(CLASS, number, 2, seeds=5) for number in range(2)))
    return Experiment(
        name="alphas",
        title="gridworld-slope: α from 1 to 0.1",
        claims=(
            Claim(
                "alpha-dial",
                "Lowering α (1, 0.7, 0.5, 0.35, 0.2, 0.1) raises the entropy in GWN and lowers the entropy in GWS.",
                (
                    *claim_rising([claimed_entropy_in(run, "GWN") for run in runs]),
                    *claim_rising([claimed_entropy_in(run, "GWS") for run in reversed(runs)]),
                ),
            ),
            Claim(
                "alpha-composition",
                "The smaller α is, the larger is the share of GWN in the tail of the first epochs.",
                claim_rising([alphas_experiment_tail_share(run, "GWN") for run in runs], slack=0.05),
            ),
        ),
        drawings=(
            Drawing(
                "alpha-entropies",
                "State entropy in each member for each α, with 95 % intervals over seeds. The dashed line is the "
                "ceiling.",
                (*runs, *beside),
                _draw_alphas_experiment_entropies,
            ),
            Drawing(
                "alpha-composition",
                "The share of GWN in the mini-batches that the first ten epochs learn from. GWN has probability 0.2.",
                tuple(runs),
                _draw_alphas_experiment_shares,
            ),
        ),
    )


def alphas_experiment_tail_share(run: Planned, member: str) -> Quantity:
    """Return the share of a member in the tail of the first ten epochs."""

    def read(stored: Stored) -> Sample:
        return Sample.of_seeds(stored.summary["first_tail_share"][member])

    return Quantity(f"the share of {member} in the tail of {run.label}", run, read)


def _draw_alphas_experiment_entropies(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    groups: dict[str, dict[str, Estimate]] = {}
    for run, stored in found.items():
        for number, member in enumerate(MEMBERS):
            if run.member_alone in (None, number):
                values = estimate_statistic(claimed_entropy_in(run, member).read(stored))
                groups.setdefault(_alphas_experiment_group(run), {})[member] = values
    # GWS has the same map and so the same ceiling.
    ceiling: float = next(iter(found.values())).summary["ceiling"]["GWN"]
    return draw_bars(groups, folder, name, label="state entropy", levels=dict.fromkeys(groups, ceiling))


def _draw_alphas_experiment_shares(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    groups = {
        _alphas_experiment_group(run): {
            "GWN": estimate_statistic(alphas_experiment_tail_share(run, "GWN").read(stored))
        }
        for run, stored in found.items()
    }
    return draw_bars(groups, folder, name, label="share of the tail")


def _alphas_experiment_group(run: Planned) -> str:
    if not isinstance(run, Pretraining):
        return run.label
    return f"α = {run.config.alpha:g}" if run.member_alone is None else "alone"
