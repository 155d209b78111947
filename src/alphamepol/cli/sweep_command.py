"""The command that does many runs of pre-training: its options and its help text.

Heavy imports happen inside `run`, so that --help is quick.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import Preset
from alphamepol.settings.launch import HERE, LaunchSettings
from alphamepol.settings.policy import MemoryKind
from alphamepol.settings.sweep import ALPHAS, MEMORIES


@dataclass(frozen=True)
class SweptOptions(PretrainConfig):
    """The options of pre-training as the command line of a sweep has them: two of them have several values.

    Only the parser uses this class. It takes the help texts of the other options from `PretrainConfig`.
    """

    alpha: tuple[float, ...] = ALPHAS  # pyright: ignore[reportIncompatibleVariableOverride]
    """The values of the percentile α in (0, 1]. There is a run for each of them and each --memory."""
    memory: tuple[MemoryKind, ...] = MEMORIES  # pyright: ignore[reportIncompatibleVariableOverride]
    """The kinds of memory of the policies within an episode: none, last, recurrent."""

    @classmethod
    def with_defaults(cls, config: PretrainConfig) -> "SweptOptions":
        """Return the options with the settings of `config`, apart from α and memory."""
        return cls(**_settings_without_swept(config))

    def settings(self) -> PretrainConfig:
        """Return the settings that all runs share."""
        return PretrainConfig(**_settings_without_swept(self))


def _settings_without_swept(config: PretrainConfig) -> dict[str, Any]:
    names = [one.name for one in dataclasses.fields(config)]
    return {name: getattr(config, name) for name in names if name not in ("alpha", "memory")}


@dataclass(frozen=True)
class Sweep:
    """Pre-train on CLASS with several values of α and kinds of memory, and write a page about what they buy.

    The page shows the entropy in each member against the others, and the mean against the CVaR, with 95 % intervals.
    Each run is a command `alphamepol pretrain`, here or on a cluster, with all its --seeds. A run that fails is tried
    again from its checkpoint, and runs that are done are not repeated. docs/sweeps.md shows how to start on a laptop,
    on Ray and on Slurm.

    Example: alphamepol sweep gridworld-slope --alpha 0.1 0.2 0.5 1 --memory none last --preset quick --seeds 3
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: a name that `alphamepol classes` lists, or FILE.py:FUNCTION.
    FUNCTION is a function in a file of your own that returns a class."""
    config: Annotated[SweptOptions, tyro.conf.arg(name="")]
    launch: Annotated[LaunchSettings, tyro.conf.arg(name="")] = HERE
    specialists: tyro.conf.FlagCreatePairsOff[bool] = False
    """Also train a policy on each member alone, with MEPOL. The page shows them as marks."""
    preset: Preset | None = None
    """The preset, as for `pretrain`; `alphamepol pretrain --help` explains the presets."""
    folder: Path | None = None
    """The folder of the runs, the figures and the page. If it is not given, runs/sweep-CLASS is used."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue runs that have begun in the folder."""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """Only list the runs, and about how long they will take on this device.
    With --on slurm, the script is written and printed, but not submitted."""

    def run(self) -> None:
        from alphamepol.sweeping.sweep import sweep

        sweep(
            self.environment_class,
            self.config.settings(),
            alpha=self.config.alpha,
            memory=self.config.memory,
            specialists=self.specialists,
            launch=self.launch,
            folder=self.folder,
            resume=self.resume,
            dry_run=self.dry_run,
        )
