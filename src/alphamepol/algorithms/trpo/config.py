"""The settings of TRPO. This module does not import JAX, so that `--help` is quick."""

from dataclasses import dataclass

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.settings.fields import (
    check_field_above_zero,
    check_field_at_least,
    check_field_is_share,
    check_widths_field,
)
from alphamepol.settings.trust_region import TrustRegionSettings, check_trust_region_settings


@dataclass(frozen=True)
class TrpoConfig(TrustRegionSettings, FinetuneConfig):
    """Everything that decides what fine-tuning with TRPO computes, beside the class, the member and the initial
    policy."""

    gae_lambda: float = 0.98
    """λ of generalised advantage estimation."""
    critic_hidden: tuple[int, ...] = (64, 64)
    """Widths of the value network's hidden layers."""
    critic_learning_rate: float = 1e-2
    """The rate of the value network's Adam."""
    critic_passes: int = 5
    """How often the value network goes through an iteration's steps."""
    critic_batch: int = 512
    """Mini-batch of the value network."""

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        super().check()
        check_trust_region_settings(self)
        for field in ("critic_passes", "critic_batch"):
            check_field_at_least(self, field, 1)
        check_field_above_zero(self, "critic_learning_rate")
        check_field_is_share(self, "gae_lambda")
        check_widths_field("critic_hidden", self.critic_hidden)


OWN = TrpoConfig(horizon=200, steps=8000, max_kl=1e-2, initial_log_std=-0.5, normalise=True)
"""The settings for a class that the paper does not have, whose units are not known."""
