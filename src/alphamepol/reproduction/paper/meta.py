"""The meta-learning baselines: their training, and TRPO from their policies."""

import numpy as np

from alphamepol.estimation.statistics import Sample
from alphamepol.reproduction import drawings
from alphamepol.reproduction.claims import (
    Claim,
    Quantity,
    claim_above,
    claim_below,
    claim_greater,
    claimed_final_return,
)
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.paper import slope_finetuning
from alphamepol.reproduction.planned import Metatraining
from alphamepol.reproduction.scale import Scale
from alphamepol.reproduction.store import Stored

CLASSES = ("gridworld-slope", "multigrid")
MEMBERS = {"gridworld-slope": ("GWS", "GWN"), "multigrid": ("MG0",)}
ALPHAS = {"gridworld-slope": 0.2, "multigrid": 0.1}
SEEDS = {"gridworld-slope": slope_finetuning.SEEDS, "multigrid": 3}
"""The seeds of fine-tuning per task."""
SEEDS_FROM_DIAYN = 3
"""The seeds of fine-tuning per task from MAML+DIAYN, which is far below αMEPOL."""
GROWTH = 0.5
"""The smallest growth of ln q(z|s), in nats, with which discriminability "grows"; with less it "stalls".

The growth is measured from the first tenth of the epochs to the last tenth.
"""


def experiment(scale: Scale) -> Experiment:
    maml = {name: scale.metatraining(name, "maml-r") for name in CLASSES}
    diayn = {name: scale.metatraining(name, "diayn") for name in CLASSES}
    both = {name: scale.metatraining(name, "maml-diayn", diayn[name]) for name in CLASSES}
    runs = {
        member: [
            scale.finetuning(name, member, init, seeds=SEEDS_FROM_DIAYN if init is both[name] else SEEDS[name])
            for init in (scale.pretraining(name, alpha=ALPHAS[name]), maml[name], both[name], None)
        ]
        for name in CLASSES
        for member in MEMBERS[name]
    }
    of_member = {member: [claimed_final_return(run) for run in runs[member]] for member in runs}
    return Experiment(
        name="meta-training",
        title="Meta-training: MAML+R, DIAYN and MAML+DIAYN",
        claims=(
            Claim(
                "meta",
                "TRPO from αMEPOL beats TRPO from MAML+R and from MAML+DIAYN in GWS, GWN and MultiGrid.",
                tuple(claim_greater(values[0], other) for values in of_member.values() for other in values[1:3]),
            ),
            Claim(
                "meta-adapts",
                "In gridworld-slope, MAML+R gains by its one inner step. DIAYN's discriminability is lower in the "
                "larger multigrid than in gridworld-slope.",
                (
                    claim_above(meta_experiment_inner_gain(maml["gridworld-slope"]), 0.0),
                    claim_greater(
                        meta_experiment_discriminability(diayn["gridworld-slope"]),
                        meta_experiment_discriminability(diayn["multigrid"]),
                    ),
                ),
                quote="fast-adapting behavior of MAML in the GridWorld with Slope; DIAYN struggles to deal with the "
                "larger MultiGrid class",
                earlier=Claim(
                    "meta-adapts",
                    "MAML+R adapts within its one inner step in both classes. DIAYN's discriminability grows in "
                    "gridworld-slope and stalls in multigrid.",
                    (
                        *(claim_above(meta_experiment_inner_gain(run), 0.0) for run in maml.values()),
                        claim_above(meta_experiment_skill_growth(diayn["gridworld-slope"]), GROWTH),
                        claim_below(meta_experiment_skill_growth(diayn["multigrid"]), GROWTH),
                    ),
                ),
            ),
        ),
        drawings=(
            *(drawings.returns_drawing("meta", member, runs[member]) for member in runs),
            *(drawings.adaptation_drawing("meta", maml[name]) for name in CLASSES),
            *(drawings.discriminability_drawing("meta", diayn[name]) for name in CLASSES),
        ),
    )


def meta_experiment_inner_gain(run: Metatraining) -> Quantity:
    """Return the gain in return by the inner step, as the mean of the last ten iterations, per seed."""

    def read(stored: Stored) -> Sample:
        after, before = (np.array(stored.summary[part])[:, -10:] for part in ("return_after", "return_before"))
        return Sample.of_seeds((after - before).mean(axis=1))

    return Quantity(f"the gain by the inner step of {run.label} on {run.class_name}", run, read)


def meta_experiment_discriminability(run: Metatraining) -> Quantity:
    """Return the discriminability at the end: its mean over the last tenth of the epochs, per seed."""

    def read(stored: Stored) -> Sample:
        return Sample.of_seeds(_meta_experiment_first_and_last(stored)[1])

    return Quantity(f"DIAYN's ln q(z|s) at the end on {run.class_name}", run, read)


def meta_experiment_skill_growth(run: Metatraining) -> Quantity:
    """Return the growth of discriminability from the first tenth of the epochs to the last tenth, per seed."""

    def read(stored: Stored) -> Sample:
        first, last = _meta_experiment_first_and_last(stored)
        return Sample.of_seeds(last - first)

    return Quantity(f"the growth of DIAYN's ln q(z|s) on {run.class_name}", run, read)


def _meta_experiment_first_and_last(stored: Stored) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean discriminability over the first and over the last tenth of the epochs, per seed."""
    values = np.array(stored.summary["discriminability"])
    tenth = max(1, values.shape[1] // 10)
    return values[:, :tenth].mean(axis=1), values[:, -tenth:].mean(axis=1)
