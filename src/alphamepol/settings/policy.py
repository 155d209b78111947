"""The settings of a fresh policy."""

from dataclasses import dataclass
from typing import Literal, get_args

from alphamepol.errors import InputError
from alphamepol.settings.fields import check_field_at_least, check_widths_field

MemoryKind = Literal["none", "last", "recurrent"]


@dataclass(frozen=True)
class PolicySettings:
    """What a user decides about a fresh policy. In fine-tuning these fields count where the initial policy is
    `random`; other policies bring their own."""

    hidden: tuple[int, ...] = (300, 300)
    """Widths of the policy's hidden layers; where observations are images, of those after its convolutions."""
    initial_log_std: float = -1.5
    """Logarithm of the policy's σ at the start; with --normalise, of σ in halves of the action range."""
    memory: MemoryKind = "none"
    """none: the policy sees the current observation, as in the paper; last: also what its last action did; recurrent:
    also all before, by a GRU."""
    recurrent_units: int = 64
    """Hidden values of the GRU, with --memory recurrent."""
    normalise: bool = False
    """Scale what is not of order one: observations by their running mean and deviation, actions (and so σ) by half
    their range; in pre-training also particles, by a deviation measured once with an untrained policy: the unit that
    entropies are in."""

    @property
    def policy(self) -> "PolicySettings":
        """These settings alone, without those of the command that they are part of."""
        return PolicySettings(self.hidden, self.initial_log_std, self.memory, self.recurrent_units, self.normalise)


def check_policy_settings(settings: PolicySettings) -> None:
    """Raise an `InputError` on the first field that cannot be."""
    if not -20 <= settings.initial_log_std <= 20:
        raise InputError(f"initial_log_std: {settings.initial_log_std} was given; it must be between -20 and 20")
    check_widths_field("hidden", settings.hidden)
    if settings.memory not in get_args(MemoryKind):
        raise InputError(f"memory: {settings.memory!r} was given; choose {', '.join(get_args(MemoryKind))}")
    check_field_at_least(settings, "recurrent_units", 1)
