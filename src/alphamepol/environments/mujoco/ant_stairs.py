"""Ant Stairs as a class of MuJoCo models."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.mujoco.ant import STEPS_PER_ACTION, build_mujoco_ant
from alphamepol.environments.mujoco.mujoco_class import MujocoModel, mujoco_class, positions_and_velocities
from alphamepol.environments.mujoco.mujoco_member import MujocoMember
from alphamepol.environments.mujoco.physics import PhysicsState
from alphamepol.environments.mujoco.stairs import STAIRS, map_of_stairs
from alphamepol.environments.tasks import HalfSpace
from alphamepol.settings.run import PhysicsKind

PROBABILITIES = {"Down": 0.8, "Up": 0.2}


def make_ant_stairs(
    integrator: str = "RK4", with_time: bool = False, physics: PhysicsKind = "auto"
) -> EnvironmentClass[MujocoMember]:
    """Return the class of the members Down and Up. Particles are the position (x, y) of the torso.

    **Arguments**

    - `integrator`: "RK4" (the paper's integrator, and the default), "implicitfast" or "Euler". The last two are faster.
    - `with_time`: if True, observations end with t/1000, where t is the number of steps since the reset.
    - `physics`: the engine, as in `mujoco_class`.
    """
    members = {
        name: MujocoModel(
            build_mujoco_ant(name, integrator),
            tasks=[HalfSpace((1.0, 0.0), x) for x in STAIRS[name].goals],
            entropy_ceiling=STAIRS[name].entropy_ceiling,
            map=map_of_stairs(STAIRS[name]),
        )
        for name in PROBABILITIES
    }
    return mujoco_class(
        members,
        list(PROBABILITIES.values()),
        frame_skip=STEPS_PER_ACTION,
        entropy_on=slice(2),
        entropy_names=("x", "y"),
        observation=state_with_time if with_time else positions_and_velocities,
        name="ant-stairs" if integrator == "RK4" else f"ant-stairs-{integrator.lower()}",
        physics=physics,
    )


def state_with_time(state: PhysicsState) -> Float[Array, " observation"]:
    """Return positions, velocities and t/1000."""
    return jnp.append(positions_and_velocities(state), state.steps / 1000)
