"""The import of MuJoCo, and the silence of its warnings. Modules import `mujoco` from here.

MuJoCo chooses its OpenGL backend when it is imported, and its default needs a display.
"""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from alphamepol.compute.machine import choose_machine_opengl
from alphamepol.errors import InputError

OPENGL_CURE = (
    "on a machine without a display install libegl1 and libgl1 and set MUJOCO_GL=egl, or install libosmesa6 and set "
    "MUJOCO_GL=osmesa, before MuJoCo is imported"
)

choose_machine_opengl()
try:
    import mujoco
    import mujoco.rollout
except ModuleNotFoundError as error:
    raise InputError("classes of MuJoCo models need MuJoCo: pip install 'alphamepol[mujoco]'") from error
except (AttributeError, RuntimeError, ctypes.ArgumentError) as error:
    given = os.environ.get("MUJOCO_GL")
    raise InputError(f"MUJOCO_GL: {given!r} was given, which does not work ({error}); {OPENGL_CURE}") from error

__all__ = ["OPENGL_CURE", "mujoco", "silent_mujoco_warnings"]


@contextmanager
def silent_mujoco_warnings() -> Iterator[None]:
    """Keep MuJoCo from printing warnings of steps, and from writing MUJOCO_LOG.TXT to the current folder.

    A simulation that diverges raises a `RunError` anyway, with the name of its member.
    """
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
