"""The members as Gymnasium ids."""

import gymnasium

IDS = {
    "alphamepol/GWS-v0": {"class_name": "gridworld-slope", "member": "GWS"},
    "alphamepol/GWN-v0": {"class_name": "gridworld-slope", "member": "GWN"},
    "alphamepol/MultiGrid-v0": {"class_name": "multigrid", "member": 0},
    "alphamepol/Counterexample-v0": {"class_name": "gridworld-counterexample", "member": 0},
}


def register_ids() -> None:
    """Register every id, its environment by string: nothing heavy is imported until one is made."""
    for name, arguments in IDS.items():
        gymnasium.register(name, entry_point="alphamepol.environments.gymnasium:MemberEnvironment", kwargs=arguments)
