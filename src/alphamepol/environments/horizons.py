"""Checks of the horizon against the limits of a class of environments."""

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError
from alphamepol.files.names import WIDTH, name_as_text


def check_horizon(environment_class: AnyClass, horizon: int) -> None:
    """Raise an `InputError` if the horizon is longer than the time limit of a member."""
    for number, name in enumerate(environment_class.names):
        limit = environment_class[number].time_limit
        if horizon > limit:
            raise InputError(
                f"horizon: {horizon} was given, but {name_as_text(name, WIDTH)} cuts episodes after {limit:g} steps; "
                "give at most that many, or make the environment with max_episode_steps=-1"
            )


def check_horizon_of_reward(member: Member, name: str, horizon: int) -> None:
    """Raise an `InputError` if the horizon is longer than the reward of a goal is defined for."""
    if horizon > member.reward_lasts:
        raise InputError(
            f"horizon: {horizon} was given, but the reward in {name_as_text(name, WIDTH)} is defined for at most "
            f"max_steps = {member.reward_lasts:g} steps; give at most that many, or make the member with a larger "
            "max_steps"
        )
