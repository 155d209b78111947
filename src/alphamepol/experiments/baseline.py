"""The baseline b = −VaR of the on-policy gradient: same performance, less variance?"""

from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.experiments import figures
from alphamepol.experiments.claims import Claim, Quantity, above, alike
from alphamepol.experiments.experiment import Drawing, Experiment
from alphamepol.experiments.figures import Found
from alphamepol.experiments.planned import GradientVariance, Planned
from alphamepol.experiments.scale import Scale, ScaleName
from alphamepol.experiments.store import Stored
from alphamepol.statistics import Sample, estimate

CLASS, ALPHA = "gridworld-slope", 0.35
SETTINGS: dict[ScaleName, dict[str, Any]] = {
    "paper": {"epochs": 300, "learning_rate": 1e-4},
    "quick": {"epochs": 60, "learning_rate": 3e-4},
}
"""On-policy epochs take one step where off-policy ones take thirty: more of both."""
BATCHES = 50


def experiment(scale: Scale) -> Experiment:
    settings = {"seeds": 4, "alpha": ALPHA, "update": "on-policy", **SETTINGS[scale.name]}
    with_b, without = (scale.pretraining(CLASS, **settings, baseline=baseline) for baseline in (True, False))
    variances = [GradientVariance(run, BATCHES if scale.name == "paper" else 10) for run in (with_b, without)]
    names = {with_b: "with b", without: "without b"}
    return Experiment(
        name="baseline",
        title="The baseline of the on-policy gradient",
        claims=(
            Claim(
                "baseline",
                "α = 0.35, with and without b: same performance, smaller gradient variance with b",
                (
                    alike(worst(with_b, "with b"), worst(without, "without b")),
                    *(above(excess_variance(run, names[run.init]), 0.0) for run in variances),
                ),
            ),
        ),
        drawings=(
            Drawing(
                "baseline-variance",
                "Variance of the on-policy gradient from batch to batch, summed over all parameters, at final policies",
                tuple(variances),
                _variances,
            ),
        ),
    )


def worst(run: Planned, label: str) -> Quantity:
    """E^α of the final policies, per seed."""
    return Quantity(f"E^0.35 {label}", run, lambda stored: Sample.of_seeds(stored.summary["cvar"]))


def excess_variance(run: GradientVariance, label: str) -> Quantity:
    """ln of the variance without b over that with it, on the same batches, per seed."""

    def read(stored: Stored) -> Sample:
        without, with_b = (np.array(stored.summary[f"variance_{part}"]) for part in ("without", "with_baseline"))
        return Sample.of_seeds(np.log(without / with_b))

    return Quantity(f"ln (variance without b / with b) at policies trained {label}", run, read)


def _variances(found: Found, folder: Path, name: str) -> None:
    groups = {}
    for run, stored in found.items():
        assert isinstance(run, GradientVariance)
        label = "trained with b" if run.init.config.baseline else "trained without b"
        parts = {"gradient with b": "with_baseline", "gradient without b": "without"}
        groups[label] = {
            shown: estimate(Sample.of_seeds(np.log10(stored.summary[f"variance_{part}"])))
            for shown, part in parts.items()
        }
    if groups:
        figures.bars(groups, folder, name, ylabel="log10 of the variance")
