"""Registers the members as Gymnasium environments, by string: nothing heavy is imported until one is made."""

import gymnasium

IDS = {
    "alphamepol/GWS-v0": {"class_name": "gridworld-slope", "member": "GWS"},
    "alphamepol/GWN-v0": {"class_name": "gridworld-slope", "member": "GWN"},
    "alphamepol/MultiGrid-v0": {"class_name": "multigrid", "member": 0},
    "alphamepol/Counterexample-v0": {"class_name": "gridworld-counterexample", "member": 0},
}

for _id, _arguments in IDS.items():
    gymnasium.register(_id, entry_point="alphamepol.environments.gymnasium:MemberEnvironment", kwargs=_arguments)
