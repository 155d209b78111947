"""The workers that a fleet asks for: processes of this machine, or actors of a Ray cluster."""

import math
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from alphamepol.compute.machine import machine_cores
from alphamepol.errors import InputError
from alphamepol.settings.run import WorkersGiven

MOST_WORKERS = 4096


@dataclass(frozen=True)
class Crew:
    """The number of the workers of a fleet, and the place where they run."""

    number: int | None = None
    """The number of workers; None for one per core of the machine or of the cluster."""
    on_ray: bool = False

    @property
    def remark(self) -> str:
        """A sentence about the workers, which commands say at their start. It is empty for processes."""
        if not self.on_ray:
            return ""
        where = "a Ray cluster on this machine" if ray_address() is None else f"the Ray cluster at {ray_address()}"
        number = "one for each core" if self.number is None else f"{self.number} of them"
        return f"The workers are actors of {where}, {number}. They take about ten seconds to start."

    @property
    def processes(self) -> int:
        """The number of worker processes of this machine. One process speaks for all actors of a cluster."""
        return 1 if self.on_ray else self.number or machine_cores()

    def copies(self, seconds: float) -> int:
        """Return the number of environments of each member that a worker holds, from the seconds of a step.

        A worker should be busy with one message for much longer than the message takes. It then steps several
        environments, one after the other.
        """
        turn, most = (RAY_TURN, MOST_RAY_COPIES) if self.on_ray else (TURN, MOST_COPIES)
        return int(np.clip(math.ceil(turn / seconds), 1, most))


TURN, MOST_COPIES = 2e-3, 16
"""The seconds that a process of this machine should be busy with one message, and the most copies for it."""
RAY_TURN, MOST_RAY_COPIES = 0.2, 128
"""The same numbers for an actor. A message to another machine takes about a millisecond, and Ray itself needs half a
millisecond of the main machine for each actor."""


def read_crew(given: WorkersGiven) -> Crew:
    """Return the workers that a user asks for. Raises an `InputError` if they are not allowed."""
    place, colon, number = given.partition(":") if isinstance(given, str) else ("", "", given)
    if isinstance(number, str) and number.isdecimal() and place == "ray":
        crew = Crew(int(number[:9]), on_ray=True)
    elif place.isdecimal() and not colon:
        crew = Crew(int(place[:9]))
    elif place == "ray" and not colon:
        crew = Crew(on_ray=True)
    elif number is None or (isinstance(number, int) and not isinstance(number, bool)):
        crew = Crew(number)
    else:
        raise InputError(f"workers: {given!r} was given; it must be a number, ray, or ray:NUMBER such as ray:64")
    if crew.number is not None and not 1 <= crew.number <= MOST_WORKERS:
        bound = "at least 1" if crew.number < 1 else f"at most {MOST_WORKERS}"
        raise InputError(f"workers: {given} was given; it must be {bound}")
    if crew.on_ray:
        _check_ray_for_crew()
    return crew


def ray_address() -> str | None:
    """Return the address of the Ray cluster to use: that of this program, otherwise RAY_ADDRESS. None if there is none.

    None stands for a cluster of our own on this machine.
    """
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return ray.get_runtime_context().gcs_address
    return os.environ.get("RAY_ADDRESS") or None


def _check_ray_for_crew() -> None:
    """Raise an `InputError` if Ray is not installed, or if the address of its cluster cannot be used."""
    if find_spec("ray") is None:
        raise InputError("workers: ray needs the package ray; install it with pip install 'alphamepol[ray]'")
    if (ray_address() or "").startswith("ray://"):
        raise InputError(
            "RAY_ADDRESS: an address with ray:// is for clients outside of a cluster, where messages take too long; "
            "start the run on a machine of the cluster and give the address HOST:PORT or auto"
        )
