"""What is found of a class under a policy, before anything is trained on it: numbers, and sentences."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from alphamepol.algorithms.alphamepol.baseline import BaselineTradeOff
from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.checking.component_scales import ComponentScales
from alphamepol.checking.member_shares import Draws, member_share_of_variance
from alphamepol.estimation.statistics import bootstrap_interval
from alphamepol.measuring.aliasing import Aliasing
from alphamepol.measuring.bounds import Bounds
from alphamepol.measuring.sensitivity import Learned, Sensitivity
from alphamepol.measuring.visits import VisitMap


@dataclass(frozen=True)
class Actions:
    """Of vectors: how large actions are beside the range that the environment applies."""

    sigma: Float[np.ndarray, " components"]
    half_ranges: Float[np.ndarray, " components"]
    """Infinite where there is no range."""
    clipped: float
    """The share of components outside their range."""


@dataclass(frozen=True)
class Diagnosis:
    """All that is found; rows are members."""

    class_name: str
    policy: str
    """What the policy is called."""
    trained: bool
    members: tuple[str, ...]
    probabilities: tuple[float, ...]
    config: PretrainConfig
    """The settings that were looked at."""
    neighbours: int
    """The k that entropies were taken with: that of the settings, if it can be."""
    entropies: Float[np.ndarray, "members minibatches"]
    ceilings: tuple[float, ...]
    aliasing: tuple[Aliasing, ...]
    """Of particles as entropies are taken of them."""
    bare: tuple[Aliasing, ...]
    """Of particles as the environment gives them, without noise."""
    smallest: Int[np.ndarray, " members"]
    """Particles of the smallest mini-batch of each."""
    lengths: Float[np.ndarray, " members"]
    """Mean steps of a trajectory."""
    own_neighbours: Float[np.ndarray, " members"]
    """The share of a particle's neighbours that are of its own trajectory."""
    observations: ComponentScales
    particles: ComponentScales
    """As they are, before any unit."""
    actions: Actions | None
    by_neighbours: Sensitivity
    by_batch: Sensitivity
    learned: tuple[Learned, ...]
    draws: tuple[Draws, ...]
    bounds: Bounds
    contrasts: Float[np.ndarray, "some some"] | None
    """Of classes on the host, how well steps tell the members of `bounds` apart; ½ is not at all."""
    trade_off: BaselineTradeOff | None
    visits: VisitMap | None
    scaled: bool
    """Whether the policy scales what it sees and does, and particles are in units of their deviation."""
    encoded: bool
    """Whether particles are images, taken through the random encoder."""

    @property
    def means(self) -> Float[np.ndarray, "3 members"]:
        """The mean entropy of each member and the ends of its 95 % interval; minus infinity if particles coincide."""
        found, finite = np.full((3, len(self.members)), -np.inf), np.isfinite(self.entropies).all(axis=1)
        if finite.any():
            some = self.entropies[finite].T
            found[:, finite] = [some.mean(axis=0), *bootstrap_interval(some)]
        return found

    @property
    def between(self) -> float:
        """The part of the variance of entropies that is between members; NaN where particles coincide."""
        whole = np.isfinite(self.entropies).all()
        return member_share_of_variance(self.entropies, self.probabilities) if whole else math.nan

    @property
    def fewest(self) -> int:
        """Particles of the smallest mini-batch."""
        return int(self.smallest.min())


@dataclass(frozen=True)
class Finding:
    """A sentence; `serious` if something should be done before training; and what should be set for it."""

    serious: bool
    sentence: str
    settings: dict[str, Any] = field(default_factory=dict)
