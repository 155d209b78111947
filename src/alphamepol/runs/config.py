"""What a pre-training run is, field by field. This module does not import JAX, so that `--help` is quick."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from alphamepol.errors import InputError


@dataclass(frozen=True)
class PretrainConfig:
    """Everything that decides what a pre-training run computes, beside the class of environments."""

    alpha: float = 0.2
    """Percentile α in (0, 1]: the objective is the mean of the worst α-fraction of entropies. 1 is MEPOL."""
    epochs: int = 150
    """How often samples are collected and the policy is improved from them."""
    horizon: int = 400
    """T, the steps of a trajectory."""
    trajectories: int = 200
    """N, the trajectories of an epoch; a multiple of --batch."""
    batch: int = 5
    """B, the trajectories of a mini-batch. Each mini-batch lives in one member and has one entropy."""
    neighbours: int = 30
    """k of the nearest-neighbour estimators; less than batch x horizon."""
    learning_rate: float = 1e-5
    """β, the rate of Adam."""
    trust_region: float = 15.0
    """δ, the largest KL divergence of state distributions within an epoch."""
    max_off_policy_iterations: int = 30
    """The most gradient steps that one epoch's samples are used for."""
    update: Literal["off-policy", "on-policy"] = "off-policy"
    """off-policy: several importance-weighted steps per epoch; on-policy: one REINFORCE step."""
    baseline: bool = True
    """On-policy only: use the baseline b = -VaR, which trades a little bias for less variance."""
    initial_mean: Literal["none"] | tuple[float, ...] = "none"
    """The constant action that the policy's mean is regressed to before epoch 0, one number per component, or none."""
    initial_log_std: float = -1.5
    """Logarithm of the policy's σ at the start."""
    hidden: tuple[int, ...] = (300, 300)
    """Widths of the policy's hidden layers."""
    probabilities: tuple[float, ...] = ()
    """p_M, one number per member, summing to 1; the class's own if not given. `0 1` trains a specialist."""
    seeds: int = 1
    """How many seeds are run, side by side in one program."""
    seed: int = 0
    """The first seed; the others follow it."""
    evaluation_batches: int = 40
    """Mini-batches per member in the evaluation of the final policies."""
    checkpoint_every: int = 10
    """Epochs between checkpoints."""
    matmul_precision: Literal["default", "highest"] = "default"
    """Precision of matrix products: the device's default (TF32 on recent GPUs) or full float32."""

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    @property
    def minibatches(self) -> int:
        """M = N/B."""
        return self.trajectories // self.batch

    @property
    def method(self) -> str:
        return "mepol" if self.alpha == 1 else "alphamepol"

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        if not 0 < self.alpha <= 1:
            raise InputError(f"alpha: {self.alpha} was given; it must be above 0 and at most 1")
        for field in ("epochs", "horizon", "trajectories", "batch", "neighbours", "max_off_policy_iterations"):
            _at_least(self, field, 1)
        for field in ("seeds", "evaluation_batches", "checkpoint_every"):
            _at_least(self, field, 1)
        _at_least(self, "seed", 0)
        if self.seed + self.seeds > 2**32:
            raise InputError(f"seed: {self.seed} was given; seeds must be below 2^32")
        if self.trajectories % self.batch:
            raise InputError(
                f"trajectories: {self.trajectories} was given; it must be a multiple of batch, which is {self.batch}"
            )
        if self.neighbours >= self.batch * self.horizon:
            raise InputError(
                f"neighbours: {self.neighbours} was given; it must be less than batch x horizon = "
                f"{self.batch * self.horizon}, the particles of a mini-batch"
            )
        for field in ("learning_rate", "trust_region"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{field}: {value} was given; it must be above 0 and finite")
        if not -20 <= self.initial_log_std <= 20:
            raise InputError(f"initial_log_std: {self.initial_log_std} was given; it must be between -20 and 20")
        if any(width < 1 for width in self.hidden):
            raise InputError(f"hidden: {self.hidden} was given; every layer needs at least one unit")
        if not self.baseline and self.update == "off-policy":
            raise InputError("baseline: it can be left out with --update on-policy only")
        if self.initial_mean == ():
            raise InputError("initial_mean: no number was given; give one per action component, or none")
        if self.initial_mean != "none" and not all(math.isfinite(value) for value in self.initial_mean):
            raise InputError(f"initial_mean: {self.initial_mean} was given; its numbers must be finite")

    def to_dict(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "PretrainConfig":
        """The inverse of `to_dict`; raises TypeError on an unknown field."""
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}
        return cls(**values)


def _at_least(config: PretrainConfig, field: str, least: int) -> None:
    value = getattr(config, field)
    if value < least:
        raise InputError(f"{field}: {value} was given; it must be at least {least}")
