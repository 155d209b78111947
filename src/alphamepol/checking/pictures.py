"""The pictures of a diagnosis."""

from pathlib import Path

import numpy as np

from alphamepol.checking.diagnosis_types import Diagnosis
from alphamepol.checking.findings import SPENT, TRUSTED
from alphamepol.checking.member_shares import member_shares_of_tail
from alphamepol.environments.host import AnyClass
from alphamepol.figures.class_check import (
    Distances,
    MemberEntropies,
    Panel,
    RateLimits,
    draw_class_check_distances,
    draw_class_check_entropies,
    draw_class_check_rates,
    draw_class_check_stability,
)
from alphamepol.figures.heat_maps import draw_heat_maps
from alphamepol.measuring.exploration import Evaluation

CAPTIONS = {
    "check-entropies": "Left: the entropy of mini-batches in each member (dots), their mean with its 95 % interval, "
    "and the largest possible entropy where it is known (grey). Right: the probability of each member, and its share "
    "of the tail.",
    "check-stability": "The entropy of each member with other settings of the estimator. The dashed line is the given "
    "setting.",
    "check-rates": "One epoch with different learning rates, from the same samples. Left: the effective share of "
    "importance-weighted samples in the median mini-batch and in the worst. Right: the KL divergence.",
    "check-distances": "The distances between members: the total variation and the Wasserstein distance of their state "
    "distributions, and the difference of single steps. In a compiled class, this is the share of steps in the row's "
    "member that end differently in the column's member. In a host class, the most similar steps of both members are "
    "compared with each step in the row's member. The number says how often that of the column's member differs more "
    "(0.5: steps do not tell the members apart).",
    "heat-maps": "The places that the policy visits in each member.",
}
"""The caption of each picture, by its name."""


def draw_check_pictures(found: Diagnosis, environment_class: AnyClass, folder: Path) -> list[Path]:
    """Draw all pictures that the diagnosis allows, and return their paths.

    The pictures of an earlier check are removed first.
    """
    for name in CAPTIONS:
        for suffix in ("png", "csv"):
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    config = found.config
    tail = member_shares_of_tail(found.entropies, found.probabilities, config.alpha)
    shown = found.members, found.probabilities, found.entropies, found.means, found.ceilings
    draw_class_check_entropies(MemberEntropies(*shown, tail, config.alpha, found.policy), folder, "check-entropies")
    panels = [
        Panel("k, the number of neighbours", found.by_neighbours, config.neighbours),
        Panel("B, the trajectories of a mini-batch", found.by_batch, config.batch),
    ]
    draw_class_check_stability(panels, found.members, folder, "check-stability")
    if found.learned:
        limits = RateLimits(config.learning_rate, config.trust_region, TRUSTED, SPENT)
        draw_class_check_rates(found.learned, limits, folder, "check-rates")
    if len(found.members) > 1:
        draw_class_check_distances(_matrices_for_check_pictures(found), found.bounds.members, folder, "check-distances")
    draw_heat_maps({found.policy: _evaluation_for_check_pictures(found)}, environment_class, folder)
    return [path for name in CAPTIONS if (path := folder / f"{name}.png").is_file()]


def _matrices_for_check_pictures(found: Diagnosis) -> list[Distances]:
    bounds = found.bounds
    matrices = [
        Distances("total variation", bounds.variation_high),
        Distances("Wasserstein distance", bounds.wasserstein, most=None),
    ]
    if bounds.dynamics is not None:
        matrices.append(Distances("steps that differ", bounds.dynamics.steps_differ))
    elif found.contrasts is not None:
        told_apart = np.where(np.eye(len(bounds.members)), 0.0, found.contrasts)
        matrices.append(Distances("told apart by a step", told_apart))
    return matrices


def _evaluation_for_check_pictures(found: Diagnosis) -> Evaluation:
    """Return an evaluation with the fields that a heat-map needs."""
    visits = found.visits
    return Evaluation(
        class_name=found.class_name,
        members=found.members,
        probabilities=found.probabilities,
        alpha=found.config.alpha,
        seeds=(found.config.seed,),
        ceilings=found.ceilings,
        entropies=found.entropies[None],
        trajectory_entropies=np.zeros((1, len(found.members), 0)),
        visits=visits and type(visits)(visits.shares[None], visits.extent),
        trails=None,
    )
