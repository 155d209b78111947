"""The settings that every run has."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from alphamepol.settings.fields import check_field_at_least, check_seed_field

LogTarget = Literal["tensorboard", "wandb", "none"]
PhysicsKind = Literal["auto", "cpu", "gpu"]
"""The engines that can step a class of MuJoCo models."""
WorkersGiven = int | str | None
"""The workers of a class of Gymnasium environments: a number of processes, "ray" or "ray:64" for actors of a Ray
cluster, or None for those that the class was made with."""


@dataclass(frozen=True)
class RunSettings:
    """The seeds of a run, its checkpoints, and its numerical precision."""

    seeds: int = 1
    """The number of seeds. All seeds run side by side in one program."""
    seed: int = 0
    """The first seed. The other seeds are the next numbers."""
    checkpoint_every: int = 10
    """The number of epochs or iterations between two checkpoints."""
    keep_checkpoints: int | Literal["all"] = 2
    """The number of newest checkpoints that are kept, or all.
    Other commands can use the policies of every checkpoint that is kept, with --checkpoint."""
    matmul_precision: Literal["default", "highest"] = "default"
    """The precision of matrix products:
    default: the default of the device, which is TF32 on recent GPUs;
    highest: full float32."""

    CHANGEABLE: ClassVar[tuple[str, ...]] = ("checkpoint_every", "keep_checkpoints")
    """The settings that may differ if a run is resumed, because they do not change what it computes."""

    @property
    def seed_list(self) -> list[int]:
        """All seeds of the run."""
        return list(range(self.seed, self.seed + self.seeds))


def check_run_settings(settings: RunSettings) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    for field in ("seeds", "checkpoint_every"):
        check_field_at_least(settings, field, 1)
    if settings.keep_checkpoints != "all":
        check_field_at_least(settings, "keep_checkpoints", 1)
    check_seed_field(settings.seed, settings.seeds)
