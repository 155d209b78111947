"""Several devices that share the work of seeds, mini-batches or tasks.

Inside `using_devices`, `lay_over_devices` distributes arrays over the devices along one of their leading axes.
`share_among_devices` lets each device work on its own part of the arrays.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from alphamepol.compute.machine import machine_memory_left, machine_memory_of_process

_AXIS = "devices"


@contextmanager
def using_devices(devices: int) -> Iterator[None]:
    """Let the code inside the context use the first `devices` devices."""
    if devices == 1:
        yield
        return
    with jax.set_mesh(Mesh(np.array(jax.local_devices()[:devices]), (_AXIS,), axis_types=(AxisType.Auto,))):
        yield


@contextmanager
def using_one_device() -> Iterator[None]:
    """Let the code inside the context use the first device only, even if several are in use outside."""
    if not has_several_devices():
        yield
        return
    with jax.set_mesh(Mesh(np.array(jax.local_devices()[:1]), (_AXIS,), axis_types=(AxisType.Auto,))):
        yield


def has_several_devices() -> bool:
    """Tell whether several devices can share work.

    The answer is no inside `share_among_devices`, because there each device works by itself.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return _AXIS in mesh.axis_names and _AXIS not in mesh.manual_axes


def share_among_devices(function: Callable[..., Any], common: Any, *stacked: Any) -> Any:
    """Apply a function to a common value and to arrays that are stacked along a leading axis, on all devices at once.

    Each device works on an equal part of the stacked arrays. If equal parts are not possible, or if only one device is
    in use, the function is applied once to the whole arrays.

    The result must be stacked along a leading axis, too. Derivatives must be taken inside the function.
    """
    leaves = jax.tree.leaves(stacked)
    if not has_several_devices() or any(len(leaf) % jax.sharding.get_abstract_mesh().size for leaf in leaves):
        return function(common, *stacked)
    parts = PartitionSpec(_AXIS)
    specs = PartitionSpec(), *(parts for _ in stacked)
    return jax.shard_map(function, in_specs=specs, out_specs=parts, check_vma=False)(common, *stacked)


def lay_over_devices(tree: Any, axes: int = 1) -> Any:
    """Distribute the arrays of a tree over the devices. `axes` is the number of leading axes that may be divided.

    An array is divided along the first of these axes whose length is a multiple of the number of devices. If there is
    no such axis, every device holds the whole array.
    """
    if not has_several_devices():
        return tree
    mesh = jax.sharding.get_mesh()

    def place(leaf: Any) -> Any:
        along = next((axis for axis in range(axes) if leaf.shape[axis] % mesh.size == 0), None)
        spec = PartitionSpec() if along is None else PartitionSpec(*[None] * along, _AXIS)
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    return jax.tree.map(place, tree)


def move_to_one_device(tree: Any) -> Any:
    """Move arrays that are distributed over several devices to the first device."""
    return jax.device_put(tree, jax.local_devices()[0])


def device_name() -> str:
    """Return the name of the device that computes, e.g. "NVIDIA H200" or "cpu"."""
    return jax.devices()[0].device_kind


class Memory(NamedTuple):
    """The memory of the device, in bytes."""

    now: int
    """The memory in use now."""
    peak: int
    """The largest memory that was in use so far."""
    there: int | None
    """The memory that this process may use in all; None if it is unknown."""


def device_memory() -> Memory:
    """Return the memory of the first device. The memory of a CPU is that of this process and its worker processes."""
    found = jax.local_devices()[0].memory_stats()
    if found:
        return Memory(found["bytes_in_use"], found["peak_bytes_in_use"], found.get("bytes_limit"))
    now, left = machine_memory_of_process(), machine_memory_left()
    return Memory(now, machine_memory_of_process(peak=True), None if left is None else now + left)


def wait_for_devices(tree: Any) -> Any:
    """Wait until all arrays are computed, and return them. Ctrl-C works meanwhile; in JAX's own waiting it does not."""
    leaves: list[Any] = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    for leaf in leaves:
        pause = 1e-4
        while not leaf.is_ready():
            time.sleep(pause)
            pause = min(1.1 * pause, 0.002)
    return jax.block_until_ready(tree)


def device_for_little_work() -> Any:
    """Return the device on which small computations are fastest: the CPU, even if there is an accelerator.

    If JAX is not allowed to use the CPU, return the first device.
    """
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return jax.local_devices()[0]
