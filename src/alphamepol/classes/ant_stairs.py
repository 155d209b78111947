"""ant-stairs: MuJoCo's Ant on a staircase that it walks down (Down), or has to climb (Up)."""

import dataclasses
from typing import TYPE_CHECKING

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import quick_alphamepol_preset
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.classes.miniature import miniature_finetuning
from alphamepol.environments.registry import ClassEntry, GymnasiumId, StepCost

if TYPE_CHECKING:
    from alphamepol.environments.environment_class import EnvironmentClass

NAME = "ant-stairs"
PAPER = PretrainConfig(seeds=10, epochs=400, trajectories=150, neighbours=500, hidden=(400, 300), initial_log_std=-0.5)
FINETUNING = TrpoConfig(tasks=8, steps=40_000, max_kl=1e-2, hidden=(400, 300), initial_log_std=-0.5)


def ant_stairs() -> "EnvironmentClass":
    from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs

    return make_ant_stairs()


ENTRY = ClassEntry(
    name=NAME,
    description="A MuJoCo Ant on stairs that it walks down (Down) or has to climb (Up); needs MuJoCo",
    build=ant_stairs,
    presets={
        "paper": (PAPER, FINETUNING),
        # The noise of the gradient limits what an epoch learns here. It has 8 times the paper's mini-batches.
        "large": (dataclasses.replace(PAPER, trajectories=1200),),
        "miniature": (
            dataclasses.replace(
                quick_alphamepol_preset(PAPER),
                epochs=3,
                trajectories=20,
                horizon=100,
                neighbours=50,
                evaluation_batches=5,
            ),
            dataclasses.replace(miniature_finetuning(FINETUNING), iterations=2, horizon=100, steps=2000, tasks=2),
        ),
    },
    gymnasium_ids={
        f"alphamepol/AntStairs{member}{goal}-v0": GymnasiumId(
            f"alphamepol.environments.mujoco.ant:{made_by}", {"member": member}
        )
        for member in ("Up", "Down")
        for goal, made_by in (("", "AntStairs"), ("-Goal", "ant_goal"))
    },
    cost=StepCost(host_steps_per_second=4000.0),
)
