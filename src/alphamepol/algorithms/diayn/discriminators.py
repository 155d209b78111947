"""The files of discriminators. A discriminator is the network that tells skills apart, which gives their reward."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Float, Int, Shaped

from alphamepol.errors import InputError
from alphamepol.files.arrays import PackedArray, check_packed_arrays, fill_with_arrays, seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.networks import Network

FORMAT = "alphamepol-discriminator-1"


def save_discriminator(discriminator: Network, path: Path) -> None:
    """Write a discriminator as a safetensors file. Equal discriminators give equal files."""
    write_atomically(path, seal_arrays(discriminator, {"format": FORMAT}))


def load_discriminator(path: Path, template: Network) -> Network:
    """Read a discriminator that has the shapes of the template."""

    def check(header: dict[str, Any], packed: Mapping[str, PackedArray]) -> None:
        if header.get("format") != FORMAT:
            raise ValueError("it holds something other than a discriminator")
        check_packed_arrays(template, packed)

    try:
        return fill_with_arrays(template, unpack_arrays(path, check, finite=True)[1])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"diayn: {path} cannot be read as a discriminator ({error})") from error


def discriminator_log_probability(
    discriminator: Network, observation: Shaped[Array, " observation"], skill: Int[Array, ""]
) -> Float[Array, ""]:
    """Return ln q(z|s), the log-probability of a skill z given an observation s."""
    return jax.nn.log_softmax(discriminator(observation))[skill]
