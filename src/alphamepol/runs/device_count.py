"""The check of the number of devices that a run is to use."""

import jax

from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.errors import InputError


def check_device_count(devices: int, environment_class: AnyClass, counts: dict[str, int]) -> None:
    """Raise an `InputError` if a run cannot use that many devices.

    `counts` holds the numbers of seeds, mini-batches or tasks, by their names. At least one of them must be a multiple
    of `devices`, so that the devices can share the work evenly.
    """
    if devices == 1:
        return
    there = len(jax.local_devices())
    if not 1 <= devices <= there:
        raise InputError(f"devices: {devices} was given; there {'is 1' if there == 1 else f'are {there}'}")
    if not isinstance(environment_class, HostClass) and environment_class.members.steps_together:
        raise InputError(
            f"devices: {devices} was given; class {environment_class.name} steps all its simulations together, on one "
            "device"
        )
    if isinstance(environment_class, HostClass):
        raise InputError(
            f"devices: {devices} was given; class {environment_class.name} runs on the host, where one is enough"
        )
    if all(count % devices for count in counts.values()):
        listed = " or ".join(f"{count} {name}" for name, count in counts.items())
        possible = [n for n in range(1, there + 1) if any(count % n == 0 for count in counts.values())]
        raise InputError(
            f"devices: {devices} was given; {listed} cannot be shared evenly by so many, only by "
            f"{', '.join(map(str, possible))}"
        )
