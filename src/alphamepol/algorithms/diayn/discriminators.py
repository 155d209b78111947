"""The files of discriminators: the networks that tell skills apart, and so reward them."""

from pathlib import Path

import jax
from jaxtyping import Array, Float, Int, Shaped

from alphamepol.errors import InputError
from alphamepol.files.arrays import fill_with_arrays, seal_arrays, unpack_arrays
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.networks import Network

FORMAT = "alphamepol-discriminator-1"


def save_discriminator(discriminator: Network, path: Path) -> None:
    """Write a discriminator as safetensors; equal ones give equal files."""
    write_atomically(path, seal_arrays(discriminator, {"format": FORMAT}))


def load_discriminator(path: Path, template: Network) -> Network:
    """Read a discriminator of the shape of the template."""
    try:
        header, arrays = unpack_arrays(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something else")
        return fill_with_arrays(template, arrays)
    except (OSError, ValueError) as error:
        raise InputError(f"diayn: {path} cannot be read as a discriminator ({error})") from error


def discriminator_log_probability(
    discriminator: Network, observation: Shaped[Array, " observation"], skill: Int[Array, ""]
) -> Float[Array, ""]:
    """ln q(z|s)."""
    return jax.nn.log_softmax(discriminator(observation))[skill]
