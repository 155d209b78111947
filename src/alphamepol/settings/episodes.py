"""The settings of episodes with a reward."""

from dataclasses import dataclass

from alphamepol.settings.fields import check_field_at_least, check_field_is_share


@dataclass(frozen=True)
class EpisodeSettings:
    """The length of episodes, and the discount of their rewards."""

    horizon: int = 400
    """The number of steps after which an episode is cut off."""
    discount: float = 0.99
    """The discount factor γ of the rewards, between 0 and 1."""


def check_episode_settings(settings: EpisodeSettings) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
    check_field_at_least(settings, "horizon", 1)
    check_field_is_share(settings, "discount")
