"""Small MuJoCo models and policies for tests."""

from pathlib import Path

import gymnasium
import jax

import alphamepol as am
from alphamepol.environments.mujoco.library import mujoco
from alphamepol.policies.policy import Policy, stack_policies

ASSETS = Path(gymnasium.__file__).parent / "envs/mujoco/assets"
HOPPER = ASSETS / "hopper.xml"
MUSCLE = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body pos="0 0 1" name="ball">
      <freejoint/>
      <geom size="0.1" mass="1"/>
      <body pos="0.3 0 0">
        <joint name="arm" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.2"/>
        <site name="hand" pos="0.3 0 0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <general joint="arm" dyntype="filter" dynprm="0.1" gainprm="1" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
  <sensor><framepos objtype="site" objname="hand"/><jointvel joint="arm"/></sensor>
  <keyframe><key qpos="0 0 1 1 0 0 0 0.5"/></keyframe>
</mujoco>
"""
"""A ball with an arm. The model has a free joint, an actuator with a state, sensors and a keyframe."""


def hopper(friction: float = 1.0, mass: float = 1.0) -> "mujoco.MjSpec":
    spec = mujoco.MjSpec.from_file(str(HOPPER))
    for geom in spec.geoms:
        geom.friction[0] *= friction
        geom.density *= mass
    return spec


def muscle(gravity: float = -9.81) -> "mujoco.MjModel":
    model = mujoco.MjModel.from_xml_string(MUSCLE)
    model.opt.gravity[2] = gravity
    return model


def policies_for(environment_class, seeds: int) -> Policy:
    """Return untrained policies for a class, stacked over seeds."""
    member = environment_class[0]
    return stack_policies(
        [
            am.GaussianPolicy(
                member.observation_space.shape[0], member.action_space.shape[0], hidden=(8,), key=jax.random.key(seed)
            )
            for seed in range(seeds)
        ]
    )
