"""The findings of a diagnosis: sentences in order of importance, and settings to train with."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import preset, usual_preset
from alphamepol.checking.diagnosis_types import Diagnosis, Finding, advised_options
from alphamepol.checking.member_shares import member_shares_of_tail
from alphamepol.checking.obstacles import (
    members_met_by_obstacles,
    obstacles_of_aliasing,
    obstacles_of_cost,
    obstacles_of_early_ends,
    obstacles_of_scales,
)
from alphamepol.estimation.member_distances import pairs_for_distances
from alphamepol.estimation.risk import weighted_cvar
from alphamepol.figures.tables import MOST
from alphamepol.files.names import WIDTH, join_command_words, name_as_text
from alphamepol.measuring.sensitivity import Learned

TRUSTED, SPENT, IDLE = 0.3, 0.1, 0.99
"""Effective shares of samples after an epoch.

From `TRUSTED` on there is enough to learn from. Below `SPENT` there is too little. Above `IDLE` the policy has hardly
moved.
"""
NOISE = 0.05
"""The largest rise of an effective share, from a learning rate to the next larger one, that is taken for chance."""
SAME = 0.1
"""The total variation (the estimate that is too low) below which state distributions are taken for equal."""
CONTRAST = 0.06
"""The largest distance of a step contrast from ½ with which the members of a host class are taken for equal."""
OFTEN_OWN, MOSTLY_OWN = 0.45, 0.6
"""The shares of neighbours of the own trajectory from which on there is a warning, and a serious warning.

The share is 0.54 for pendulums with B = 5, which learn badly (docs/environments.md). It is up to 0.43 for the paper's
gridworlds, which learn well.
"""
UNSTABLE = 0.3
"""The change of an entropy, in nats, from which on there is a warning when k or B is doubled."""


def find_all_findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return all findings: first the serious ones, then those that are good to know.

    A serious obstacle makes all other numbers useless. In this case only the findings up to this obstacle are returned.
    """
    # Scales come first. With huge inputs, a network drives the agent into a corner, where particles coincide.
    found: list[Finding] = []
    for look in (obstacles_of_scales, obstacles_of_early_ends, obstacles_of_aliasing):
        found += look(diagnosis)
        if any(finding.serious for finding in found):
            alone = Finding(
                False,
                "No other findings are shown, because the suggested change affects all other numbers. "
                "Check again after this change.",
            )
            return sorted([*found, alone], key=lambda finding: not finding.serious)
    looks = (
        _findings_of_likeness,
        _findings_of_learning_rate,
        obstacles_of_cost,
        _findings_of_stability,
        _findings_of_draws,
        _findings_of_risk,
        _findings_of_ceiling,
        _findings_of_theory,
    )
    found += [finding for look in looks for finding in look(diagnosis)]
    if not any(finding.serious for finding in found):
        said = (
            f"Nothing stands in the way of training on {name_as_text(diagnosis.class_name, WIDTH)} with these settings."
        )
        found.insert(0, Finding(False, said))
    return sorted(found, key=lambda finding: not finding.serious)


def command_of_findings(diagnosis: Diagnosis, findings: list[Finding]) -> str:
    """Return the command line that trains with the examined settings and the suggested ones."""
    suggested = {name: value for finding in findings for name, value in finding.settings.items()}
    config = dataclasses.replace(diagnosis.config, **suggested)
    usual = preset(usual_preset(diagnosis.class_name), diagnosis.class_name)
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(PretrainConfig)}
    # What a sentence suggests is always on the line, even if it is the default.
    shown = {name: value for name, value in settings.items() if name in suggested or value != getattr(usual, name)}
    return f"{join_command_words(['alphamepol', 'pretrain', diagnosis.class_name])} {advised_options(shown)}".rstrip()


def alike_members_in_findings(found: Diagnosis) -> list[tuple[int, int]]:
    """Return the pairs of compared members that the samples of the policy do not tell apart."""
    numbers = [found.members.index(name) for name in found.bounds.members]
    _, low, high = found.means[:, numbers]
    dynamics, size = found.bounds.dynamics, len(numbers)
    told = np.zeros((size, size), bool)
    if dynamics is not None:
        told = dynamics.starts_differ + dynamics.steps_differ + dynamics.steps_differ.T > 0
    elif found.contrasts is not None:
        told = np.abs(found.contrasts - 0.5) > CONTRAST
    return [
        (numbers[i], numbers[j])
        for i, j in pairs_for_distances(size)
        if not (told[i, j] or told[j, i])
        and found.bounds.variation_low[i, j] < SAME
        and low[i] <= high[j]
        and low[j] <= high[i]
        and found.probabilities[numbers[i]] * found.probabilities[numbers[j]] > 0
    ]


def _findings_of_likeness(found: Diagnosis) -> Iterator[Finding]:
    same = alike_members_in_findings(found)
    if not same:
        return
    how = "they start and step alike" if found.bounds.dynamics else "their states and their steps are alike"
    if len(same) == len(
        pairs_for_distances(len(members_met_by_obstacles(found)))
    ):  # in a large class not all members are compared
        yield Finding(
            True,
            f"All members are the same as far as {found.policy_in_words} can tell ({how}): the class is a single "
            "environment, and α only separates lucky from unlucky mini-batches.",
        )
        return
    shown = "; ".join(f"{found.member_in_words(i)} and {found.member_in_words(j)}" for i, j in same[:5])
    more = f" and {len(same) - 5} more pairs" if len(same) > 5 else ""
    yield Finding(
        True,
        f"Members {shown}{more} are the same as far as {found.policy_in_words} can tell ({how}): one member of each "
        "pair is enough, with the probability of both.",
    )


def _findings_of_learning_rate(found: Diagnosis) -> Iterator[Finding]:
    if not found.learned:
        return
    given = min(found.learned, key=lambda one: abs(math.log(one.rate / found.config.learning_rate)))
    best, noise = largest_rate_of_findings(found.learned), _noise_of_rates_in_findings(found.learned)
    said = f"After one epoch with learning rate {given.rate:.2g}"
    weights = f"importance weights leave {given.effective:.0%} of the samples effective (KL {given.kl:.2g})"
    if given.iterations == 0 or given.effective < SPENT:
        gone = "every step left the trust region" if given.iterations == 0 else weights
        far = f"{said}, {gone}: the policy moves too far from the one that collected the samples"
        if best is not None:
            yield _finding_that_advises_rate(far, best, noise)
        else:
            lowest = f"even the lowest that was tried, {found.learned[0].rate:.2g}, is too large"
            yield Finding(True, f"{far}; check again with a lower --learning-rate, because {lowest}.{noise}")
    elif given.effective > IDLE and best is not None and best.rate > given.rate:
        slow = f"{said}, {weights}: the policy hardly moves, and learning will be slow"
        yield _finding_that_advises_rate(slow, best, noise)
    elif given.effective < TRUSTED:
        lower = f"; learning rate {best.rate:.2g} leaves {best.effective:.0%}" if best else ""
        yield Finding(False, f"{said}, {weights}, which is not much, but enough to learn from{lower}.{noise}")
    elif best is not None and best.rate > given.rate:
        more = f"the largest rate that leaves {TRUSTED:.0%} or more is {best.rate:.2g}"
        yield Finding(False, f"{said}, {weights}, which is enough to learn from; {more}.{noise}")
    elif noise and (best is None or best.rate < given.rate):
        yield Finding(False, f"{said}, {weights}.{noise}")
    else:
        yield Finding(False, f"{said}, {weights}, which is enough to learn from.{noise}")


def largest_rate_of_findings(learned: Sequence[Learned]) -> Learned | None:
    """Return the largest rate that leaves enough effective samples, as all lower rates do; None if there is none.

    A larger rate moves the policy further, and should leave fewer samples effective. If a rate leaves clearly more than
    the rate before it, that is chance. Then neither this rate nor a larger one is chosen.
    """
    best = None
    for one in learned:
        if one.effective < TRUSTED or one.backtracks or (best and one.effective > best.effective + NOISE):
            break
        best = one
    return best


def _noise_of_rates_in_findings(learned: Sequence[Learned]) -> str:
    """Return a sentence if a larger rate leaves clearly more samples effective than a lower one, else an empty string.

    A rate that left the trust region does not count, because its epoch ended early.
    """
    whole = [one for one in learned if not one.backtracks]
    if all(higher.effective <= lower.effective + NOISE for lower, higher in pairwise(whole)):
        return ""
    shares = ", ".join(f"{one.effective:.0%} with {one.rate:.2g}" for one in whole)
    return (
        f" The shares are too noisy to choose a larger rate by, because they do not fall as the rate grows: {shares}."
    )


def _finding_that_advises_rate(said: str, best: Learned, noise: str) -> Finding:
    settings = {"learning_rate": float(f"{best.rate:.2g}")}
    return Finding(
        True, f"{said}; use {advised_options(settings)}, which leaves {best.effective:.0%}.{noise}", settings
    )


def _batch_and_trajectories_from_findings(found: Diagnosis) -> dict[str, int]:
    """Return the `batch` and the `trajectories` that the findings suggest together, where they differ from those given.

    The batch is larger if trajectories are measured mostly against themselves. The number of mini-batches is larger if
    a member is drawn too rarely.
    """
    config = found.config
    batch = (
        4 * config.batch
        if _own_neighbours_in_findings(found)[1] > max(MOSTLY_OWN, 1.5 / config.batch)
        else config.batch
    )
    rarest = _rarest_member_in_findings(found)
    minibatches = _minibatches_to_draw(found, rarest) if _is_drawn_too_rarely(found, rarest) else config.minibatches
    wanted = {"batch": batch, "trajectories": max(minibatches, config.minibatches) * batch}
    return {name: value for name, value in wanted.items() if value != getattr(config, name)}


def _findings_of_stability(found: Diagnosis) -> Iterator[Finding]:
    batch = found.config.batch
    own, share = _own_neighbours_in_findings(found)
    said = f"Member {found.member_in_words(own)}: {share:.0%} of a particle's neighbours are of its own trajectory"
    settings = _batch_and_trajectories_from_findings(found)
    if "batch" in settings:
        yield Finding(
            True,
            f"{said}. Each trajectory is then measured mostly against itself, and all may learn the same path; "
            f"use {advised_options(settings)}, which is a larger batch without fewer mini-batches.",
            settings,
        )
    elif batch > 1 and share > max(OFTEN_OWN, 1.5 / batch):
        yield Finding(
            False,
            f"{said}; if the entropy first rises and then falls during training, use a larger --batch than {batch}.",
        )
    for what, name, sensitivity, given in (
        ("trajectories in a mini-batch", "batch", found.by_batch, batch),
        ("neighbours", "neighbours", found.by_neighbours, found.config.neighbours),
    ):
        if given not in sensitivity.settings or 2 * given not in sensitivity.settings:
            continue
        known = [sensitivity.entropies[sensitivity.settings.index(value)] for value in (given, 2 * given)]
        # A member that is never drawn must not become the hardest one.
        here, twice = (np.where(np.array(found.probabilities) > 0, one, np.inf) for one in known)
        member = max(members_met_by_obstacles(found), key=lambda i: abs(twice[i] - here[i]))
        changed = float(twice[member] - here[member])
        if abs(changed) > UNSTABLE:
            yield Finding(
                False,
                f"The entropy of {found.member_in_words(member)} changes by {changed:+.2f} with twice as many {what}: "
                f"compare entropies only between runs with the same --{name}.",
            )
        elif np.argmin(here) != np.argmin(twice):
            yield Finding(
                False,
                f"The hardest member depends on --{name}: it is {found.member_in_words(int(np.argmin(here)))} with "
                f"{given}, and {found.member_in_words(int(np.argmin(twice)))} with {2 * given}.",
            )


def _findings_of_draws(found: Diagnosis) -> Iterator[Finding]:
    if not found.generated:
        yield from _findings_of_rare_member(found)
    config = found.config
    if config.alpha < 1 and config.tail_size < 3:
        yield Finding(
            False,
            f"The tail has only {config.tail_size} of {config.minibatches} mini-batches (α = {config.alpha:g}): "
            "gradients will be noisy; use more --trajectories.",
        )


def _findings_of_rare_member(found: Diagnosis) -> Iterator[Finding]:
    config = found.config
    rarest = _rarest_member_in_findings(found)
    probability, absent = found.probabilities[rarest], found.draws[rarest].absent
    said = (
        f"Member {found.member_in_words(rarest)} is not drawn in {absent:.0%} of epochs (p = {probability:g}, "
        f"{config.minibatches} mini-batches)"
    )
    enough = f"in 95 % of epochs it is drawn with {_minibatches_to_draw(found, rarest)} mini-batches"
    if _is_drawn_too_rarely(found, rarest):
        settings = {"trajectories": _batch_and_trajectories_from_findings(found)["trajectories"]}
        yield Finding(True, f"{said}; {enough}: use {advised_options(settings)}.", settings)
    elif absent > 0.05:
        yield Finding(False, f"{said}; {enough}.")


def _own_neighbours_in_findings(found: Diagnosis) -> tuple[int, float]:
    """Return the member with the largest share of neighbours of the own trajectory, and this share."""
    own = max(members_met_by_obstacles(found), key=lambda i: found.own_neighbours[i])
    return own, float(found.own_neighbours[own])


def _rarest_member_in_findings(found: Diagnosis) -> int:
    return min(members_met_by_obstacles(found), key=lambda i: found.probabilities[i])


def _is_drawn_too_rarely(found: Diagnosis, member: int) -> bool:
    # In a class of hundreds, every member is drawn rarely, which is no problem.
    drawn = len(members_met_by_obstacles(found))
    return found.draws[member].absent > 0.3 and (drawn <= MOST or found.probabilities[member] < 0.5 / drawn)


def _minibatches_to_draw(found: Diagnosis, member: int) -> int:
    """Return the number of mini-batches with which a member is drawn in 95 % of epochs."""
    probability = found.probabilities[member]
    return math.ceil(math.log(0.05) / math.log1p(-probability)) if probability < 1 else 1


def _findings_of_risk(found: Diagnosis) -> Iterator[Finding]:
    drawn, config = members_met_by_obstacles(found), found.config
    if len(drawn) == 1:
        return
    (means, low, high), alpha = found.means, config.alpha
    hard, easy = (choose(drawn, key=lambda i: means[i]) for choose in (min, max))
    between = found.between
    yield Finding(
        False,
        f"Under {found.policy_in_words} the hardest member is {found.member_in_words(hard)} with entropy "
        f"{_entropy_in_finding(means, low, high, hard)}; the easiest is {found.member_in_words(easy)} with "
        f"{_entropy_in_finding(means, low, high, easy)}. "
        f"{between:.0%} of the variance of entropies is between members, the rest is chance within them."
        f"{'' if found.trained else ' Which member is hard can change as a policy learns: check a run, too.'}",
    )
    weights = np.repeat(np.array(found.probabilities) / found.entropies.shape[1], found.entropies.shape[1])
    if alpha == 1:
        tail = member_shares_of_tail(found.entropies, found.probabilities, 0.2)
        yield Finding(
            False,
            "With α = 1 every member counts with its probability. Of the worst fifth of mini-batches, "
            f"{_most_of_tail_finding(found, tail)}.",
        )
        return
    tail = member_shares_of_tail(found.entropies, found.probabilities, alpha)
    lost = float(weights @ found.entropies.ravel()) - weighted_cvar(found.entropies.ravel(), weights, alpha)
    verdict = (
        "members differ by more than chance, so that α selects hard members, and is worth using"
        if between > 0.5
        else "members hardly differ by more than chance, so that α mostly selects unlucky mini-batches"
        if between < 0.1
        else "α selects both hard members and unlucky mini-batches"
    )
    yield Finding(
        False,
        f"The worst {alpha:.0%} of mini-batches ({config.tail_size} of the "
        f"{config.minibatches} in an epoch) have {lost:.2f} less entropy than the mean of all. Of them, "
        f"{_most_of_tail_finding(found, tail)}: {verdict}.",
    )


def _entropy_in_finding(means: np.ndarray, low: np.ndarray, high: np.ndarray, member: int) -> str:
    return f"{means[member]:.2f} [{low[member]:.2f}, {high[member]:.2f}]"


def _most_of_tail_finding(found: Diagnosis, tail: np.ndarray) -> str:
    order = [int(i) for i in np.argsort(-tail)[:3] if tail[i] > 0.005]
    return ", ".join(f"{tail[i]:.0%} are in {found.member_in_words(i)} (p = {found.probabilities[i]:g})" for i in order)


def _findings_of_ceiling(found: Diagnosis) -> Iterator[Finding]:
    room = np.array(found.ceilings) - found.means[0]
    if np.isfinite(room).all():
        most = max(members_met_by_obstacles(found), key=lambda i: room[i])
        more = f"{room[most]:.2f} more than now" if room[most] > 0 else "less than what is estimated now"
        yield Finding(
            False,
            f"The largest possible entropy is {found.ceilings[most]:.2f} in {found.member_in_words(most)} ({more}). "
            "Estimates can exceed it a little, because the balls around particles reach into walls.",
        )
    else:
        yield Finding(
            False, "The largest possible entropy is not known: the class does not give the volume of its particles."
        )


def _findings_of_theory(found: Diagnosis) -> Iterator[Finding]:
    bounds = found.bounds
    if len(found.members) == 1:
        return
    low, high = bounds.diameter
    step = bounds.one_step_bound
    said = "" if step is None else f", and its one-step bound is {step:.3g}{' (vacuous)' if step >= 1 else ''}"
    some = "" if len(bounds.members) == len(found.members) else f" over {len(bounds.members)} of the members"
    yield Finding(
        False,
        f"The π-diameter is about {low:.2f} to {high:.2f}{some}{said}. Entropies on cells differ by up to "
        f"{bounds.entropy_gap:.2f}; this diameter allows up to {bounds.sharp_entropy_gap_bound:.2f}.",
    )
