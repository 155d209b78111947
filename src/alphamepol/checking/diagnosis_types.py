"""The results of a diagnosis: numbers, and findings in sentences."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from alphamepol.algorithms.alphamepol.baseline import BaselineTradeOff
from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.cost import PretrainingCost
from alphamepol.checking.component_scales import ComponentScales
from alphamepol.checking.member_shares import Draws, member_share_of_variance
from alphamepol.estimation.statistics import intervals_of_means
from alphamepol.files.names import WIDTH, join_command_words, name_as_text
from alphamepol.measuring.aliasing import Aliasing
from alphamepol.measuring.bounds import Bounds
from alphamepol.measuring.sensitivity import Learned, Sensitivity
from alphamepol.measuring.visits import VisitMap


@dataclass(frozen=True)
class Actions:
    """The size of actions in comparison with their range, if actions are vectors."""

    sigma: Float[np.ndarray, " components"]
    """The standard deviation σ of each action component."""
    half_ranges: Float[np.ndarray, " components"]
    """Half of the range to which the environment clips each component; infinite without a range."""
    clipped: float
    """The share of action components that were outside of their range."""


@dataclass(frozen=True)
class Diagnosis:
    """The numbers that `diagnose` finds for a class under a policy. `check` puts them into `Checked.diagnosis`.

    The first axis of an array is the members. Entropies are in nats.
    """

    class_name: str
    """The name of the class."""
    policy: str
    """The label of the policy that collected the samples."""
    trained: bool
    """True if a policy was given; False for an untrained policy."""
    members: tuple[str, ...]
    """The names of the members."""
    generated: bool
    """True if a generator draws the members that a policy is trained on, so that none of `members` is among them."""
    probabilities: tuple[float, ...]
    """The probability p_M of each member."""
    config: PretrainConfig
    """The settings that were examined."""
    neighbours: int
    """The k with which entropies were estimated. It is that of the settings, if entropies can be estimated with it."""
    entropies: Float[np.ndarray, "members minibatches"]
    """The entropy of every mini-batch, of shape (members, mini-batches)."""
    ceilings: tuple[float, ...]
    """The largest possible entropy of each member; infinite where it is not known."""
    aliasing: tuple[Aliasing, ...]
    """The particles that coincide in each member, measured as for entropies (encoded, in units, with noise)."""
    bare: tuple[Aliasing, ...]
    """The particles that coincide in each member, as the environment gives them, without noise."""
    smallest: Int[np.ndarray, " members"]
    """The number of particles in the smallest mini-batch of each member."""
    lengths: Float[np.ndarray, " members"]
    """The mean number of steps of a trajectory in each member."""
    own_neighbours: Float[np.ndarray, " members"]
    """The share of a particle's neighbours that belong to its own trajectory, in each member."""
    observations: ComponentScales
    """The scale of each component of observations, as the environment gives them."""
    particles: ComponentScales
    """The scale of each component of particles, as the environment gives them, before they are divided by units."""
    actions: Actions | None
    """The size of actions; None unless actions are vectors and the policy is a `GaussianPolicy`."""
    by_neighbours: Sensitivity
    """The entropy of each member with other numbers of neighbours k."""
    by_batch: Sensitivity
    """The entropy of each member with other numbers of trajectories B in a mini-batch."""
    learned: tuple[Learned, ...]
    """The effect of one epoch with different learning rates; empty if entropies could not be estimated."""
    draws: tuple[Draws, ...]
    """The chances of each member to be drawn in an epoch."""
    bounds: Bounds
    """The distances between state distributions, and the bounds (D1)–(D5); for at most 20 members of the class."""
    contrasts: Float[np.ndarray, "some some"] | None
    """The measure of how well steps tell the members of `bounds` apart, for a host class; ½ means that they do not.
    The field is None for a compiled class, and for large observations."""
    trade_off: BaselineTradeOff | None
    """The trade-off of the baseline, (D6) and (D7); None if the tail has too few mini-batches."""
    visits: VisitMap | None
    """The share of time in each part of a map, with a leading axis for members; None if places are not in a plane."""
    scaled: bool
    """True if the policy scales observations and actions, and particles are in units of their deviation."""
    encoded: bool
    """True if particles are images that the random encoder encodes."""
    cost: PretrainingCost | None
    """The estimated time and memory of a run with the settings; None if it clearly takes less than a minute."""

    def __repr__(self) -> str:
        members = ", ".join(self.member_in_words(number) for number in range(min(20, len(self.members))))
        return f"Diagnosis({self.class_name!r} under {self.policy_in_words}: {members})"

    def member_in_words(self, number: int) -> str:
        """Return the name of a member for a sentence or a table."""
        return name_as_text(self.members[number], WIDTH)

    @property
    def policy_in_words(self) -> str:
        """The label of the policy for a sentence."""
        return name_as_text(self.policy, WIDTH)

    @property
    def means(self) -> Float[np.ndarray, "3 members"]:
        """The mean entropy of each member and the two ends of its 95 % interval, of shape (3, members).

        The numbers of a member are −∞ if more than k of its particles coincide.
        """
        found, finite = np.full((3, len(self.members)), -np.inf), np.isfinite(self.entropies).all(axis=1)
        if finite.any():
            some = self.entropies[finite].T
            found[:, finite] = [some.mean(axis=0), *intervals_of_means(some)]
        return found

    @property
    def between(self) -> float:
        """The share of the variance of entropies that is between members; NaN if some entropy is −∞."""
        whole = np.isfinite(self.entropies).all()
        return member_share_of_variance(self.entropies, self.probabilities) if whole else math.nan

    @property
    def fewest(self) -> int:
        """The number of particles in the smallest mini-batch of all members."""
        return int(self.smallest.min())


@dataclass(frozen=True)
class Finding:
    """One finding of `check`, in a sentence."""

    serious: bool
    """True if something should be changed before training."""
    sentence: str
    """The finding, with the numbers behind it."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The suggested settings: fields of `PretrainConfig` with their values."""


def advised_options(settings: Mapping[str, Any]) -> str:
    """Return settings as options of the command line. Sentences and the line to train with write them alike."""
    words = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", *map(str, value if isinstance(value, tuple) else (value,))]
    return join_command_words(words)
