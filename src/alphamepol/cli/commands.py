"""The commands that train no policies of their own: their options, help texts, and the functions that they call.

Heavy imports happen inside `run`, so that --help is quick.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import Preset
from alphamepol.cli.next_steps import (
    say_after_command,
)
from alphamepol.cli.stepping import STEPPING, SteppingOptions
from alphamepol.settings.launch import HERE, LaunchSettings


@dataclass(frozen=True)
class Check:
    """Examine CLASS before training: is it well-posed, which k and learning rate fit, how much do its members differ?

    The command prints its findings in order of importance, and a command line to train with. It also writes a page
    with numbers and pictures. The settings that it examines are those of `pretrain`. An option that is not given has
    the value of --preset. Without --preset, it has the value of RUN if RUN is a pre-training run on CLASS.

    Example: alphamepol check gridworld-slope --neighbours 10
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: a name that `alphamepol classes` lists, or FILE.py:FUNCTION.
    FUNCTION is a function in a file of your own that returns a class."""
    config: Annotated[PretrainConfig, tyro.conf.arg(name="")]
    run_folder: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """The policy that collects the samples:
    a run folder (then the policy of --seed is used), a policy file,
    or the name of a policy that comes with the package, such as gridworld-slope/alpha-0.2.
    If it is not given, an untrained policy is used."""
    checkpoint: int | None = None
    """The number of epochs or iterations after which RUN saved the policy, for example 40.
    If it is not given, the final policy is used, or the newest checkpoint of a run that has not ended."""
    preset: Preset | None = None
    """The preset, as for `pretrain`; `alphamepol pretrain --help` explains the presets."""
    batches: int | None = None
    """The number of mini-batches that are sampled in each member.
    If it is not given, 12 are sampled, or fewer for a class of more than twenty members."""
    folder: Path | None = None
    """The folder of the page and its files.
    If it is not given, runs/check-CLASS is used; if RUN is a run folder, RUN/check-CLASS."""
    stepping: Annotated[SteppingOptions, tyro.conf.arg(name="")] = STEPPING

    def run(self) -> None:
        from alphamepol.checking.check import check

        done = check(
            self.environment_class,
            self.config,
            run=self.run_folder,
            checkpoint=self.checkpoint,
            batches=self.batches,
            folder=self.folder,
            physics=self.stepping.physics,
            workers=self.stepping.given_workers(),
        )
        say_after_command(
            f"Everything is in {done.folder}: the page is check.html, numbers in check.json, pictures in figures/."
        )


@dataclass(frozen=True)
class Evaluate:
    """Measure how well the policies of a run explore each member of a class: state entropy, CVaR and heat-maps.

    If several runs are given, they are compared.

    Example: alphamepol evaluate runs/gridworld-slope-alpha-0.2-seed-0
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …", help_behavior_hint="")]
    """The policies to measure; one or more of:
    the folder of a run that trained policies;
    a policy file (then --class is needed);
    the name of a policy that comes with the package, such as gridworld-slope/alpha-0.2;
    `random`, for an untrained policy to compare the others with.
    All of them are measured with the settings of the first run."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The class to evaluate in. If it is not given, the class of the run is used."""
    alpha: float | None = None
    """The percentile α of the CVaR.
    If it is not given, α of the run is used. For several runs, it is the smallest of their α.
    For a policy file, the default of `pretrain` for CLASS is used."""
    feature_noise: float | None = None
    """The standard deviation of the noise that keeps particles from coinciding.
    If it is not given, the noise of the run is used. For several runs, it is the largest of their noises."""
    encoder_seed: int | None = None
    """The seed of the random network that encodes particles which are images.
    If it is not given, the seed of the run is used, and 0 for a policy file."""
    checkpoint: int | None = None
    """The number of epochs or iterations after which each RUN saved the policy, for example 40.
    If it is not given, the final policy is used, or the newest checkpoint of a run that has not ended."""
    batches: int = 40
    """The number of mini-batches that are sampled in each member."""
    members: str = "unseen"
    """The members of a generated class:
    unseen: its named members, which nobody has trained on;
    200, or another number: so many unseen members;
    seen, or seen:200: members of the training stream."""
    folder: Path | None = None
    """The folder of the results. If it is not given, RUN/evaluation-CLASS is used.
    For several runs, runs/evaluation-CLASS-RUN-RUN is used."""
    stepping: Annotated[SteppingOptions, tyro.conf.arg(name="")] = STEPPING

    def run(self) -> None:
        from alphamepol.evaluation.evaluate import evaluate as evaluate_runs

        done = evaluate_runs(
            self.runs,
            environment_class=self.environment_class,
            alpha=self.alpha,
            feature_noise=self.feature_noise,
            encoder_seed=self.encoder_seed,
            checkpoint=self.checkpoint,
            batches=self.batches,
            members=self.members,
            folder=self.folder,
            physics=self.stepping.physics,
            workers=self.stepping.given_workers(),
        )
        say_after_command(f"Everything is in {done.folder}: numbers in summary.json, pictures in figures/.")


@dataclass(frozen=True)
class Reproduce:
    """Reproduce experiments of the paper: do their runs, draw their figures, and give a verdict on each claim.

    One HTML page shows all results. A run that several experiments share is done once. If the command is repeated, it
    skips the runs that are done and continues a run that was interrupted.

    Example: alphamepol reproduce slope-adverse --scale quick
    """

    what: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="WHAT …", help_behavior_hint="")]
    """The experiments or claims to reproduce, which docs/reproduction.md lists, or `all`.
    For a claim, only the runs that it needs are done. If nothing is given, everything is reproduced."""
    scale: Literal["quick", "paper"] = "quick"
    """The size of the experiments:
    quick: a miniature of each experiment, which takes minutes on two cores;
    paper: the settings of the paper, for a GPU."""
    folder: Path | None = None
    """The folder of the runs, the figures and the page.
    If it is not given, runs/reproduction-SCALE is used."""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """Only list the runs: which of them are done, and about how long the others will take on this device.
    With --on slurm, the script is written and printed, but not submitted."""
    launch: Annotated[LaunchSettings, tyro.conf.arg(name="")] = HERE
    run_name: Annotated[str | None, tyro.conf.arg(name="run")] = None
    """The name of a folder in runs/ of the reproduction. Only this run is done.
    The tasks of --on do this; nobody else needs it."""

    def run(self) -> None:
        from alphamepol.reproduction.reproduce import reproduce

        reproduce(
            self.what, self.scale, folder=self.folder, dry_run=self.dry_run, launch=self.launch, run=self.run_name
        )


@dataclass(frozen=True)
class Report:
    """Write one HTML page about a reproduction or about any runs. The page needs no other files.

    Example: alphamepol report runs/reproduction-quick
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER …", help_behavior_hint="")]
    """The folder of a reproduction, or one or more run folders.
    The claims of a reproduction are decided again from its runs."""
    out: Path | None = None
    """The file of the page. If it is not given, report.html in FOLDER is written.
    For several runs, report.html in the current folder is written."""

    def run(self) -> None:
        from alphamepol.reproduction.reproduce import report

        say_after_command(f"Written: {report(self.runs, self.out)}")


@dataclass(frozen=True)
class Export:
    """Write a policy to a file that other libraries can read.

    Example: alphamepol export runs/gridworld-slope-alpha-0.2-seed-0 --to sb3 policy.zip
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The policy to export: the folder of a run that trained policies, a policy file,
    or the name of a policy that comes with the package, such as gridworld-slope/alpha-0.2."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """The file to write. Its name must end in .zip for sb3, and in .safetensors for safetensors."""
    to: Literal["sb3", "safetensors"]
    """The format of the file:
    sb3: a zip file that TRPO of sb3_contrib and PPO of stable_baselines3 can `load` and train further;
    safetensors: the weights by name, for any library; docs/policy-files.md shows how to act with them."""
    seed: int | None = None
    """The seed of the policy in RUN; for a DIAYN run, the number of the policy.
    If it is not given, the first policy is exported."""
    checkpoint: int | None = None
    """The number of epochs or iterations after which RUN saved the policy, for example 40.
    If it is not given, the final policy is used, or the newest checkpoint of a run that has not ended."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The class whose observation and action spaces are written into an sb3 file.
    If it is not given, the spaces that RUN was trained in are used. For a policy file, it must be given."""

    def run(self) -> None:
        from alphamepol.evaluation.export import export

        export(
            self.run_folder,
            self.out,
            self.to,
            seed=self.seed,
            checkpoint=self.checkpoint,
            environment_class=self.environment_class,
        )
        say_after_command(f"Written: {self.out}")


@dataclass(frozen=True)
class Classes:
    """List the classes of environments that can be given as CLASS, with their members and spaces."""

    def run(self) -> None:
        from alphamepol.classes.listing import print_listing_of_classes

        print_listing_of_classes(Console())


@dataclass(frozen=True)
class Demo:
    """Show what α is for: compare MEPOL and αMEPOL on gridworld-slope with the quick preset, in a minute or two."""

    folder: Path = Path("runs/demo")
    """The folder of the runs and the pictures.
    A demo that was interrupted is continued; a demo that is done is shown again."""
    seed: int = 0
    """The seed of both runs."""

    def run(self) -> None:
        from alphamepol.reproduction.demo import demo

        demo(self.folder, self.seed)
