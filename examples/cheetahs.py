"""A class of MuJoCo models: Gymnasium's HalfCheetah on the usual ground, on ice, and twice as heavy.

alphamepol pretrain examples/cheetahs.py:cheetahs
"""

from pathlib import Path

import gymnasium
import mujoco

import alphamepol as am

MODEL = Path(gymnasium.__file__).parent / "envs/mujoco/assets/half_cheetah.xml"


def cheetah(friction: float = 1.0, mass: float = 1.0) -> mujoco.MjSpec:
    """Return Gymnasium's model with its friction and its masses multiplied by these numbers."""
    spec = mujoco.MjSpec.from_file(str(MODEL))
    spec.compiler.settotalmass = -1  # the file asks for a total mass, which would undo the change
    for geom in spec.geoms:
        geom.friction[0] *= friction
        geom.density *= mass
    return spec


def place(state):
    """Return the quantity whose entropy is maximised: how far the cheetah has come, and how high its torso is."""
    return state.qpos[:2]


def speed(state, action, reached):
    """Return the reward of a task: the distance that a step covers."""
    return reached.qpos[0] - state.qpos[0]


def cheetahs():
    members = {"usual": cheetah(), "ice": cheetah(friction=0.1), "heavy": cheetah(mass=2.0)}
    return am.mujoco_class(
        members,
        probabilities=[0.6, 0.2, 0.2],
        frame_skip=5,
        entropy_on=place,
        entropy_names=("x", "height"),
        tasks=[am.RewardFunction(speed, name="run")],
        name="cheetahs",
    )
