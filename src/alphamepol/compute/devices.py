"""Several devices: seeds, mini-batches or tasks that run side by side are laid over them.

Within `using_devices`, `lay_over_devices` spreads arrays over the devices along one of their leading axes, and
`share_among_devices` has each device work on its part of them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

_AXIS = "devices"


@contextmanager
def using_devices(devices: int) -> Iterator[None]:
    """Let what happens inside use so many devices."""
    if devices == 1:
        yield
        return
    with jax.set_mesh(Mesh(np.array(jax.local_devices()[:devices]), (_AXIS,), axis_types=(AxisType.Auto,))):
        yield


@contextmanager
def using_one_device() -> Iterator[None]:
    """Let what happens inside use the first device only, where several are in use."""
    if not has_several_devices():
        yield
        return
    with jax.set_mesh(Mesh(np.array(jax.local_devices()[:1]), (_AXIS,), axis_types=(AxisType.Auto,))):
        yield


def has_several_devices() -> bool:
    """Whether there are several devices to share work; inside of `share` each works by itself."""
    mesh = jax.sharding.get_abstract_mesh()
    return _AXIS in mesh.axis_names and _AXIS not in mesh.manual_axes


def share_among_devices(function: Callable[..., Any], common: Any, *stacked: Any) -> Any:
    """A function of something common and of arrays that are stacked along a leading axis: each device applies it to
    its part of these, if parts can be equal.

    What it gives must be stacked the same way. Derivatives are to be taken inside.
    """
    leaves = jax.tree.leaves(stacked)
    if not has_several_devices() or any(len(leaf) % jax.sharding.get_abstract_mesh().size for leaf in leaves):
        return function(common, *stacked)
    parts = PartitionSpec(_AXIS)
    specs = PartitionSpec(), *(parts for _ in stacked)
    return jax.shard_map(function, in_specs=specs, out_specs=parts, check_vma=False)(common, *stacked)


def lay_over_devices(tree: Any, axes: int = 1) -> Any:
    """Arrays that are stacked along so many leading axes, over the devices: along the first axis that is a multiple
    of their number, else on each of them."""
    if not has_several_devices():
        return tree
    mesh = jax.sharding.get_mesh()

    def place(leaf: Any) -> Any:
        along = next((axis for axis in range(axes) if leaf.shape[axis] % mesh.size == 0), None)
        spec = PartitionSpec() if along is None else PartitionSpec(*[None] * along, _AXIS)
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    return jax.tree.map(place, tree)


def move_to_one_device(tree: Any) -> Any:
    """Arrays that were laid over several devices, on the first of them."""
    return jax.device_put(tree, jax.local_devices()[0])


def device_name() -> str:
    """The device that computes, e.g. "NVIDIA H200" or "cpu"."""
    return jax.devices()[0].device_kind


def wait_for_devices(tree: Any) -> Any:
    """Block until all arrays are computed, but let Ctrl-C through (JAX's own waiting does not)."""
    leaves: list[Any] = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    for leaf in leaves:
        pause = 1e-4
        while not leaf.is_ready():
            time.sleep(pause)
            pause = min(1.1 * pause, 0.002)
    return jax.block_until_ready(tree)


def device_for_little_work() -> Any:
    """Where little at a time is quickest: the CPU, whatever accelerator there is, unless JAX is kept from it."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return jax.local_devices()[0]
