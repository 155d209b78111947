"""The options that say who steps the environments. Several commands have them."""

import os
from dataclasses import dataclass

from alphamepol.errors import InputError
from alphamepol.settings.run import PhysicsKind


@dataclass(frozen=True)
class SteppingOptions:
    """The options --physics, --workers and --ray-address."""

    physics: PhysicsKind = "auto"
    """The engine that steps a class of MuJoCo models:
    cpu: MuJoCo, on all cores of this machine;
    gpu: MuJoCo Warp, on an NVIDIA GPU;
    auto: the GPU if it can step the models, and otherwise the CPU."""
    workers: str | None = None
    """The workers that step a class of Gymnasium environments:
    a number: so many processes of this machine, for example 8;
    ray: actors of a Ray cluster, one per core;
    ray:64: so many actors.
    If it is not given, there are as many processes as the class was made with; usually one per core."""
    ray_address: str | None = None
    """The address of the Ray cluster for --workers ray, such as HOST:6379, or auto for that of this machine.
    If it is not given, the environment variable RAY_ADDRESS has it.
    If there is none, a cluster starts on this machine for as long as the command runs."""

    def given_workers(self) -> str | None:
        """Return the workers to give to a public function. The address of the cluster becomes RAY_ADDRESS.

        Ray reads this environment variable in every program, so that the functions need no argument for it.
        """
        if self.ray_address is not None:
            if self.workers is None or not self.workers.startswith("ray"):
                raise InputError(f"ray-address: {self.ray_address} was given; it is only for --workers ray")
            os.environ["RAY_ADDRESS"] = self.ray_address
        return self.workers


STEPPING = SteppingOptions()
"""The usual options."""
