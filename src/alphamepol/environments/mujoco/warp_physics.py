"""The engine that steps simulations on an NVIDIA GPU, with MuJoCo Warp. It also runs on a CPU, where it is slow.

The members of a class share one model of MuJoCo Warp. The fields in which members differ have a row for each
simulation. A control step is one call in a compiled program of JAX, so that a whole rollout is one program.
"""

# Annotations of Warp's kernels are no types, and MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false, reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportArgumentType=false, reportGeneralTypeIssues=false, reportAssignmentType=false

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import mujoco_warp
import numpy as np
import warp as wp
from jaxtyping import Array, Float, Int

from alphamepol.environments.mujoco.library import mujoco
from alphamepol.environments.mujoco.physics import Moved, PhysicsState, pack_physics_state, unpack_moved
from alphamepol.errors import InputError
from alphamepol.files.names import WIDTH, name_as_text

try:
    # These parts of MuJoCo Warp are not public. Without them, its contacts stay as they are.
    from mujoco_warp._src import collision_primitive

    PLANE_CAPSULE = collision_primitive.plane_capsule
    """MuJoCo Warp's own contacts of a capsule with a plane, which `_plane_capsule` corrects."""
except (ImportError, AttributeError):
    collision_primitive: Any = None
    PLANE_CAPSULE = None
wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # Warp would tell of every module that it loads
IRRELEVANT = ("light_", "mat_", "cam_", "tex_", "skin_", "geom_rgba", "geom_matid", "geom_group", "key_", "stat")
"""The beginnings of the names of fields that steps do not depend on: those of pictures and keyframes."""
POSES = ("xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat")
"""The poses in the data. MuJoCo Warp does not compute those of parts that never move, so they must be written."""
DIVERGED, SHORT, DROPPED = 1, 2, 4
"""The bits of the troubles of a member."""
WHOLE, LOST_NOW, LOST_BEFORE = 0, 1, 2
"""The conditions of a simulation: whole, lost in this control step, or lost in an earlier one."""
LARGEST = 1e10
"""The largest position or velocity of a simulation that has not diverged. MuJoCo has the same limit."""
OVERFLOWS = mujoco_warp.OverflowType
SHORTAGES = int(OVERFLOWS.NEFC | OVERFLOWS.NJMAX_NNZ | OVERFLOWS.BROADPHASE | OVERFLOWS.NARROWPHASE | OVERFLOWS.CCD)
"""The overflows that do not happen with more room for contacts and constraints."""
DROPS = int(OVERFLOWS.ALL & ~(SHORTAGES | OVERFLOWS.ITERATIONS | OVERFLOWS.LS_ITERATIONS))
"""The overflows of buffers whose size is fixed. A solver that has reached its largest number of iterations drops
nothing."""
MOST_ROOM = 64
"""The largest factor by which there is more room than MuJoCo Warp gives by default."""


class WarpPhysics:
    """An engine of MuJoCo Warp, on the device on which JAX computes."""

    kind = "gpu"

    def __init__(self, models: Mapping[str, Any], frame_skip: int):
        """Raises an `InputError` if MuJoCo Warp cannot step the models, or not together."""
        self.models = list(models.values())
        self._frame_skip = frame_skip
        self._worlds: dict[int, Worlds] = {}
        self._room = 1
        """The factor by which there is more room for contacts than MuJoCo Warp gives by default."""
        self._programs: dict[int, Any] = {}
        self._lock = threading.Lock()  # several runs may share an engine, each in a thread
        with wp.ScopedDevice("cpu"):
            self._differing = _differing_warp_fields(models)

    @property
    def about(self) -> str:
        return f"MuJoCo Warp steps the simulations on {jax.devices()[0].device_kind}"

    def step(self, number: Int[Array, ""], state: PhysicsState, controls: Float[Array, " controls"]) -> Moved:
        moved = self._step_rows(number[None], pack_physics_state(state)[None], controls[None])[0]
        return unpack_moved(moved, state)

    def _step_rows(self, numbers: Any, packed: Any, controls: Any) -> Any:
        """Step all rows. Mapping this function by `vmap` steps the rows of all items together."""

        @jax.custom_batching.custom_vmap
        def rows(numbers: Any, packed: Any, controls: Any) -> Any:
            return self._program_for(len(numbers))(numbers, packed, controls)[0]

        @rows.def_vmap
        def rows_of_items(size: int, mapped: list[bool], *arguments: Any) -> tuple[Any, bool]:
            spread = [
                one if is_mapped else jnp.broadcast_to(one, (size, *one.shape))
                for one, is_mapped in zip(arguments, mapped, strict=True)
            ]
            found = rows(*(one.reshape(-1, *one.shape[2:]) for one in spread))
            return found.reshape(size, -1, *found.shape[1:]), True

        return rows(numbers, packed, controls)

    def _program_for(self, count: int) -> Any:
        """Return the function that steps so many worlds, for compiled programs.

        JAX asks for functions of fewer worlds, too, while it traces a program. Worlds are made when they are stepped.
        """
        if count not in self._programs:

            @no_type_check
            def program(
                numbers: wp.array(dtype=int),
                packed: wp.array2d(dtype=float),
                controls: wp.array2d(dtype=float),
                reached: wp.array2d(dtype=float),
            ):
                with self._lock, wp.ScopedDevice(numbers.device):
                    if count not in self._worlds:
                        self._worlds[count] = Worlds(self.models, self._differing, count, self._frame_skip, self._room)
                    self._worlds[count].step(numbers, packed, controls, reached)

            model = self.models[0]
            width = model.nq + model.nv + model.na + model.nsensordata
            self._programs[count] = wp.jax_callable(
                program,
                graph_mode=wp.JaxCallableGraphMode.NONE,  # worlds have their own graph
                output_dims={"reached": (count, width)},
                vmap_method=None,
            )
        return self._programs[count]

    def take_complaints(self) -> list[tuple[int, str]]:
        short = "room" if self._room < MOST_ROOM else "dropped"
        found = set()
        with self._lock:
            for worlds in self._worlds.values():
                troubles = worlds.troubles.numpy().copy()  # on a CPU, the array would be a view
                worlds.troubles.zero_()
                for kind, bit in (("diverged", DIVERGED), (short, SHORT), ("dropped", DROPPED)):
                    found |= {(int(number), kind) for number in np.flatnonzero(troubles & bit)}
            if any(kind == "room" for _, kind in found):
                # Room costs time, so that there is little at the start. The next step makes new worlds.
                self._room *= 2
                self._worlds.clear()
        return sorted(found)


@dataclasses.dataclass(frozen=True)
class Differing:
    """A field in which the members differ, with its rows for all members."""

    owner: str
    """The object that has the field: "model", "opt" or "data"."""
    name: str
    values: Any
    """The values of all members, with a leading axis over the members."""


class Worlds:
    """Simulations that are stepped together: a model and data of MuJoCo Warp, and the CUDA graph of a control step."""

    def __init__(self, models: Sequence[Any], differing: Sequence[Differing], count: int, frame_skip: int, room: int):
        """`room` multiplies the numbers of contacts and of rows of constraints for which there is room."""
        first = models[0]
        self._frame_skip, self._count, self._sensors = frame_skip, count, bool(first.nsensordata)
        sizes = {one.name: count for one in differing if one.owner == "model"}
        self._model: Any = mujoco_warp.put_model(first, batch_sizes=sizes)
        self._model.opt.warn_overflow = 0
        self._data: Any = mujoco_warp.make_data(first, nworld=count)
        if room > 1:
            sizes = {name: room * getattr(self._data, name) for name in ("naconmax", "njmax")}
            self._data = mujoco_warp.make_data(first, nworld=count, **sizes)
        self.troubles = wp.zeros(len(models), dtype=int)
        self._gathered = [self._prepare(one, count) for one in differing]
        state = 1 + first.nq + first.nv + first.na
        # A graph always reads and writes the same arrays.
        self._numbers = wp.zeros(count, dtype=int)
        self._packed, self._controls = (wp.zeros((count, width), dtype=float) for width in (state, first.nu))
        self._reached = wp.zeros((count, state - 1 + first.nsensordata), dtype=float)
        self._arrays = WorldArrays()
        for name in ("time", "qpos", "qvel", "act", "ctrl", "sensordata", "overflow"):
            setattr(self._arrays, name, getattr(self._data, name))
        self._arrays.condition, self._arrays.troubles = wp.zeros(count, dtype=int), self.troubles
        self._steps = 0
        self._graph: Any = None

    def step(self, numbers: Any, packed: Any, controls: Any, reached: Any) -> None:
        """Take one control step in all worlds, and write the states that they reach to `reached`."""
        for array, given in ((self._numbers, numbers), (self._packed, packed), (self._controls, controls)):
            wp.copy(array, given)
        if self._graph is None and self._steps and numbers.device.is_cuda:
            # The first step has loaded all kernels, so that the second one can be recorded.
            with wp.ScopedCapture() as capture:
                self._launch()
            self._graph = capture.graph
        if self._graph is None:
            self._launch()
        else:
            wp.capture_launch(self._graph)
        self._steps += 1
        wp.copy(reached, self._reached)

    def _launch(self) -> None:
        """Launch the kernels of a control step."""
        for rows, table in self._gathered:
            wp.launch(_gather, table.shape, inputs=[self._numbers, rows], outputs=[table])
        self._data.overflow.zero_()
        wp.launch(_unpack, self._count, inputs=[self._packed, self._controls, self._model.qpos0, self._arrays])
        for _ in range(self._frame_skip):
            mujoco_warp.step(self._model, self._data)
        if self._sensors:
            mujoco_warp.forward(self._model, self._data)
        wp.launch(_pack, self._count, inputs=[self._numbers, self._arrays, self._reached])

    def _prepare(self, differing: Differing, count: int) -> tuple[Any, Any]:
        """Return the rows of all members and the array of the worlds, both as tables of 32-bit numbers."""
        owner = {"model": self._model, "opt": self._model.opt, "data": self._data}[differing.owner]
        array = getattr(owner, differing.name)
        if differing.owner == "opt":
            array = wp.empty((count, *array.shape[1:]), dtype=array.dtype)
            setattr(owner, differing.name, array)
        rows = np.ascontiguousarray(differing.values).view(np.int32).reshape(len(differing.values), -1)
        table = wp.array(ptr=array.ptr, dtype=int, shape=(count, rows.shape[1]), device=array.device)
        return wp.array(rows, dtype=int), table


@wp.kernel
@no_type_check
def _gather(numbers: wp.array(dtype=int), rows: wp.array2d(dtype=int), table: wp.array2d(dtype=int)):
    """Copy the row of each world's member."""
    world, column = wp.tid()
    table[world, column] = rows[numbers[world], column]


@wp.struct
@no_type_check
class WorldArrays:
    """The arrays of all worlds that a control step begins with and ends with."""

    time: wp.array(dtype=float)
    qpos: wp.array2d(dtype=float)
    qvel: wp.array2d(dtype=float)
    act: wp.array2d(dtype=float)
    ctrl: wp.array2d(dtype=float)
    sensordata: wp.array2d(dtype=float)
    overflow: wp.array(dtype=int)
    condition: wp.array(dtype=int)
    troubles: wp.array(dtype=int)


@wp.func
@no_type_check
def _is_possible(numbers: wp.array2d(dtype=float), world: int) -> bool:
    """Tell whether all numbers of a world are finite, and none is too large."""
    possible = bool(True)  # noqa: UP018 (to Warp, True would be a constant)
    for column in range(numbers.shape[1]):
        if not wp.isfinite(numbers[world, column]) or wp.abs(numbers[world, column]) > wp.static(LARGEST):
            possible = False
    return possible


@wp.kernel
@no_type_check
def _unpack(
    packed: wp.array2d(dtype=float),
    controls: wp.array2d(dtype=float),
    qpos0: wp.array2d(dtype=float),
    worlds: WorldArrays,
):
    """Write the state and the controls of each world. A world that is lost gets a harmless state instead."""
    world = wp.tid()
    found = wp.static(WHOLE)
    if not _is_possible(controls, world):
        found = wp.static(LOST_NOW)
    if not _is_possible(packed, world):
        found = wp.static(LOST_BEFORE)
    worlds.condition[world] = found
    whole = found == wp.static(WHOLE)
    nq, nv = worlds.qpos.shape[1], worlds.qvel.shape[1]
    worlds.time[world] = wp.where(whole, packed[world, 0], 0.0)
    for i in range(nq):
        worlds.qpos[world, i] = wp.where(whole, packed[world, 1 + i], qpos0[world % qpos0.shape[0], i])
    for i in range(nv):
        worlds.qvel[world, i] = wp.where(whole, packed[world, 1 + nq + i], 0.0)
    for i in range(worlds.act.shape[1]):
        worlds.act[world, i] = wp.where(whole, packed[world, 1 + nq + nv + i], 0.0)
    for i in range(worlds.ctrl.shape[1]):
        worlds.ctrl[world, i] = wp.where(whole, controls[world, i], 0.0)


@wp.kernel
@no_type_check
def _pack(numbers: wp.array(dtype=int), worlds: WorldArrays, reached: wp.array2d(dtype=float)):
    """Write the state that each world has reached, and note what went wrong."""
    world = wp.tid()
    found = worlds.condition[world]
    if found == wp.static(WHOLE) and not (_is_possible(worlds.qpos, world) and _is_possible(worlds.qvel, world)):
        found = wp.static(LOST_NOW)
    whole = found == wp.static(WHOLE)
    if found == wp.static(LOST_NOW):
        wp.atomic_or(worlds.troubles, numbers[world], wp.static(DIVERGED))
    if whole and (worlds.overflow[world] & wp.static(SHORTAGES)) != 0:
        wp.atomic_or(worlds.troubles, numbers[world], wp.static(SHORT))
    if whole and (worlds.overflow[world] & wp.static(DROPS)) != 0:
        wp.atomic_or(worlds.troubles, numbers[world], wp.static(DROPPED))
    nq, nv, na = worlds.qpos.shape[1], worlds.qvel.shape[1], worlds.act.shape[1]
    for i in range(nq):
        reached[world, i] = wp.where(whole, worlds.qpos[world, i], wp.nan)
    for i in range(nv):
        reached[world, nq + i] = wp.where(whole, worlds.qvel[world, i], wp.nan)
    for i in range(na):
        reached[world, nq + nv + i] = wp.where(whole, worlds.act[world, i], wp.nan)
    for i in range(worlds.sensordata.shape[1]):
        reached[world, nq + nv + na + i] = wp.where(whole, worlds.sensordata[world, i], wp.nan)


def _differing_warp_fields(models: Mapping[str, Any]) -> list[Differing]:
    """Return the fields in which the members differ. Raises an `InputError` if Warp has no rows for one of them."""
    names = list(models)
    try:
        warped = [mujoco_warp.put_model(model) for model in models.values()]
    except NotImplementedError as error:
        raise InputError(f"physics: MuJoCo Warp cannot step these models ({error})") from error
    found = []
    for owner, objects in (("model", warped), ("opt", [one.opt for one in warped])):
        for field in dataclasses.fields(objects[0]):
            if field.name == "opt" or field.name.startswith(IRRELEVANT):
                continue
            values = [_warp_value(getattr(one, field.name)) for one in objects]
            for name, value in zip(names[1:], values[1:], strict=True):
                if _same_warp_value(value, values[0]):
                    continue
                shape = getattr(field.type, "shape", ())
                if not shape or shape[0] != "*" or value.itemsize != 4:
                    raise InputError(
                        f"physics: MuJoCo Warp cannot step {name_as_text(name, WIDTH)} and "
                        f"{name_as_text(names[0], WIDTH)} together, because they differ in {field.name}; step them "
                        "on the CPU, or give them equal values"
                    )
                found.append(Differing(owner, field.name, np.stack([value[0] for value in values])))
                break
    return found + _differing_poses(list(models.values()))


def _differing_poses(models: Sequence[Any]) -> list[Differing]:
    """Return the poses in which the members differ if all joints are in the same position."""
    poses: list[dict[str, np.ndarray]] = []
    for model in models:
        data = mujoco.MjData(model)
        data.qpos[:] = models[0].qpos0
        mujoco.mj_forward(model, data)
        poses.append({name: np.array(getattr(data, name), np.float32) for name in POSES})
    return [
        Differing("data", name, np.stack([pose[name] for pose in poses]))
        for name in POSES
        if any(not np.array_equal(pose[name], poses[0][name]) for pose in poses)
    ]


def _warp_value(value: Any) -> Any:
    return value.numpy() if isinstance(value, wp.array) else value


def _same_warp_value(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            _same_warp_value(_warp_value(a), _warp_value(b)) for a, b in zip(one, other, strict=True)
        )
    if dataclasses.is_dataclass(one):
        return all(
            _same_warp_value(_warp_value(getattr(one, field.name)), _warp_value(getattr(other, field.name)))
            for field in dataclasses.fields(one)
        )
    return bool(one == other)


@wp.func
@no_type_check
def _plane_capsule(
    plane_normal: wp.vec3,
    plane_pos: wp.vec3,
    capsule_pos: wp.vec3,
    capsule_axis: wp.vec3,
    capsule_radius: float,
    capsule_half_length: float,
):
    """Return the contacts of a capsule with a plane. Their first tangent lies along the capsule, as in MuJoCo.

    MuJoCo Warp 4.0 takes a fixed tangent for a capsule within 30° of the plane's normal. The direction of the tangents
    has an effect on pyramidal friction cones.
    """
    dist, pos, frame = PLANE_CAPSULE(
        plane_normal, plane_pos, capsule_pos, capsule_axis, capsule_radius, capsule_half_length
    )
    along = capsule_axis - plane_normal * wp.dot(plane_normal, capsule_axis)
    length = wp.length(along)
    if length > 1.0e-6:
        first = along / length
        second = wp.cross(plane_normal, first)
        frame = wp.mat33(
            plane_normal[0], plane_normal[1], plane_normal[2], first[0], first[1], first[2],
            second[0], second[1], second[2],
        )  # fmt: skip
    return dist, pos, frame


if PLANE_CAPSULE is not None:
    collision_primitive.plane_capsule = _plane_capsule
