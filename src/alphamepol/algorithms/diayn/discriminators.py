"""The files of discriminators. A discriminator is the network that tells skills apart, which gives their reward."""

from pathlib import Path

import jax
from jaxtyping import Array, Float, Int, Shaped

from alphamepol.errors import InputError
from alphamepol.files.arrays import fill_with_arrays, seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.networks import Network

FORMAT = "alphamepol-discriminator-1"


def save_discriminator(discriminator: Network, path: Path) -> None:
    """Write a discriminator as a safetensors file. Equal discriminators give equal files."""
    write_atomically(path, seal_arrays(discriminator, {"format": FORMAT}))


def load_discriminator(path: Path, template: Network) -> Network:
    """Read a discriminator that has the shapes of the template."""
    try:
        header, arrays = unpack_arrays(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something other than a discriminator")
        return fill_with_arrays(template, arrays)
    except (OSError, ValueError) as error:
        raise InputError(f"diayn: {path} cannot be read as a discriminator ({error})") from error


def discriminator_log_probability(
    discriminator: Network, observation: Shaped[Array, " observation"], skill: Int[Array, ""]
) -> Float[Array, ""]:
    """Return ln q(z|s), the log-probability of a skill z given an observation s."""
    return jax.nn.log_softmax(discriminator(observation))[skill]
