"""The settings of every run."""

from dataclasses import dataclass
from typing import Literal

from alphamepol.settings.fields import check_field_at_least, check_seed_field


@dataclass(frozen=True)
class RunSettings:
    """How often a run is repeated, how often it is saved, and how exactly it computes."""

    seeds: int = 1
    """How many seeds are run, side by side in one program."""
    seed: int = 0
    """The first seed; the others follow it."""
    checkpoint_every: int = 10
    """Epochs or iterations between checkpoints."""
    matmul_precision: Literal["default", "highest"] = "default"
    """Precision of matrix products: the device's default (TF32 on recent GPUs) or full float32."""

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))


def check_run_settings(settings: RunSettings) -> None:
    """Raise an `InputError` on the first field that cannot be."""
    for field in ("seeds", "checkpoint_every"):
        check_field_at_least(settings, field, 1)
    check_seed_field(settings.seed, settings.seeds)
