"""The members as Gymnasium ids: `alphamepol/GWS-v0` without reward, `alphamepol/GWS-Goal-v0` with a goal."""

import gymnasium

IDS = {
    "alphamepol/GWS-v0": {"class_name": "gridworld-slope", "member": "GWS"},
    "alphamepol/GWN-v0": {"class_name": "gridworld-slope", "member": "GWN"},
    "alphamepol/MultiGrid-v0": {"class_name": "multigrid", "member": 0},
    "alphamepol/Counterexample-v0": {"class_name": "gridworld-counterexample", "member": 0},
    "alphamepol/EasyG-v0": {"class_name": "minigrid", "member": "EasyG", "horizon": 150},
    "alphamepol/AdvG-v0": {"class_name": "minigrid", "member": "AdvG", "horizon": 150},
}


def register_ids() -> None:
    """Register every id, its environment by string: nothing heavy is imported until one is made."""
    home = "alphamepol.environments.gymnasium"
    for name, arguments in IDS.items():
        gymnasium.register(name, entry_point=f"{home}:MemberEnvironment", kwargs=arguments)
        goal_name = name.replace("-v0", "-Goal-v0")
        gymnasium.register(goal_name, entry_point=f"{home}:goal_environment", kwargs=arguments)
    ant = "alphamepol.environments.ant"
    for member in ("Up", "Down"):
        arguments = {"member": member}
        gymnasium.register(f"alphamepol/AntStairs{member}-v0", entry_point=f"{ant}:AntStairs", kwargs=arguments)
        gymnasium.register(f"alphamepol/AntStairs{member}-Goal-v0", entry_point=f"{ant}:ant_goal", kwargs=arguments)
