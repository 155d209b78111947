"""MuJoCo models of members: reading them, and testing that they have the same structure."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import copy
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from alphamepol.environments.mujoco.library import mujoco
from alphamepol.errors import InputError
from alphamepol.files.names import WIDTH, describe_plainly, name_as_text

COUNTS = (
    *("nq", "nv", "nu", "na", "nbody", "njnt", "ngeom", "nsite", "ntendon", "neq", "nmocap"),
    *("nsensor", "nsensordata", "nmesh", "nhfield", "npair", "nexclude"),
)
"""The sizes of a model that must be equal in all members."""
KINDS = (
    *("body_parentid", "body_mocapid", "jnt_type", "jnt_bodyid", "jnt_qposadr", "jnt_dofadr", "geom_type"),
    *("geom_bodyid", "geom_dataid", "site_bodyid", "eq_type", "actuator_trntype", "actuator_trnid"),
    *("actuator_dyntype", "actuator_gaintype", "actuator_biastype", "sensor_type", "sensor_objid", "sensor_adr"),
)
"""The arrays of a model that must be equal in all members: the tree of bodies, and the kinds of its parts."""
OPTIONS = "integrator", "cone", "solver", "jacobian"
"""The options of a model that must be equal in all members."""


def read_mujoco_models(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the compiled model of each member. Raises an `InputError` if one cannot be read, or if they differ.

    The models are copies. Their warm start is switched off, so that a step depends on the state alone. Otherwise it
    would depend on the simulation that a thread has stepped before.
    """
    models = {name: _read_mujoco_model(name, given) for name, given in members.items()}
    (first_name, first), *others = models.items()
    for name, model in others:
        _refuse_other_structure(name, model, first_name, first)
    for name, model in models.items():
        _refuse_unknown_mujoco_state(name, model)
    return models


def read_mujoco_model_like(name: str, given: Any, first_name: str, first: Any) -> Any:
    """Return the compiled model of one more member. Raises an `InputError` if its structure differs from the first."""
    model = _read_mujoco_model(name, given)
    _refuse_other_structure(name, model, first_name, first)
    return model


def mujoco_model_digest(model: Any, *more: Any) -> np.ndarray:
    """Return the SHA-256 hash of a model, and of more that its simulations depend on, as eight numbers."""
    packed = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, packed)
    described = " ".join(map(describe_plainly, more)).encode(errors="surrogatepass")
    return np.frombuffer(hashlib.sha256(packed.tobytes() + described).digest(), np.uint32).copy()


def mujoco_start_arrays(model: Any) -> tuple[np.ndarray, ...]:
    """Return the positions, velocities, activations and sensors at the start of an episode, without noise.

    They are those of the first keyframe, or of the initial position if the model has no keyframe.
    """
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return tuple(np.array(part, np.float32) for part in (data.qpos, data.qvel, data.act, data.sensordata))


def _read_mujoco_model(name: str, given: Any) -> Any:
    shown = name_as_text(name, WIDTH)
    try:
        if isinstance(given, mujoco.MjModel):
            model = copy.copy(given)
        elif isinstance(given, mujoco.MjSpec):
            model = given.compile()
        elif isinstance(given, str | Path):
            if not Path(given).is_file():
                raise InputError(f"members: {shown} is {str(given)!r}, which is not a file")
            model = mujoco.MjModel.from_xml_path(str(given))
        else:
            raise InputError(
                f"members: {shown} is {type(given).__name__}; give an MjSpec, an MjModel, or the path of an MJCF file"
            )
    except (ValueError, mujoco.FatalError) as error:
        raise InputError(f"members: the model of {shown} cannot be compiled ({error})") from error
    if not model.nu:
        raise InputError(f"members: {shown} has no actuator, so that an agent cannot act in it")
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    return model


def _refuse_other_structure(name: str, model: Any, first_name: str, first: Any) -> None:
    if difference := _difference_of_mujoco_models(model, first):
        raise InputError(
            f"members: {name_as_text(name, WIDTH)} and {name_as_text(first_name, WIDTH)} differ in {difference}; "
            "the models of a class have the same bodies, joints, geoms, actuators and sensors, and differ in "
            "numbers only, such as masses, sizes and friction"
        )


def _difference_of_mujoco_models(one: Any, other: Any) -> str | None:
    """Return the first difference in structure between two models, or None if there is none."""
    for count in COUNTS:
        if getattr(one, count) != getattr(other, count):
            return f"{count}: {getattr(one, count)} and {getattr(other, count)}"
    for kind in KINDS:
        if not np.array_equal(getattr(one, kind), getattr(other, kind)):
            return kind
    for option in OPTIONS:
        if getattr(one.opt, option) != getattr(other.opt, option):
            return f"opt.{option}: {getattr(one.opt, option)} and {getattr(other.opt, option)}"
    if not np.array_equal(mujoco_control_ranges(one), mujoco_control_ranges(other)):
        return "the ranges of their controls (actuator_ctrlrange)"
    if one.narena != other.narena:
        return f"the memory of a simulation: {one.narena} and {other.narena} bytes"
    return None


def mujoco_control_ranges(model: Any) -> np.ndarray:
    """Return the lowest and the highest control of each actuator; infinite if the control is not limited."""
    limited = model.actuator_ctrllimited.astype(bool)[:, None]
    return np.where(limited, model.actuator_ctrlrange, [-np.inf, np.inf]).T.astype(np.float32)


def _refuse_unknown_mujoco_state(name: str, model: Any) -> None:
    """Raise an `InputError` if the state of a model has more parts than positions, velocities and activations."""
    known = 1 + model.nq + model.nv + model.na
    if mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS) != known or model.nmocap:
        raise InputError(
            f"members: {name_as_text(name, WIDTH)} has plugins, delays or mocap bodies, whose states are not known here"
        )
