"""The baseline b = −VaR of the on-policy gradient: the same performance with less variance."""

import dataclasses
from pathlib import Path

import numpy as np

from alphamepol.estimation.statistics import Sample, estimate_statistic
from alphamepol.figures.bars import draw_bars
from alphamepol.figures.style import DrawnFigure
from alphamepol.reproduction.claims import Claim, Quantity, claim_above, claim_alike
from alphamepol.reproduction.drawings import Drawing, Found
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import GradientVariance, Planned, Pretraining
from alphamepol.reproduction.scale import Scale, ScaleName
from alphamepol.reproduction.store import Stored

CLASS, ALPHA = "gridworld-slope", 0.35
EPOCHS: dict[ScaleName, int] = {"paper": 300, "quick": 60}
LEARNING_RATES: dict[ScaleName, float] = {"paper": 1e-4, "quick": 3e-4}
"""An on-policy epoch takes one step and an off-policy epoch up to thirty, so epochs and rates are larger here."""
BATCHES = 50


def experiment(scale: Scale) -> Experiment:
    with_b, without = (_baseline_experiment_run(scale, baseline=baseline) for baseline in (True, False))
    variances = [GradientVariance(run, BATCHES if scale.name == "paper" else 10) for run in (with_b, without)]
    names = {with_b: "with b", without: "without b"}
    return Experiment(
        name="baseline",
        title="The baseline of the on-policy gradient",
        claims=(
            Claim(
                "baseline",
                "With α = 0.35, the performance with and without the baseline b is the same, and the variance of the "
                "gradient is smaller with b.",
                (
                    claim_alike(
                        baseline_experiment_worst_entropy(with_b, "with b"),
                        baseline_experiment_worst_entropy(without, "without b"),
                    ),
                    *(claim_above(baseline_experiment_excess_variance(run, names[run.init]), 0.0) for run in variances),
                ),
            ),
        ),
        drawings=(
            Drawing(
                "baseline-variance",
                "Variance of the on-policy gradient from batch to batch, summed over all parameters, for the final "
                "policies.",
                tuple(variances),
                _draw_baseline_experiment_variances,
            ),
        ),
    )


def _baseline_experiment_run(scale: Scale, *, baseline: bool) -> Pretraining:
    config = dataclasses.replace(
        scale.pretraining(CLASS, alpha=ALPHA, seeds=4).config,
        update="on-policy",
        baseline=baseline,
        epochs=EPOCHS[scale.name],
        learning_rate=LEARNING_RATES[scale.name],
    )
    return Pretraining(CLASS, config)


def baseline_experiment_worst_entropy(run: Planned, label: str) -> Quantity:
    """Return E^α of the final policies, per seed."""
    return Quantity(f"E^0.35 of policies trained {label}", run, lambda stored: Sample.of_seeds(stored.summary["cvar"]))


def baseline_experiment_excess_variance(run: GradientVariance, label: str) -> Quantity:
    """Return ln of the ratio of the variance without b to the variance with b, on the same batches, per seed."""

    def read(stored: Stored) -> Sample:
        without, with_b = (np.array(stored.summary[f"variance_{part}"]) for part in ("without", "with_baseline"))
        return Sample.of_seeds(np.log(without / with_b))

    return Quantity(f"ln (gradient variance without b / with b) of policies trained {label}", run, read)


def _draw_baseline_experiment_variances(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    groups = {}
    for run, stored in found.items():
        assert isinstance(run, GradientVariance)
        label = "trained with b" if run.init.config.baseline else "trained without b"
        parts = {"gradient with b": "with_baseline", "gradient without b": "without"}
        groups[label] = {
            shown: estimate_statistic(Sample.of_seeds(np.log10(stored.summary[f"variance_{part}"])))
            for shown, part in parts.items()
        }
    if groups:
        return draw_bars(groups, folder, name, label="log10 of the variance")
    return None
