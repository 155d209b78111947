"""Several devices: seeds, mini-batches or tasks that run side by side are laid over them.

Within `laid_over`, `lay` spreads arrays over the devices along one of their leading axes, and XLA has every compiled
program work where its data is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from alphamepol.environments.host import HostClass
from alphamepol.errors import InputError

_AXIS = "devices"


@contextmanager
def laid_over(devices: int) -> Iterator[None]:
    """Let what happens inside use so many devices."""
    if devices == 1:
        yield
        return
    with jax.set_mesh(Mesh(np.array(jax.local_devices()[:devices]), (_AXIS,), axis_types=(AxisType.Auto,))):
        yield


def several() -> bool:
    """Whether work is laid over several devices."""
    return _AXIS in jax.sharding.get_abstract_mesh().axis_names


def lay(tree: Any, axes: int = 1) -> Any:
    """Arrays that are stacked along so many leading axes, over the devices: along the first axis that is a multiple
    of their number, else on each of them."""
    if not several():
        return tree
    mesh = jax.sharding.get_mesh()

    def place(leaf: Any) -> Any:
        along = next((axis for axis in range(axes) if leaf.shape[axis] % mesh.size == 0), None)
        spec = PartitionSpec() if along is None else PartitionSpec(*[None] * along, _AXIS)
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    return jax.tree.map(place, tree)


def on_one_device(tree: Any) -> Any:
    """Arrays that were laid over several devices, on the first of them."""
    return jax.device_put(tree, jax.local_devices()[0])


def check_devices(devices: int, environment_class: Any, counts: dict[str, int]) -> None:
    """Refuse more devices than there are, and a number of them that none of what is counted can be shared by."""
    if devices == 1:
        return
    there = len(jax.local_devices())
    if not 1 <= devices <= there:
        raise InputError(f"devices: {devices} was given; there {'is 1' if there == 1 else f'are {there}'}")
    if isinstance(environment_class, HostClass):
        raise InputError(
            f"devices: {devices} was given; class {environment_class.name} runs on the host, for which one is enough"
        )
    if all(count % devices for count in counts.values()):
        listed = " or ".join(f"{count} {name}" for name, count in counts.items())
        possible = [n for n in range(1, there + 1) if any(count % n == 0 for count in counts.values())]
        raise InputError(
            f"devices: {devices} was given; {listed} cannot be shared evenly by so many, only by "
            f"{', '.join(map(str, possible))}"
        )
