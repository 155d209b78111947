"""Checks of the horizon against the limits of a class of environments."""

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError


def check_horizon(environment_class: AnyClass, horizon: int) -> None:
    """Raise an `InputError` if the horizon is longer than the time limit of a member."""
    for number, name in enumerate(environment_class.names):
        limit = environment_class[number].time_limit
        if horizon > limit:
            raise InputError(
                f"horizon: {horizon} was given, but {name} cuts episodes after {limit:g} steps; give at "
                "most that many, or make the environment with max_episode_steps=-1"
            )


def check_horizon_of_reward(member: Member, name: str, horizon: int) -> None:
    """Raise an `InputError` if the horizon is longer than the reward of a goal is defined for."""
    if horizon > member.reward_lasts:
        raise InputError(
            f"horizon: {horizon} was given, but the reward in {name} is defined for at most max_steps = "
            f"{member.reward_lasts:g} steps; give at most that many, or make the member with a larger max_steps"
        )
