"""The discriminators that a DIAYN run leaves: what tells its skills apart, and so what rewards them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.errors import InputError
from alphamepol.files import fill, pack, seal, unpack, write_atomically
from alphamepol.networks import Network
from alphamepol.runs.checks import policy_shape
from alphamepol.runs.config import MetatrainConfig, config_from_dict
from alphamepol.runs.folder import RunFolder

FORMAT = "alphamepol-discriminator-1"


@dataclass(frozen=True)
class Discriminators:
    """One per seed of a run."""

    networks: list[Network]
    sha256: str
    """Of all of them."""


def save_discriminator(discriminator: Network, path: Path) -> None:
    """Write a discriminator as safetensors; equal ones give equal files."""
    write_atomically(path, seal(discriminator, {"format": FORMAT}))


def load_discriminators(folder: RunFolder, environment_class: EnvironmentClass) -> Discriminators:
    """The discriminators of a finished DIAYN run, which must fit a class."""
    described = folder.read_config()
    try:
        config = config_from_dict(MetatrainConfig, described["config"])
        config.check()
        seeds = [int(seed) for seed in folder.read_summary()["seeds"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"diayn: {folder.path} is not a run of DIAYN ({error})") from error
    if config.method != "diayn":
        raise InputError(f"diayn: {folder.path} is a run of {config.label}; name a run of DIAYN")
    if described.get("members_sha256") != environment_class.fingerprint:
        raise InputError(
            f"diayn: {folder.path} is of class {described.get('class')}, with other members than "
            f"{environment_class.name}; its skills mean nothing there"
        )
    shape = policy_shape(environment_class)
    template = eqx.filter_eval_shape(
        lambda: Network(shape.observation_size, config.hidden, config.skills, shape.image, key=jax.random.key(0))
    )
    found = [_load(folder.discriminator(seed), template) for seed in seeds]
    return Discriminators(found, hashlib.sha256(pack(found, {})).hexdigest())


def _load(path: Path, template: Network) -> Network:
    try:
        header, arrays = unpack(path)
        if header.get("format") != FORMAT:
            raise ValueError("it holds something else")
        return fill(template, arrays)
    except (OSError, ValueError) as error:
        raise InputError(f"diayn: {path} cannot be read as a discriminator ({error})") from error
