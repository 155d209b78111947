"""The settings of pre-training. This module does not import JAX, so that `--help` is quick."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from alphamepol.errors import InputError
from alphamepol.settings.conversion import repr_of_settings
from alphamepol.settings.fields import check_field_above_zero, check_field_at_least, check_field_is_multiple
from alphamepol.settings.policy import PolicySettings, check_policy_settings
from alphamepol.settings.run import RunSettings, check_run_settings
from alphamepol.settings.samples import SampleSettings, check_sample_settings


@dataclass(frozen=True)
class AlphaMepolSettings:
    """The inputs of the paper's Algorithms 1 and 2 that no other algorithm has."""

    alpha: float = 0.2
    """The percentile α in (0, 1]: the objective is the mean of the worst α-fraction of entropies. α = 1 is MEPOL."""
    epochs: int = 150
    """The number of epochs. Each epoch collects samples and improves the policy with them."""
    trajectories: int = 200
    """N, the number of trajectories in an epoch. It must be a multiple of --batch."""
    learning_rate: float = 1e-5
    """β, the learning rate of Adam."""
    trust_region: float = 15.0
    """δ, the largest KL divergence (E6) that an epoch may cause.
    It is from the state distribution of the sampling policy to that of the improved one, over all mini-batches.
    On-policy updates have no trust region, and then this option must not be set."""
    max_off_policy_iterations: int = 30
    """The largest number of off-policy gradient steps per epoch, all with the same samples."""
    gradient_share: float = 1.0
    """The share of the mini-batches that a gradient step uses. Each step draws a random subset of this size.
    The share is used only with α = 1 and off-policy updates.
    0.2 lets MEPOL learn from as many samples as αMEPOL with α = 0.2."""
    update: Literal["off-policy", "on-policy"] = "off-policy"
    """The kind of update:
    off-policy: several importance-weighted steps per epoch;
    on-policy: one REINFORCE step per epoch."""
    baseline: bool = True
    """Use the baseline b = -VaR in on-policy updates: it adds a little bias and reduces the variance.
    Off-policy updates have no baseline, and then this option must stay on."""
    initial_mean: Literal["none"] | tuple[float, ...] = "none"
    """The constant action that the policy's mean is regressed to before epoch 0, one number per action component.
    none: no regression."""
    risk: Literal["minibatches", "members"] = "minibatches"
    """The numbers whose worst α-fraction is the objective:
    minibatches: the entropies of mini-batches, as in the paper, so that the tail has bad luck in it, too;
    members: the mean entropies of the members that an epoch draws."""
    member_batches: int = 1
    """The number of mini-batches in each member that an epoch draws. With --risk members it must be at least 2.
    More of them tell members apart from luck, but an epoch then meets fewer members."""
    probabilities: tuple[float, ...] = ()
    """p_M, one probability per member; their sum must be 1. The default is the class's own p_M.
    In a class of two members, `0 1` trains a specialist on the second."""


@dataclass(frozen=True)
class PretrainConfig(RunSettings, PolicySettings, SampleSettings, AlphaMepolSettings):
    """The settings of pre-training. Together with the class of environments they decide what a run computes.

    The defaults are the paper's settings for `gridworld-slope`, except `seeds` and `initial_mean`. `preset` returns the
    settings for other classes.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(alpha=0.2, epochs=50)
    config.check()
    print(config.minibatches)  # 40: the 200 trajectories of an epoch make mini-batches of 5
    ```
    """

    CHANGEABLE: ClassVar[tuple[str, ...]] = (*RunSettings.CHANGEABLE, "coinciding")

    def __repr__(self) -> str:
        return repr_of_settings(self)

    evaluation_batches: int = 40
    """The number of mini-batches per member in the evaluation of the final policies."""
    diagnostics: bool = False
    """Measure in every epoch how far apart the members are, and the paper's bounds.
    This adds numbers to every epoch, and a figure. It does not change what is learned."""

    @property
    def minibatches(self) -> int:
        """M = N/B, the number of mini-batches in an epoch.

        Each mini-batch holds B trajectories in one member and has one entropy.
        """
        return self.trajectories // self.batch

    @property
    def ranked_together(self) -> int:
        """The number of mini-batches in a row that are in the tail together: those of a member, or 1."""
        return self.member_batches if self.risk == "members" else 1

    @property
    def tail_size(self) -> int:
        """The number of mini-batches in the tail of an epoch: ⌈αM⌉ (E7), or m ⌈αM/m⌉ if the risk is over members."""
        from alphamepol.estimation.risk import risk_tail_count  # imports JAX

        return self.ranked_together * risk_tail_count(self.alpha, self.minibatches // self.ranked_together)

    @property
    def method(self) -> str:
        """The name of the method in files: "mepol" if α = 1, else "alphamepol"."""
        return "mepol" if self.alpha == 1 else "alphamepol"

    @property
    def label(self) -> str:
        """The name of the method in figures and tables."""
        of_members = " of members" if self.risk == "members" else ""
        method = "MEPOL" if self.alpha == 1 else f"αMEPOL ({self.alpha:g}{of_members})"
        return method if self.memory == "none" else f"{method}, memory {self.memory}"

    def check(self) -> None:
        """Raise an `InputError` for the first field whose value is not allowed."""
        for field in ("alpha", "gradient_share"):
            if not 0 < getattr(self, field) <= 1:
                raise InputError(f"{field}: {getattr(self, field)} was given; it must be above 0 and at most 1")
        for field in ("epochs", "trajectories", "max_off_policy_iterations", "member_batches", "evaluation_batches"):
            check_field_at_least(self, field, 1)
        check_run_settings(self)
        check_sample_settings(self)
        check_field_is_multiple(self, "trajectories", of="batch")
        if self.minibatches % self.member_batches:
            raise InputError(
                f"member_batches: {self.member_batches} was given; it must divide the {self.minibatches} mini-batches "
                "of an epoch"
            )
        if self.risk == "members" and self.member_batches == 1:
            raise InputError("risk: members was given; give also --member-batches of at least 2")
        if self.risk == "members" and self.update == "on-policy":
            raise InputError("risk: members was given; it must be minibatches if --update is on-policy")
        for field in ("learning_rate", "trust_region"):
            check_field_above_zero(self, field)
        check_policy_settings(self)
        if not self.baseline and self.update == "off-policy":
            raise InputError("baseline: False was given; it must be True unless --update is on-policy")
        if self.initial_mean == ():
            raise InputError("initial_mean: no number was given; give one per action component, or none")
        if self.initial_mean != "none" and not all(math.isfinite(value) for value in self.initial_mean):
            raise InputError(f"initial_mean: {self.initial_mean} was given; its numbers must be finite")
