"""The settings of an untrained policy."""

from dataclasses import dataclass
from typing import Literal, get_args

from alphamepol.errors import InputError
from alphamepol.settings.fields import check_field_at_least, check_widths_field

MemoryKind = Literal["none", "last", "recurrent"]


@dataclass(frozen=True)
class PolicySettings:
    """The settings of an untrained policy.

    In fine-tuning, they only apply to the initial policy `random`. Other initial policies have settings of their own.
    """

    hidden: tuple[int, ...] = (300, 300)
    """The widths of the policy's hidden layers.
    If observations are images, these are the layers after the convolutions."""
    initial_log_std: float = -1.5
    """The logarithm of the policy's standard deviation σ at the start.
    With --normalise, σ is in units of half the action range."""
    memory: MemoryKind = "none"
    """The memory of the policy within an episode:
    none: the policy sees the current observation only, as in the paper;
    last: it also sees its last action and what that action changed;
    recurrent: it also remembers all earlier steps, with a GRU."""
    recurrent_units: int = 64
    """The number of hidden values of the GRU. It is used with --memory recurrent only."""
    normalise: bool = False
    """Scale observations and actions, whose values may not be of order one.
    Observations are scaled by their running mean and standard deviation.
    Actions, and therefore σ, are scaled by half the action range.
    In pre-training, particles are divided by their standard deviation under uniformly random actions.
    This is the unit of the entropies. It is the same for every run on a class."""

    @property
    def policy(self) -> "PolicySettings":
        """The settings of the policy alone, without the other settings of the command."""
        return PolicySettings(self.hidden, self.initial_log_std, self.memory, self.recurrent_units, self.normalise)


def check_policy_settings(settings: PolicySettings) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    if not -20 <= settings.initial_log_std <= 20:
        raise InputError(f"initial_log_std: {settings.initial_log_std} was given; it must be between -20 and 20")
    check_widths_field("hidden", settings.hidden)
    if settings.memory not in get_args(MemoryKind):
        raise InputError(f"memory: {settings.memory!r} was given; choose {', '.join(get_args(MemoryKind))}")
    check_field_at_least(settings, "recurrent_units", 1)
    check_widths_field("recurrent_units", (settings.recurrent_units,))
