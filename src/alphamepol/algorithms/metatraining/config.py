"""The settings of meta-training: those of MAML and of DIAYN.

This module does not import JAX, so that `--help` is quick.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from alphamepol.algorithms.diayn.config import DiaynConfig, check_diayn_config
from alphamepol.algorithms.maml.config import MamlConfig, check_maml_config
from alphamepol.errors import InputError
from alphamepol.settings.conversion import repr_of_settings

MetaMethod = Literal["maml-r", "diayn", "maml-diayn"]


@dataclass(frozen=True)
class MethodSettings:
    """The method of meta-training, and the probabilities of the members."""

    method: MetaMethod = "maml-r"
    """The method of meta-training:
    maml-r: MAML on random goals;
    diayn: DIAYN, which learns skills that can be told apart, without reward;
    maml-diayn: MAML on the rewards of DIAYN's skills. They are learned first, unless --diayn names a run."""
    probabilities: tuple[float, ...] = ()
    """p_M, one probability per member, with the sum 1. If it is not given, p_M of the class is used."""


@dataclass(frozen=True)
class MetatrainConfig(MamlConfig, DiaynConfig, MethodSettings):
    """The settings of `metatrain`: all that decides the result of a run, except the class of environments.

    MAML uses the fields of `MamlConfig`, and DIAYN uses those of `DiaynConfig`. The method maml-diayn uses both if it
    learns the skills itself. `alphamepol metatrain --help` explains every field.

    **Example**

    ```python
    import alphamepol as am

    config = am.MetatrainConfig(method="diayn", skills=10, seeds=2)
    config.check()
    print(config.label, config.seed_list)  # DIAYN [0, 1]
    ```
    """

    def __repr__(self) -> str:
        return repr_of_settings(self)

    seeds: int = 8
    """The number of seeds. All seeds run side by side in one program."""
    checkpoint_every: int = 10
    """The number of iterations of MAML between two checkpoints.
    DIAYN, whose replay is large, saves a checkpoint after ten times as many epochs."""

    @property
    def label(self) -> str:
        """The name of the method in figures and tables."""
        return {"maml-r": "MAML+R", "diayn": "DIAYN", "maml-diayn": "MAML+DIAYN"}[self.method]

    def check(self) -> None:
        """Raise an `InputError` for the first field whose value is not allowed."""
        if self.method not in get_args(MetaMethod):
            raise InputError(f"method: {self.method!r} was given; choose {', '.join(get_args(MetaMethod))}")
        check_maml_config(self)
        check_diayn_config(self)
        if self.method == "diayn" and (self.normalise or self.memory != "none"):
            field, value = ("normalise", self.normalise) if self.normalise else ("memory", self.memory)
            raise InputError(f"{field}: {value} was given; policies of DIAYN cannot have it, those of MAML can")
