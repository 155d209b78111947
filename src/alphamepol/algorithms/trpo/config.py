"""The settings of TRPO. This module does not import JAX, so that `--help` is quick."""

from dataclasses import dataclass
from typing import Literal

from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.settings.conversion import repr_of_settings
from alphamepol.settings.fields import (
    check_field_above_zero,
    check_field_at_least,
    check_field_is_one_of,
    check_field_is_share,
    check_widths_field,
)
from alphamepol.settings.trust_region import TrustRegionSettings, check_trust_region_settings


@dataclass(frozen=True)
class TrpoConfig(TrustRegionSettings, FinetuneConfig):
    """The settings of fine-tuning with TRPO.

    Together with the class, the member and the initial policy they decide what a run computes. The defaults are the
    paper's settings for the gridworlds. `finetuning_preset` returns the settings for other classes.

    **Example**

    ```python
    import alphamepol as am

    config = am.TrpoConfig(tasks=5, iterations=30)
    config.check()
    print(config.trajectories)  # 30: an iteration has 12 000 steps, in trajectories of 400
    ```
    """

    def __repr__(self) -> str:
        return repr_of_settings(self)

    gae_lambda: float = 0.98
    """λ of generalised advantage estimation."""
    critic_hidden: tuple[int, ...] = (64, 64)
    """The widths of the value network's hidden layers."""
    critic_learning_rate: float = 1e-2
    """The learning rate of Adam for the value network."""
    critic_passes: int = 5
    """The number of passes over an iteration's steps when the value network is fitted."""
    critic_batch: int = 512
    """The number of steps in a mini-batch when the value network is fitted."""
    critic_targets: Literal["advantages", "returns"] = "advantages"
    """The numbers that the value network is fitted to:
    advantages: the generalised advantage of each step plus its value;
    returns: the discounted sum of the rewards that follow, as in the code of the paper's authors."""
    critic_gain: float = 2**0.5
    """The gain of the orthogonal weights with which the hidden layers of the value network start.
    The code of the paper's authors has 1."""
    critic_biases: Literal["zero", "uniform"] = "zero"
    """The biases with which the value network starts:
    zero: no bias;
    uniform: between plus and minus 1/sqrt(inputs of the layer), as in the code of the paper's authors."""

    def check(self) -> None:
        """Raise an `InputError` for the first field whose value is not allowed."""
        super().check()
        check_trust_region_settings(self)
        for field in ("critic_passes", "critic_batch"):
            check_field_at_least(self, field, 1)
        for field in ("critic_learning_rate", "critic_gain"):
            check_field_above_zero(self, field)
        check_field_is_one_of(self, "critic_targets", ("advantages", "returns"))
        check_field_is_one_of(self, "critic_biases", ("zero", "uniform"))
        check_field_is_share(self, "gae_lambda")
        check_widths_field("critic_hidden", self.critic_hidden)


OWN = TrpoConfig(horizon=200, steps=8000, max_kl=1e-2, initial_log_std=-0.5, normalise=True)
"""The settings for a class that the paper does not have. The units of such a class are not known."""
