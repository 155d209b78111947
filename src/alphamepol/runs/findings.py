"""What a diagnosis means for somebody who wants to train: sentences in order of importance, and settings."""

import dataclasses
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphamepol.diagnostics import UNEQUAL, WILD, Scale, share_between, tail_shares, wild_component
from alphamepol.estimation.risk import tail_count, weighted_cvar
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.diagnose import Diagnosis, Learned
from alphamepol.runs.presets import preset, usual_preset
from alphamepol.runs.tables import MOST
from alphamepol.statistics import bootstrap_interval
from alphamepol.theory import pairs

TRUSTED, SPENT, IDLE = 0.3, 0.1, 0.99
"""Effective shares of samples: enough to learn from; too little; so much that the policy has hardly moved."""
SAME = 0.1
"""Total variation up to which state distributions are taken for equal where states cannot be compared."""
CONTRAST = 0.06
"""How far from one half steps may tell members apart that are still taken for equal."""
OFTEN_OWN, MOSTLY_OWN = 0.45, 0.6
"""Shares of neighbours of the own trajectory: of pendulums with B = 5, which learn badly (docs/environments.md), it is
0.54; of the paper's gridworlds, which learn well, up to 0.43."""
UNSTABLE = 0.3
"""Nats that an estimate should not change by when twice as much is measured together."""


@dataclass(frozen=True)
class Finding:
    """A sentence; `serious` if something should be done before training; and what should be set for it."""

    serious: bool
    sentence: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def without_settings(self) -> "Finding":
        """The same, of a measurement that will be another once something else is set."""
        return Finding(self.serious, self.sentence)


def find(diagnosis: Diagnosis) -> list[Finding]:
    """All findings: what stands in the way first, in the order in which it would; then what is good to know."""
    # Scales come first: a network that sees huge numbers drives an agent into a corner, where particles coincide.
    looks = (_scales, _ends, _aliasing, _likeness, _rate, _stability, _lots, _risk, _ceiling, _theory)
    found = [finding for look in looks for finding in look(diagnosis)]
    if any("normalise" in finding.settings for finding in found):
        found = [finding if "normalise" in finding.settings else finding.without_settings() for finding in found]
    if not any(finding.serious for finding in found):
        said = f"Nothing stands in the way of training on {diagnosis.class_name} with these settings."
        found.insert(0, Finding(False, said))
    return sorted(found, key=lambda finding: not finding.serious)


def command(diagnosis: Diagnosis, findings: list[Finding]) -> str:
    """The line that trains with the settings which were looked at, and with what is suggested."""
    usual = preset(usual_preset(diagnosis.class_name), diagnosis.class_name)
    suggested = {name: value for finding in findings for name, value in finding.settings.items()}
    config = dataclasses.replace(diagnosis.config, **suggested)
    words = ["alphamepol", "pretrain", diagnosis.class_name]
    for field in dataclasses.fields(PretrainConfig):
        value = getattr(config, field.name)
        if field.name != "seeds" and value != getattr(usual, field.name):
            words += _option(field.name, value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    if isinstance(value, tuple):
        return [f"--{option}", *(f"{one:g}" for one in value)]
    return [f"--{option}", f"{value:.3g}" if isinstance(value, float) else str(value)]


def _ends(found: Diagnosis) -> Iterator[Finding]:
    k, horizon = found.config.neighbours, found.config.horizon
    short = int(np.argmin(found.lengths))
    if found.fewest <= k:
        possible = max(1, found.fewest // 4)
        yield Finding(
            True,
            f"Member {found.members[short]}: trajectories end after {found.lengths[short]:.0f} of {horizon} steps on "
            f"average, and the smallest mini-batch has {found.fewest} particles, too few for k = {k}; use a larger "
            f"--batch, or --neighbours {possible} at most.",
            {"neighbours": possible},
        )
    elif found.lengths[short] < 0.5 * horizon:
        yield Finding(
            False,
            f"Member {found.members[short]}: trajectories end after {found.lengths[short]:.0f} of {horizon} steps on "
            "average; entropies of different numbers of particles compare a little less well.",
        )


def _aliasing(found: Diagnosis) -> Iterator[Finding]:
    k = found.config.neighbours
    worst = max(range(len(found.members)), key=lambda i: (found.aliasing[i].largest, found.aliasing[i].coinciding))
    member, alias = found.members[worst], found.aliasing[worst]
    said = f"Member {member}: {alias.coinciding:.0%} of particles coincide, up to {alias.largest} in one place"
    if alias.largest > k:
        noise = _noise(found)
        wanted = 10 * math.ceil(1.5 * alias.largest / 10)
        if wanted <= found.fewest // 4:
            settings, cure = {"neighbours": wanted}, f"use --neighbours {wanted} or --feature-noise {noise:g}"
        else:
            settings, cure = {"feature_noise": noise}, f"use --feature-noise {noise:g}, no k is large enough"
        yield Finding(True, f"{said}: with k = {k} its entropy is minus infinity; {cure}.", settings)
    elif 2 * alias.largest > k:
        yield Finding(
            False,
            f"{said}; k = {k} is just large enough now, but a policy that learns to push into a wall may need "
            f"--neighbours {4 * alias.largest}.",
        )
    elif alias.coinciding > 0.01:
        yield Finding(False, f"{said}; k = {k} is safe.")
    bare = max(range(len(found.members)), key=lambda i: found.bare[i].coinciding)
    if found.bare[bare].coinciding > max(0.5, 2 * alias.coinciding):
        yield Finding(
            False,
            f"Member {found.members[bare]}: without noise {found.bare[bare].coinciding:.0%} of particles would "
            f"coincide, up to {found.bare[bare].largest} in one place; entropies are largely those of the noise, and "
            "only differences of them mean something.",
        )


def _noise(found: Diagnosis) -> float:
    """A hundredth of what particles vary by, in the units that they are measured in."""
    if found.encoded or found.config.normalise:
        return 0.01
    moving = found.particles.deviation[found.particles.moving]
    typical = float(np.exp(np.mean(np.log(moving)))) if moving.size else 1.0
    return float(f"{0.01 * typical:.1g}")


def _scales(found: Diagnosis) -> Iterator[Finding]:
    on = found.config.normalise
    cure = "--normalise is needed, and is on" if on else "use --normalise, and check again: all else will change"
    settings = {} if on else {"normalise": True}
    component = None if found.encoded else wild_component(found.observations)
    if component is not None:
        yield Finding(
            True,
            f"Observations are not of order one: component {component} is {_around(found.observations, component)}, "
            f"where a network expects numbers between {1 / WILD:g} and {WILD:g}; {cure}.",
            settings,
        )
    if not found.encoded and found.particles.inequality > UNEQUAL:
        small, large = (int(index) for index in _least_and_most(found.particles))
        yield Finding(
            True,
            f"Entropy would hardly see component {small} of the particles: its deviation is "
            f"{found.particles.deviation[small]:.3g}, that of component {large} "
            f"{found.particles.deviation[large]:.3g}, and neighbours are those near in the large one; {cure}.",
            settings,
        )
    actions = found.actions
    if actions is not None and np.isfinite(actions.half_ranges).any():
        ratio = (actions.sigma / actions.half_ranges)[np.isfinite(actions.half_ranges)]
        if ratio.max() > WILD or ratio.min() < 1 / WILD:
            strange = ratio.max() if ratio.max() > WILD else ratio.min()
            yield Finding(
                True,
                f"Actions are not of the size of their range: σ is {strange:.3g} times half of it, and "
                f"{actions.clipped:.0%} of action components are clipped; {'set --initial-log-std' if on else cure}.",
                settings,
            )


def _around(scale: Scale, component: int) -> str:
    return f"{scale.mean[component]:.3g} ± {scale.deviation[component]:.3g}"


def _least_and_most(scale: Scale) -> tuple[Any, Any]:
    moving = np.flatnonzero(scale.moving)
    order = moving[np.argsort(scale.deviation[moving])]
    return order[0], order[-1]


def alike(found: Diagnosis) -> list[tuple[int, int]]:
    """Pairs of members that cannot be told apart, as far as the policy went."""
    dynamics = found.bounds.dynamics
    if dynamics is not None:
        differ = dynamics.starts_differ + dynamics.steps_differ + dynamics.steps_differ.T
        return [(i, j) for i, j in pairs(len(differ)) if differ[i, j] == 0]
    low, high = bootstrap_interval(found.entropies.T)
    compared = len(found.bounds.members)
    contrasts = np.full((compared, compared), 0.5) if found.contrasts is None else found.contrasts
    told = np.abs(contrasts - 0.5) > CONTRAST
    return [
        (i, j)
        for i, j in pairs(compared)
        if found.bounds.variation_low[i, j] < SAME
        and not (told[i, j] or told[j, i])
        and low[i] <= high[j]
        and low[j] <= high[i]
    ]


def _likeness(found: Diagnosis) -> Iterator[Finding]:
    same = alike(found)
    if not same:
        return
    how = "they start and step alike" if found.bounds.dynamics else "their states are alike, and so are steps"
    if len(same) == len(pairs(len(found.members))):  # of large classes not all are compared
        yield Finding(
            True,
            f"All members are the same as far as {found.policy} can tell ({how}): the class is one environment, and α "
            "chooses only between lucky and unlucky mini-batches.",
        )
        return
    shown = "; ".join(f"{found.members[i]} and {found.members[j]}" for i, j in same[:5])
    more = f" and {len(same) - 5} more pairs" if len(same) > 5 else ""
    yield Finding(
        True,
        f"Members {shown}{more} are the same as far as {found.policy} can tell ({how}): one of each would do, with the "
        "probability of both.",
    )


def _rate(found: Diagnosis) -> Iterator[Finding]:
    if not found.learned:
        return
    given = min(found.learned, key=lambda one: abs(math.log(one.rate / found.config.learning_rate)))
    trusted = [one for one in found.learned if one.effective >= TRUSTED]
    best = trusted[-1] if trusted else None
    said = (
        f"After one epoch with learning rate {given.rate:.1g}, importance weights leave {given.effective:.0%} of the "
        f"samples effective (KL {given.kl:.2g})"
    )
    if given.effective < SPENT:
        rate = best.rate if best else found.learned[0].rate / 3
        yield Finding(
            True,
            f"{said}: the policy runs away from what it has seen; use --learning-rate {rate:.1g}{_leaves(best)}.",
            {"learning_rate": float(f"{rate:.1g}")},
        )
    elif given.effective > IDLE and best is not None and best.rate > given.rate:
        yield Finding(
            True,
            f"{said}: it hardly moves, and learning will be slow; use --learning-rate {best.rate:.1g}{_leaves(best)}.",
            {"learning_rate": float(f"{best.rate:.1g}")},
        )
    elif given.effective < TRUSTED:
        lower = f"; {best.rate:.1g} leaves {best.effective:.0%}" if best else ""
        yield Finding(False, f"{said}, which is not much, but will do{lower}.")
    else:
        yield Finding(False, f"{said}, which is enough to learn from{_worth_trying(given, best)}.")


def _leaves(best: Learned | None) -> str:
    return f", which leaves {best.effective:.0%}" if best else ""


def _worth_trying(given: Learned, best: Learned | None) -> str:
    if best is None or best.rate <= given.rate:
        return ""
    return f"; the largest rate tried that leaves {TRUSTED:.0%} is {best.rate:.1g}"


def _stability(found: Diagnosis) -> Iterator[Finding]:
    batch = found.config.batch
    own = int(np.argmax(found.own_neighbours))
    share = float(found.own_neighbours[own])
    said = f"Member {found.members[own]}: {share:.0%} of a particle's neighbours are of its own trajectory"
    if batch > 1 and share > max(MOSTLY_OWN, 1.5 / batch):
        yield Finding(
            True,
            f"{said}, so that trajectories are measured against themselves, and may all learn the same way round; use "
            f"a larger --batch than {batch} (and --trajectories, to keep as many mini-batches).",
            {"batch": 4 * batch, "trajectories": 4 * found.config.trajectories},
        )
    elif batch > 1 and share > max(OFTEN_OWN, 1.5 / batch):
        yield Finding(
            False,
            f"{said}; if the entropy rises along training and then falls again, use a larger --batch than {batch}.",
        )
    for what, name, sensitivity, given in (
        ("trajectories a mini-batch", "batch", found.by_batch, batch),
        ("neighbours", "neighbours", found.by_neighbours, found.config.neighbours),
    ):
        if given not in sensitivity.settings or 2 * given not in sensitivity.settings:
            continue
        here, twice = (sensitivity.entropies[sensitivity.settings.index(value)] for value in (given, 2 * given))
        member = int(np.argmax(np.abs(twice - here)))
        changed = float(twice[member] - here[member])
        if abs(changed) > UNSTABLE:
            yield Finding(
                False,
                f"The entropy of {found.members[member]} changes by {changed:+.2f} with twice as many {what}: compare "
                f"entropies only where --{name} is the same.",
            )
        elif np.argmin(here) != np.argmin(twice):
            yield Finding(
                False,
                f"Which member is hardest depends on --{name}: {found.members[int(np.argmin(here))]} with {given}, "
                f"{found.members[int(np.argmin(twice))]} with {2 * given}.",
            )


def _lots(found: Diagnosis) -> Iterator[Finding]:
    config = found.config
    tail = tail_count(config.alpha, config.minibatches)
    met = [i for i, probability in enumerate(found.probabilities) if probability > 0]
    rarest = min(met, key=lambda i: found.probabilities[i])
    probability, absent = found.probabilities[rarest], found.draws[rarest].absent
    if absent > 0.05:
        needed = math.ceil(math.log(0.05) / math.log1p(-probability)) * config.batch
        # Of hundreds, each is rarely met, and may be.
        serious = absent > 0.3 and (len(met) <= MOST or probability < 0.5 / len(met))
        yield Finding(
            serious,
            f"Member {found.members[rarest]}: {absent:.0%} of epochs do not meet it (p = {probability:g}, "
            f"{config.minibatches} mini-batches); --trajectories {needed} would meet it in 95 %.",
            {"trajectories": needed} if serious else {},
        )
    if config.alpha < 1 and tail < 3:
        yield Finding(
            False,
            f"The tail has {tail} of {config.minibatches} mini-batches (α = {config.alpha:g}): gradients will be "
            "noisy; use more --trajectories.",
        )


def _risk(found: Diagnosis) -> Iterator[Finding]:
    if len(found.members) == 1 or not np.isfinite(found.entropies).all():
        return
    means, alpha = found.entropies.mean(axis=1), found.config.alpha
    low, high = bootstrap_interval(found.entropies.T)
    hard, easy = int(np.argmin(means)), int(np.argmax(means))
    between = share_between(found.entropies, found.probabilities)
    yield Finding(
        False,
        f"Under {found.policy} the hardest member is {found.members[hard]}, entropy "
        f"{_interval(means, low, high, hard)}; the easiest {found.members[easy]}, {_interval(means, low, high, easy)}. "
        f"{between:.0%} of the variance of entropies is between members, the rest luck within them."
        f"{'' if found.trained else ' Which member is hard can change as a policy learns: check a run, too.'}",
    )
    weights = np.repeat(np.array(found.probabilities) / found.entropies.shape[1], found.entropies.shape[1])
    if alpha == 1:
        tail = tail_shares(found.entropies, found.probabilities, 0.2)
        yield Finding(False, f"With α = 1 all count by their probability. Of the worst fifth {_most_of(found, tail)}.")
        return
    tail = tail_shares(found.entropies, found.probabilities, alpha)
    lost = float(weights @ found.entropies.ravel()) - weighted_cvar(found.entropies.ravel(), weights, alpha)
    verdict = (
        "members differ more than luck does, so that α chooses between them, and is worth it"
        if between > 0.5
        else "members differ hardly more than luck does, so that α chooses between mini-batches of good and bad luck"
        if between < 0.1
        else "α chooses between members, and between good and bad luck"
    )
    yield Finding(
        False,
        f"The worst {alpha:.0%} of mini-batches have {lost:.2f} less entropy than all; of them "
        f"{_most_of(found, tail)}; {verdict}.",
    )


def _interval(means: np.ndarray, low: np.ndarray, high: np.ndarray, member: int) -> str:
    return f"{means[member]:.2f} [{low[member]:.2f}, {high[member]:.2f}]"


def _most_of(found: Diagnosis, tail: np.ndarray) -> str:
    order = [int(i) for i in np.argsort(-tail)[:3] if tail[i] > 0.005]
    return ", ".join(f"{tail[i]:.0%} are {found.members[i]} (p = {found.probabilities[i]:g})" for i in order)


def _ceiling(found: Diagnosis) -> Iterator[Finding]:
    room = np.array(found.ceilings) - found.entropies.mean(axis=1)
    if np.isfinite(room).all():
        most = int(np.argmax(room))
        yield Finding(
            False,
            f"The largest possible entropy is {found.ceilings[most]:.2f} in {found.members[most]} "
            f"({room[most]:.2f} more than now); estimates can pass the ceiling a little, for balls reach into walls.",
        )
    else:
        yield Finding(
            False, "How much entropy is possible is not known: the class does not say what volume its particles have."
        )


def _theory(found: Diagnosis) -> Iterator[Finding]:
    bounds = found.bounds
    if len(found.members) == 1:
        return
    low, high = bounds.diameter
    step = bounds.one_step_bound
    said = "" if step is None else f", its one-step bound {step:.3g}{' (vacuous)' if step >= 1 else ''}"
    yield Finding(
        False,
        f"The π-diameter is between {low:.2f} and {high:.2f}{said}; entropies on cells differ by up to "
        f"{bounds.entropy_gap:.2f}, of {bounds.sharp_entropy_gap_bound:.2f} that this diameter allows.",
    )
