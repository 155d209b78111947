"""The files of discriminators: the networks that tell skills apart, and so reward them."""

from pathlib import Path

from alphamepol.errors import InputError
from alphamepol.files.arrays import fill, seal, unpack
from alphamepol.files.atomic import write_atomically
from alphamepol.policies.networks import Network

FORMAT = "alphamepol-discriminator-1"


def save_discriminator(discriminator: Network, path: Path) -> None:
    """Write a discriminator as safetensors; equal ones give equal files."""
    write_atomically(path, seal(discriminator, {"format": FORMAT}))


def load_discriminator(path: Path, template: Network) -> Network:
    """Read a discriminator of the shape of the template."""
    try:
        header, arrays = unpack(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something else")
        return fill(template, arrays)
    except (OSError, ValueError) as error:
        raise InputError(f"diayn: {path} cannot be read as a discriminator ({error})") from error
