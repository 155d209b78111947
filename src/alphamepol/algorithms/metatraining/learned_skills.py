"""The skills of a DIAYN run, which MAML uses as tasks."""

import hashlib
from dataclasses import dataclass

import equinox as eqx
import jax

from alphamepol.algorithms.diayn.discriminators import load_discriminator
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.errors import InputError
from alphamepol.files.arrays import pack_arrays
from alphamepol.files.reading import ODD
from alphamepol.policies.networks import Network
from alphamepol.policies.shape import policy_shape
from alphamepol.runs.folder import RunFolder
from alphamepol.settings.conversion import settings_from_dict


@dataclass(frozen=True)
class Discriminators:
    """The discriminators of a DIAYN run, one per seed."""

    networks: list[Network]
    sha256: str
    """The SHA-256 of all networks together."""


def load_learned_skills(folder: RunFolder, environment_class: EnvironmentClass) -> Discriminators:
    """Read the discriminators of a finished DIAYN run. Raises InputError if they do not fit the class."""
    described = folder.read_config()
    try:
        config = settings_from_dict(MetatrainConfig, described["config"])
        config.check()
        seeds = [int(seed) for seed in folder.read_summary()["seeds"]]
    except ODD as error:
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
    found = [load_discriminator(folder.discriminator(seed), template) for seed in seeds]
    return Discriminators(found, hashlib.sha256(pack_arrays(found, {})).hexdigest())
