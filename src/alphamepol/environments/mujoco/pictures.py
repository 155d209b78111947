"""Pictures of MuJoCo models."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from alphamepol.environments.mujoco.library import OPENGL_CURE, mujoco
from alphamepol.errors import RunError

PICTURE = 640, 400
"""The width and height of a picture in pixels."""


class MujocoPainter:
    """A painter of one model. It shows what the model's first camera sees; a model without cameras is seen whole."""

    def __init__(self, model: Any):
        width, height = PICTURE
        self._model = model
        self._data = mujoco.MjData(model)
        try:
            self.renderer = mujoco.Renderer(model, height, width)
        except Exception as error:  # each OpenGL backend raises errors of its own
            raise RunError(f"render: MuJoCo cannot draw without OpenGL ({error}); {OPENGL_CURE}") from error

    def look_at(self, qpos: Float[np.ndarray, " positions"]) -> None:
        """Prepare the scene of a picture. The caller may then add marks to `renderer.scene`."""
        self._data.qpos[:] = qpos
        mujoco.mj_forward(self._model, self._data)
        self.renderer.update_scene(self._data, 0 if self._model.ncam else -1)

    def paint(self) -> UInt8[np.ndarray, "height width 3"]:
        return self.renderer.render()

    def close(self) -> None:
        self.renderer.close()


def paint_mujoco_model(
    model: Any, states: Iterable[Float[np.ndarray, " positions"]]
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Yield a picture of a model for each state, which is the positions of its joints."""
    painter = MujocoPainter(model)
    try:
        for qpos in states:
            painter.look_at(qpos)
            yield painter.paint()
    finally:
        painter.close()
