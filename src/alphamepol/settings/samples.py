"""The settings that decide how a class is sampled and how its entropies are measured."""

import dataclasses
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from alphamepol.errors import InputError
from alphamepol.settings.fields import check_field_at_least, check_field_at_least_zero, check_seed_field

EncoderKind = Literal["auto", "random", "none"]
LARGEST_MINIBATCH = 10**8
"""The most particles of a mini-batch. Finding the neighbours of more would take tens of gigabytes and hours."""
NOISE_IF_COINCIDING = 1e-3
"""The standard deviation of the noise, in particle units, that `coinciding="noise"` adds.

Much less noise would not help: the entropy of particles that coincide falls without bound as the noise falls."""


@dataclass(frozen=True)
class SampleSettings:
    """The sampling of mini-batches, and the measurement of their entropies."""

    horizon: int = 400
    """T, the number of steps in a trajectory."""
    batch: int = 5
    """B, the number of trajectories in a mini-batch.
    All trajectories of a mini-batch are in one member, and a mini-batch has one entropy."""
    neighbours: int = 30
    """k, the number of neighbours in the nearest-neighbour estimators. It must be less than batch x horizon."""
    feature_noise: float = 0.0
    """The standard deviation of normal noise that is added to every particle.
    It keeps particles from coinciding where an agent stands still.
    It should be small compared with the distances between neighbours, for example 0.001 in the gridworlds."""
    coinciding: Literal["stop", "noise"] = "stop"
    """The reaction if more than k particles coincide, so that their entropy is minus infinity:
    stop: end the run; it can go on with --resume --coinciding noise;
    noise: from then on, add noise of 0.001 particle units to every particle, also in evaluations of the run."""
    encoder: EncoderKind = "auto"
    """The encoder of the particles, whose outputs the entropies are measured on:
    random: a fixed random network, for particles that are images;
    none: no encoder; entropies are measured on the particles themselves;
    auto: random if the particles are images, and none otherwise."""
    encoder_seed: int = 0
    """The seed of the random encoder. Entropies under encoders of different seeds cannot be compared."""


Settings = TypeVar("Settings", bound=SampleSettings)


def check_sample_settings(settings: SampleSettings) -> None:
    """Raise an `InputError` for the first field whose value is not allowed."""
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
    if settings.batch * settings.horizon > LARGEST_MINIBATCH:
        raise InputError(
            f"horizon: {settings.horizon} was given; batch x horizon, the particles of a mini-batch, must be at most "
            f"{LARGEST_MINIBATCH}"
        )
    check_field_at_least_zero(settings, "feature_noise")
    if settings.coinciding not in ("stop", "noise"):
        raise InputError(f"coinciding: {settings.coinciding!r} was given; choose stop or noise")


def settings_with_noise(settings: Settings) -> Settings:
    """Return sample settings with the noise that is added if particles coincide."""
    return dataclasses.replace(settings, feature_noise=max(settings.feature_noise, NOISE_IF_COINCIDING))
