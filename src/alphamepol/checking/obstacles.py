"""The findings about problems that make all other numbers useless, or that would stop a run.

These are numbers that are not of order one, early ends, and particles that coincide.
"""

import math
from collections.abc import Iterator

import numpy as np

from alphamepol.checking.component_scales import (
    UNEQUAL,
    WILD,
    component_scale_in_words,
    least_and_most_component_scales,
    wild_component_scale,
)
from alphamepol.checking.diagnosis_types import Diagnosis, Finding, advised_options


def members_met_by_obstacles(found: Diagnosis) -> list[int]:
    """Return the numbers of the members that have a probability above 0."""
    return [i for i, probability in enumerate(found.probabilities) if probability > 0]


def obstacles_of_early_ends(found: Diagnosis) -> Iterator[Finding]:
    k, horizon = found.config.neighbours, found.config.horizon
    short = min(members_met_by_obstacles(found), key=lambda i: (found.smallest[i], found.lengths[i]))
    fewest, coinciding = (
        int(found.smallest[short]),
        max(found.aliasing[i].largest for i in members_met_by_obstacles(found)),
    )
    member, length = found.member_in_words(short), found.lengths[short]
    said = f"Member {member}: trajectories end after {length:.0f} of {horizon} steps on average"
    if fewest <= k:
        possible = max(1, fewest // 4, coinciding)
        if possible < fewest:
            settings, other = {"neighbours": possible}, ", or a larger --batch"
        else:
            settings, other = {"batch": 4 * found.config.batch, "trajectories": 4 * found.config.trajectories}, ""
        yield Finding(
            True,
            f"{said}, and the smallest mini-batch has {fewest} particles, too few for k = {k}; use "
            f"{advised_options(settings)}{other}.",
            settings,
        )
    elif found.lengths[short] < 0.5 * horizon:
        yield Finding(False, f"{said}; entropies of different numbers of particles are a little less comparable.")


def obstacles_of_cost(found: Diagnosis) -> Iterator[Finding]:
    if found.cost is not None:
        yield from (Finding(True, sentence) for sentence in found.cost.warnings)
        yield Finding(False, f"With these settings, a run takes {found.cost.summary}.")


def obstacles_of_aliasing(found: Diagnosis) -> Iterator[Finding]:
    k, drawn = found.config.neighbours, members_met_by_obstacles(found)
    worst = max(drawn, key=lambda i: (found.aliasing[i].largest, found.aliasing[i].coinciding))
    member, alias = found.member_in_words(worst), found.aliasing[worst]
    said = f"Member {member}: {alias.coinciding:.0%} of particles coincide, up to {alias.largest} in one place"
    if alias.largest > k:
        noise = _noise_against_obstacles(found)
        wanted = 10 * math.ceil(1.5 * alias.largest / 10)
        if wanted <= found.fewest // 4:
            settings, why = {"neighbours": wanted}, f", or a feature noise of {noise:g}"
        else:
            settings, why = {"feature_noise": noise}, ", because a safe k would be too large"
        yield Finding(
            True,
            f"{said}: with k = {k} its entropy is minus infinity; use {advised_options(settings)}{why}.",
            settings,
        )
    elif 2 * alias.largest > k:
        more = min(4 * alias.largest, found.fewest - 1)
        yield Finding(
            False,
            f"{said}; k = {k} is just large enough now, but a policy that learns to push into a wall may need "
            f"k = {more}.",
        )
    elif alias.coinciding > 0.01:
        yield Finding(False, f"{said}; k = {k} is safe.")
    bare = max(drawn, key=lambda i: found.bare[i].coinciding)
    if found.bare[bare].coinciding > max(0.5, 2 * alias.coinciding):
        yield Finding(
            False,
            f"Member {found.member_in_words(bare)}: without noise {found.bare[bare].coinciding:.0%} of particles would "
            f"coincide, up to {found.bare[bare].largest} in one place. Entropies are then mostly those of the noise, "
            "and only differences between entropies mean something.",
        )


def _noise_against_obstacles(found: Diagnosis) -> float:
    """Return a hundredth of the typical deviation of particles, in the units in which entropies are estimated."""
    if found.encoded or found.scaled:
        return 0.01
    moving = found.particles.deviation[found.particles.moving]
    typical = float(np.exp(np.mean(np.log(moving)))) if moving.size else 1.0
    return float(f"{0.01 * typical:.1g}")


def obstacles_of_scales(found: Diagnosis) -> Iterator[Finding]:
    off = not found.scaled
    cure = "use --normalise" if off else "--normalise is needed, and is on"
    settings = {"normalise": True} if off else {}
    component = None if found.encoded else wild_component_scale(found.observations)
    if component is not None:
        yield Finding(
            off,
            f"Observations are not of order one: component {component} is "
            f"{component_scale_in_words(found.observations, component)}, where a network "
            f"expects numbers between {1 / WILD:g} and {WILD:g}; {cure}.",
            settings,
        )
    if not found.encoded and found.particles.inequality > UNEQUAL:
        small, large = (int(index) for index in least_and_most_component_scales(found.particles))
        yield Finding(
            off,
            f"Component {small} of the particles hardly counts in the entropy: its deviation is "
            f"{found.particles.deviation[small]:.3g}, but that of component {large} is "
            f"{found.particles.deviation[large]:.3g}. The latter alone decides which particles are neighbours; {cure}.",
            settings,
        )
    actions = found.actions
    if actions is not None and np.isfinite(actions.half_ranges).any():
        ratio = (actions.sigma / actions.half_ranges)[np.isfinite(actions.half_ranges)]
        if ratio.max() > WILD or ratio.min() < 1 / WILD:
            strange = ratio.max() if ratio.max() > WILD else ratio.min()
            yield Finding(
                off,
                f"Actions do not match their range: σ is {strange:.3g} times half of the range, and "
                f"{actions.clipped:.0%} of action components are clipped; "
                f"{'use --normalise, or another --initial-log-std' if off else 'set another --initial-log-std'}.",
                settings,
            )
