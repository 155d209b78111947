"""The settings of commands that do many runs: where the runs are done, and what each run needs."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from alphamepol.errors import InputError
from alphamepol.settings.fields import check_field_at_least

LaunchPlace = Literal["local", "ray", "slurm"]
_SLURM_OPTION = re.compile(r"[a-z][a-z-]*=[\w./:,+@=*-]+", re.ASCII)
"""An option of sbatch as the user gives it. The value cannot hold anything that a shell or Slurm would interpret."""


@dataclass(frozen=True)
class LaunchSettings:
    """The place in which many runs are done, and the cores and GPUs of each run.

    **Example**

    ```python
    import alphamepol as am

    four_at_once = am.LaunchSettings(at_once=4, cores=2)
    on_slurm = am.LaunchSettings(on="slurm", gpus=1, slurm=("partition=gpu", "time=24:00:00"))
    ```
    """

    on: LaunchPlace = "local"
    """The place in which the runs are done:
    local: processes of this machine;
    ray: tasks of a Ray cluster;
    slurm: arrays of a Slurm cluster.
    The machines of a cluster must see the folder of the runs under the same path."""
    at_once: int | None = None
    """The largest number of runs at once.
    If it is not given, it is one on this machine, and as many as the cluster starts elsewhere."""
    cores: int | None = None
    """The number of processor cores of each run.
    If it is not given, a local run may use all cores, and a run on a cluster gets what the cluster gives by default."""
    gpus: int = 0
    """The number of GPUs of each run.
    With 0, a run on a cluster asks for no GPU, and a local run uses the first one if there is any."""
    ray_address: str | None = None
    """The address of the Ray cluster, such as HOST:6379, or auto for that of this machine.
    If it is not given, the environment variable RAY_ADDRESS has it.
    If there is none, a cluster starts on this machine for as long as the command runs."""
    slurm: tuple[str, ...] = ()
    """Further options of sbatch without their hyphens, such as partition=gpu time=24:00:00 mem=16G."""
    wait: bool = True
    """Follow the runs to their end. With --no-wait, runs on Slurm are only submitted.
    The same command without it follows them later."""


HERE = LaunchSettings()
"""The default: one run at a time, on this machine."""


def check_launch_settings(settings: LaunchSettings) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    if settings.on not in get_args(LaunchPlace):
        raise InputError(f"on: {settings.on!r} was given; choose local, ray or slurm")
    for field in ("at_once", "cores"):
        if getattr(settings, field) is not None:
            check_field_at_least(settings, field, 1)
    check_field_at_least(settings, "gpus", 0)
    for option in settings.slurm:
        if not _SLURM_OPTION.fullmatch(option):
            raise InputError(f"slurm: {option!r} was given; give options of sbatch as NAME=VALUE, such as time=1:00:00")
    for field, only in (("ray_address", "ray"), ("slurm", "slurm")):
        if getattr(settings, field) and settings.on != only:
            raise InputError(f"{field}: it was given with --on {settings.on}; it is for --on {only} only")
    if not settings.wait and settings.on != "slurm":
        raise InputError(f"wait: runs on {settings.on} end with this command; --no-wait is for --on slurm only")
