"""The settings that decide how a class is sampled and what its entropies are taken of."""

from dataclasses import dataclass
from typing import Literal, get_args

from alphamepol.errors import InputError
from alphamepol.settings.fields import check_field_at_least, check_field_at_least_zero, check_seed_field

EncoderKind = Literal["auto", "random", "none"]


@dataclass(frozen=True)
class SampleSettings:
    """How mini-batches are sampled and measured."""

    horizon: int = 400
    """T, the steps of a trajectory."""
    batch: int = 5
    """B, the trajectories of a mini-batch. Each mini-batch lives in one member and has one entropy."""
    neighbours: int = 30
    """k of the nearest-neighbour estimators; less than batch x horizon."""
    feature_noise: float = 0.0
    """Deviation of normal noise on every particle, so that an agent that stands still does not make particles coincide;
    small beside the distances between neighbours, e.g. 0.001 in the gridworlds."""
    encoder: EncoderKind = "auto"
    """random: entropies are of a fixed random network of the particles, which must be images; none: of the particles
    themselves; auto: random where they are images."""
    encoder_seed: int = 0
    """Decides the random network. Entropies under different ones cannot be compared."""


def check_sample_settings(settings: SampleSettings) -> None:
    """Raise an `InputError` on the first field that cannot be."""
    if settings.encoder not in get_args(EncoderKind):
        raise InputError(f"encoder: {settings.encoder!r} was given; choose {', '.join(get_args(EncoderKind))}")
    for field in ("horizon", "batch", "neighbours"):
        check_field_at_least(settings, field, 1)
    check_seed_field(settings.encoder_seed, 1, "encoder_seed")
    if settings.neighbours >= settings.batch * settings.horizon:
        raise InputError(
            f"neighbours: {settings.neighbours} was given; it must be less than batch x horizon = "
            f"{settings.batch * settings.horizon}, the particles of a mini-batch"
        )
    check_field_at_least_zero(settings, "feature_noise")
