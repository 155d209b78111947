"""ant-stairs-implicitfast: ant-stairs with another integrator."""

import dataclasses
from typing import TYPE_CHECKING

from alphamepol.classes import ant_stairs
from alphamepol.environments.registry import StepCost

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass


def ant_stairs_implicitfast() -> "EnvironmentClass":
    from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs

    return make_ant_stairs(integrator="implicitfast")


ENTRY = dataclasses.replace(
    ant_stairs.ENTRY,
    name="ant-stairs-implicitfast",
    description="ant-stairs with MuJoCo's integrator implicitfast instead of RK4: three times as fast, with other "
    "trajectories",
    build=ant_stairs_implicitfast,
    gymnasium_ids={},
    cost=StepCost(host_steps_per_second=12_000.0),
)
