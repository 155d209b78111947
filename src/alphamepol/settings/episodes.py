"""The settings of episodes with a reward."""

from dataclasses import dataclass

from alphamepol.settings.fields import check_field_at_least, check_field_is_share


@dataclass(frozen=True)
class EpisodeSettings:
    """How long episodes are, and how much later rewards count."""

    horizon: int = 400
    """The steps after which an episode is cut."""
    discount: float = 0.99
    """γ."""


def check_episode_settings(settings: EpisodeSettings) -> None:
    """Raise an `InputError` on the first field that cannot be."""
    check_field_at_least(settings, "horizon", 1)
    check_field_is_share(settings, "discount")
