"""The settings of meta-training: those of MAML and of DIAYN.

This module does not import JAX, so that `--help` is quick.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from alphamepol.algorithms.diayn.config import DiaynConfig, check_diayn_config
from alphamepol.algorithms.maml.config import MamlConfig, check_maml_config
from alphamepol.errors import InputError

MetaMethod = Literal["maml-r", "diayn", "maml-diayn"]


@dataclass(frozen=True)
class MethodSettings:
    """What is meta-trained, and on which members."""

    method: MetaMethod = "maml-r"
    """maml-r: MAML on random goals; diayn: skills that can be told apart, without reward; maml-diayn: MAML on the
    rewards of DIAYN's skills, which are learned first unless --diayn gives them."""
    probabilities: tuple[float, ...] = ()
    """p_M, one number per member, summing to 1; the class's own if not given."""


@dataclass(frozen=True)
class MetatrainConfig(MamlConfig, DiaynConfig, MethodSettings):
    """Everything that decides what a meta-training run computes, beside the class of environments.

    MAML reads the fields of `MamlConfig`, DIAYN those of `DiaynConfig`; MAML on skills that it has to learn first reads
    both.
    """

    seeds: int = 8
    """How many seeds are run, side by side in one program."""
    checkpoint_every: int = 10
    """MAML's iterations between checkpoints; of DIAYN, whose replay is large, ten times as many epochs."""

    @property
    def label(self) -> str:
        """The name of the method in figures and tables."""
        return {"maml-r": "MAML+R", "diayn": "DIAYN", "maml-diayn": "MAML+DIAYN"}[self.method]

    def check(self) -> None:
        """Raise an `InputError` on the first field that cannot be."""
        if self.method not in get_args(MetaMethod):
            raise InputError(f"method: {self.method!r} was given; choose {', '.join(get_args(MetaMethod))}")
        check_maml_config(self)
        check_diayn_config(self)
        if self.method == "diayn" and (self.normalise or self.memory != "none"):
            field, value = ("normalise", self.normalise) if self.normalise else ("memory", self.memory)
            raise InputError(f"{field}: {value} was given; policies of DIAYN have none, those of MAML can")
