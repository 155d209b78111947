"""The baseline b = −VaR of the on-policy gradient: the same performance with a little less variance."""

import dataclasses
from pathlib import Path

import numpy as np
from jaxtyping import Float

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.estimation.statistics import Estimate, Sample, estimate_statistic
from alphamepol.figures.bars import draw_bars
from alphamepol.figures.style import DrawnFigure
from alphamepol.reproduction.claims import Claim, Quantity, claim_above, claim_alike, claim_greater
from alphamepol.reproduction.drawings import Drawing, Found
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.planned import GradientVariance, Pretraining
from alphamepol.reproduction.scale import Scale, ScaleName
from alphamepol.reproduction.store import Stored

CLASS, ALPHA, SEEDS = "gridworld-slope", 0.35, 16
EPOCHS: dict[ScaleName, int] = {"paper": 300, "quick": 60}
LEARNING_RATES: dict[ScaleName, float] = {"paper": 1e-4, "quick": 3e-4}
"""An on-policy epoch takes one step and an off-policy epoch up to thirty, so epochs and rates are larger here."""
CHECKPOINTS = 5
"""The number of times along training at which the gradient is measured, the end included."""
BATCHES: dict[ScaleName, int] = {"paper": 20, "quick": 5}
"""The number of batches at each of these times."""
FINAL_BATCHES: dict[ScaleName, int] = {"paper": 50, "quick": 10}
"""The number of batches with which the earlier reading measures the final policies."""


def experiment(scale: Scale) -> Experiment:
    with_b, without = runs = [_baseline_experiment_run(scale, baseline=baseline) for baseline in (True, False)]
    along = [
        GradientVariance(run, BATCHES[scale.name], _baseline_experiment_checkpoints(run.config.epochs)) for run in runs
    ]
    final = [GradientVariance(run, FINAL_BATCHES[scale.name]) for run in runs]
    alike = claim_alike(baseline_experiment_worst_entropy(with_b), baseline_experiment_worst_entropy(without))
    return Experiment(
        name="baseline",
        title="The baseline of the on-policy gradient",
        claims=(
            Claim(
                "baseline",
                "With α = 0.35, the performance with and without the baseline b is essentially the same. Along each "
                "variant's own training, the gradient of the policy's mean varies slightly less with b.",
                (
                    alike,
                    claim_greater(
                        baseline_experiment_variance_along_training(along[1]),
                        baseline_experiment_variance_along_training(along[0]),
                    ),
                ),
                quote="essentially the same … suggests a slightly inferior variance",
                earlier=Claim(
                    "baseline",
                    "With α = 0.35, the performance with and without the baseline b is the same, and the variance of "
                    "the gradient is smaller with b.",
                    (alike, *(claim_above(baseline_experiment_excess_variance(run), 0.0) for run in final)),
                ),
            ),
        ),
        drawings=(
            Drawing(
                "baseline-variance-along-training",
                "Variance of each variant's own gradient from batch to batch, summed over the parameters of the "
                "policy's mean, for the policies along its training: means over seeds with 95 % intervals.",
                tuple(along),
                _draw_baseline_experiment_training,
            ),
            Drawing(
                "baseline-variance",
                "Variance of the on-policy gradient from batch to batch, summed over all parameters, for the final "
                "policies.",
                tuple(final),
                _draw_baseline_experiment_variances,
            ),
        ),
    )


def _baseline_experiment_run(scale: Scale, *, baseline: bool) -> Pretraining:
    epochs = EPOCHS[scale.name]
    config = dataclasses.replace(
        scale.pretraining(CLASS, alpha=ALPHA, seeds=SEEDS).config,
        update="on-policy",
        baseline=baseline,
        epochs=epochs,
        learning_rate=LEARNING_RATES[scale.name],
        checkpoint_every=_baseline_experiment_checkpoints(epochs)[0],
        keep_checkpoints="all",
    )
    return Pretraining(CLASS, config)


def _baseline_experiment_checkpoints(epochs: int) -> tuple[int, ...]:
    """Return the numbers of epochs after which the gradient is measured, e.g. 60, 120, 180, 240 and 300."""
    every = max(1, epochs // CHECKPOINTS)
    return tuple(range(every, epochs + 1, every))


def _baseline_experiment_variant(config: PretrainConfig) -> str:
    return "with b" if config.baseline else "without b"


def baseline_experiment_worst_entropy(run: Pretraining) -> Quantity:
    """Return E^α of the final policies, per seed."""
    name = f"E^0.35 of policies trained {_baseline_experiment_variant(run.config)}"
    return Quantity(name, run, lambda stored: Sample.of_seeds(stored.summary["cvar"]))


def baseline_experiment_variance_along_training(run: GradientVariance) -> Quantity:
    """Return ln of the variance of the variant's own gradient in the policy's mean, averaged over training, per seed.

    The logarithm is averaged, so that every time along training counts alike.
    """
    variant = _baseline_experiment_variant(run.config)
    return Quantity(
        f"the mean ln variance of the gradient of the policy's mean along training {variant}",
        run,
        lambda stored: Sample.of_seeds(np.log(_baseline_experiment_own_variances(run, stored)).mean(axis=1)),
    )


def _baseline_experiment_own_variances(run: GradientVariance, stored: Stored) -> Float[np.ndarray, "seeds checkpoints"]:
    """Return the variances of the gradient that the run itself followed, summed over the parameters of the mean."""
    own = "with_baseline" if run.config.baseline else "without"
    return np.array(stored.summary[f"action_mean_variance_{own}"], float)


def baseline_experiment_excess_variance(run: GradientVariance) -> Quantity:
    """Return ln of the ratio of the variance without b to the variance with b, on the same batches, per seed."""

    def read(stored: Stored) -> Sample:
        without, with_b = (np.array(stored.summary[f"variance_{part}"]) for part in ("without", "with_baseline"))
        return Sample.of_seeds(np.log(without / with_b))

    variant = _baseline_experiment_variant(run.config)
    return Quantity(f"ln (gradient variance without b / with b) of policies trained {variant}", run, read)


def _draw_baseline_experiment_training(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    groups: dict[str, dict[str, Estimate]] = {}
    for run, stored in found.items():
        assert isinstance(run, GradientVariance)
        variances = np.log10(_baseline_experiment_own_variances(run, stored))
        for epoch, values in zip(stored.summary["checkpoints"], variances.T, strict=True):
            variant = _baseline_experiment_variant(run.config)
            groups.setdefault(f"epoch {epoch}", {})[variant] = estimate_statistic(Sample.of_seeds(values))
    if groups:
        return draw_bars(groups, folder, name, label="log10 of the variance")
    return None


def _draw_baseline_experiment_variances(found: Found, folder: Path, name: str) -> DrawnFigure | None:
    groups = {}
    for run, stored in found.items():
        assert isinstance(run, GradientVariance)
        label = f"trained {_baseline_experiment_variant(run.config)}"
        parts = {"gradient with b": "with_baseline", "gradient without b": "without"}
        groups[label] = {
            shown: estimate_statistic(Sample.of_seeds(np.log10(stored.summary[f"variance_{part}"])))
            for shown, part in parts.items()
        }
    if groups:
        return draw_bars(groups, folder, name, label="log10 of the variance")
    return None
