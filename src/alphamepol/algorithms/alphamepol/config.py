"""The settings of pre-training. This module does not import JAX, so that `--help` is quick."""

import math
from dataclasses import dataclass
from typing import Literal

from alphamepol.errors import InputError
from alphamepol.settings.fields import check_field_above_zero, check_field_at_least, check_field_is_multiple
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings
from alphamepol.settings.samples import SampleSettings, check_sample_settings


@dataclass(frozen=True)
class AlphaMepolSettings:
    """The inputs of the paper's Algorithms 1 and 2 that no other algorithm has."""

    alpha: float = 0.2
    """Percentile α in (0, 1]: the objective is the mean of the worst α-fraction of entropies. 1 is MEPOL."""
    epochs: int = 150
    """How often samples are collected and the policy is improved from them."""
    trajectories: int = 200
    """N, the trajectories of an epoch; a multiple of --batch."""
    learning_rate: float = 1e-5
    """β, the rate of Adam."""
    trust_region: float = 15.0
    """δ, the largest KL divergence (E6) from the state distribution of the policy that sampled an epoch to that of the
    improved one, all mini-batches taken together."""
    max_off_policy_iterations: int = 30
    """The most gradient steps that one epoch's samples are used for."""
    gradient_share: float = 1.0
    """With α = 1, off-policy: each iteration's gradient uses a random subset of the mini-batches, this share of them.
    0.2 makes MEPOL learn from as many samples as αMEPOL with α = 0.2. Otherwise it is not used."""
    update: Literal["off-policy", "on-policy"] = "off-policy"
    """off-policy: several importance-weighted steps per epoch; on-policy: one REINFORCE step."""
    baseline: bool = True
    """On-policy only: use the baseline b = -VaR, which trades a little bias for less variance."""
    initial_mean: Literal["none"] | tuple[float, ...] = "none"
    """The constant action that the policy's mean is regressed to before epoch 0, one number per component, or none."""
    probabilities: tuple[float, ...] = ()
    """p_M, one number per member, summing to 1; the class's own if not given. `0 1` trains a specialist."""


@dataclass(frozen=True)
class PretrainConfig(RunSettings, PolicySettings, SampleSettings, AlphaMepolSettings):
    """Everything that decides what a pre-training run computes, beside the class of environments."""

    evaluation_batches: int = 40
    """Mini-batches per member in the evaluation of the final policies."""
    diagnostics: bool = False
    """Measure along the way how far apart the members are, and the paper's bounds: more numbers of every epoch, and a
    picture of them. What is learned does not depend on it."""

    @property
    def minibatches(self) -> int:
        """M = N/B, the mini-batches of an epoch. Each is B trajectories in one member, and has one entropy."""
        return self.trajectories // self.batch

    @property
    def method(self) -> str:
        return "mepol" if self.alpha == 1 else "alphamepol"

    @property
    def label(self) -> str:
        """The name of the method in figures and tables."""
        method = "MEPOL" if self.alpha == 1 else f"αMEPOL ({self.alpha:g})"
        return method if self.memory == "none" else f"{method}, memory {self.memory}"

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        for field in ("alpha", "gradient_share"):
            if not 0 < getattr(self, field) <= 1:
                raise InputError(f"{field}: {getattr(self, field)} was given; it must be above 0 and at most 1")
        for field in ("epochs", "trajectories", "max_off_policy_iterations", "evaluation_batches"):
            check_field_at_least(self, field, 1)
        check_run_settings(self)
        check_sample_settings(self)
        check_field_is_multiple(self, "trajectories", of="batch")
        for field in ("learning_rate", "trust_region"):
            check_field_above_zero(self, field)
        check_policy_settings(self)
        if not self.baseline and self.update == "off-policy":
            raise InputError("baseline: it can be left out with --update on-policy only")
        if self.initial_mean == ():
            raise InputError("initial_mean: no number was given; give one per action component, or none")
        if self.initial_mean != "none" and not all(math.isfinite(value) for value in self.initial_mean):
            raise InputError(f"initial_mean: {self.initial_mean} was given; its numbers must be finite")
