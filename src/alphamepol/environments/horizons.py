"""Horizons that a class of environments allows."""

from alphamepol.environments.cmp import Member
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError


def check_horizon(environment_class: AnyClass, horizon: int) -> None:
    """Refuse a horizon that an environment of the class cuts by a time limit of its own."""
    for number, name in enumerate(environment_class.names):
        limit = environment_class[number].time_limit
        if horizon > limit:
            raise InputError(
                f"horizon: {horizon} was given, but {name} cuts episodes after {limit:g} steps; give at "
                "most that, or make it with max_episode_steps=-1"
            )


def check_horizon_of_reward(member: Member, name: str, horizon: int) -> None:
    """Refuse a horizon at which goals are worth nothing any more."""
    if horizon > member.reward_lasts:
        raise InputError(
            f"horizon: {horizon} was given, but the reward in {name} falls to nothing after max_steps = "
            f"{member.reward_lasts:g} steps; give at most that, or make the member with more"
        )
