"""Classes whose members are about equally hard: there risk aversion should make no difference."""

import dataclasses
from functools import partial

from alphamepol.experiments import figures
from alphamepol.experiments.claims import Claim, Quantity, alike, entropy_in, mean_entropy
from alphamepol.experiments.experiment import Drawing, Experiment
from alphamepol.experiments.planned import Planned
from alphamepol.experiments.scale import Scale
from alphamepol.experiments.store import Stored
from alphamepol.statistics import Sample

GRID, MINIGRID = "gridworld-counterexample", "minigrid-counterexample"
ENCODED = 5.0
"""Nats of the 64 random features of a MiniGrid view that are about the same: untrained policies lie 75 lower."""


def gridworld(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(GRID, seeds=4, alpha=alpha) for alpha in (0.35, 1.0))
    random, alone = scale.untrained(GRID, seeds=4), [scale.specialist(GRID, number, 2) for number in range(2)]
    names = {risk_averse: risk_averse.label, neutral: neutral.label, random: random.label}
    names |= dict.fromkeys(alone, "alone")
    same = [
        alike(entropy_in(risk_averse, member), entropy_in(neutral, member)) for member in ("four-rooms", "two-halls")
    ]
    return Experiment(
        name="counter-gridworld",
        title="gridworld-counterexample: two maps, equally hard",
        claims=(
            Claim(
                "counter-grid",
                "gridworld-counterexample: αMEPOL (0.35) ≈ MEPOL everywhere (50 epochs)",
                (alike(mean_entropy(risk_averse), mean_entropy(neutral)), *same),
            ),
        ),
        drawings=(
            Drawing(
                "counter-grid-entropies",
                "State entropy on two maps that are equally hard.",
                (risk_averse, neutral, random, *alone),
                partial(figures.entropies, names=names),
            ),
            Drawing(
                "counter-grid-heat-maps",
                "Where each method goes.",
                (neutral, risk_averse, random),
                partial(figures.heat_maps, names=names),
            ),
        ),
    )


def minigrid(scale: Scale) -> Experiment:
    risk_averse, neutral = (scale.pretraining(MINIGRID, seeds=8, alpha=alpha) for alpha in (0.2, 1.0))
    random = scale.untrained(MINIGRID, seeds=8)
    names = {risk_averse: risk_averse.label, neutral: neutral.label, random: random.label}
    return Experiment(
        name="counter-minigrid",
        title="minigrid-counterexample: Unlock and ObstructedMaze",
        claims=(
            Claim(
                "counter-minigrid",
                "minigrid-counterexample: αMEPOL (0.2) ≈ MEPOL on E^0.2 (8 seeds)",
                (alike(worst_fifth(risk_averse), worst_fifth(neutral), ENCODED),),
            ),
        ),
        drawings=(
            Drawing(
                "counter-minigrid-entropies",
                "Entropy of the randomly encoded view in each member.",
                (risk_averse, neutral, random),
                partial(figures.entropies, names=names),
            ),
        ),
    )


def worst_fifth(run: Planned) -> Quantity:
    """E^0.2 under p_M, per seed; of the entropies of fresh mini-batches, whatever α the run had."""

    def read(stored: Stored) -> Sample:
        return Sample.of_seeds(dataclasses.replace(stored.evaluation, alpha=0.2).cvar)

    return Quantity(f"E^0.2 of {run.label}", run, read)
