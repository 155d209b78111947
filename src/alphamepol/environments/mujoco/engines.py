"""The choice of the engine that steps the models of a class."""

import importlib.util
from collections.abc import Mapping
from typing import Any, get_args
from weakref import WeakValueDictionary

import jax

from alphamepol.environments.mujoco.cpu_physics import CpuPhysics
from alphamepol.environments.mujoco.models import mujoco_model_digest
from alphamepol.environments.mujoco.physics import PhysicsEngine
from alphamepol.errors import InputError
from alphamepol.settings.run import PhysicsKind

_engines: WeakValueDictionary[Any, PhysicsEngine] = WeakValueDictionary()
"""The engines that are in use, by what makes them equal. Compiled programs keep their engines in use."""


def choose_physics_engine(models: Mapping[str, Any], frame_skip: int, physics: PhysicsKind) -> PhysicsEngine:
    """Return the engine for the models of a class, which are given by the names of their members.

    Raises an `InputError` if "gpu" was given, but the GPU cannot step the models.
    """
    if physics not in get_args(PhysicsKind):
        raise InputError(f"physics: {physics!r} was given; choose {', '.join(get_args(PhysicsKind))}")
    digests = tuple(bytes(mujoco_model_digest(model)) for model in models.values())
    key = digests, frame_skip, physics, has_nvidia_gpu()
    engine = _engines.get(key)
    if engine is None:
        engine = _engines[key] = _make_physics_engine(models, frame_skip, physics)
    return engine


def _make_physics_engine(models: Mapping[str, Any], frame_skip: int, physics: PhysicsKind) -> PhysicsEngine:
    reason = ""
    if physics == "gpu" or (physics == "auto" and has_nvidia_gpu()):
        try:
            return _make_gpu_engine(models, frame_skip)
        except InputError as error:
            if physics == "gpu":
                raise
            reason = str(error).removeprefix("physics: ")
    return CpuPhysics(list(models.values()), frame_skip, reason=reason)


def _make_gpu_engine(models: Mapping[str, Any], frame_skip: int) -> PhysicsEngine:
    if not has_nvidia_gpu():
        raise InputError("physics: gpu was given; JAX sees no NVIDIA GPU here, and computes on the CPU")
    for module in ("mujoco_warp", "warp"):
        if importlib.util.find_spec(module) is None:
            raise InputError(
                "physics: the GPU was not used, because MuJoCo Warp is not installed: "
                "pip install 'alphamepol[gpu-physics]'"
            )
    from alphamepol.environments.mujoco.warp_physics import WarpPhysics

    return WarpPhysics(models, frame_skip)


def has_nvidia_gpu() -> bool:
    """Tell whether JAX computes on an NVIDIA GPU."""
    return jax.default_backend() == "gpu"
