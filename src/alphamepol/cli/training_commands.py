"""The commands that train policies: their options, their help texts, and the functions that they call.

Heavy imports happen inside `run`, so that --help is quick.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import Preset
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.cli.next_steps import (
    SHORT_FINETUNING,
    member_words,
    own_class_words,
    say_after_command,
    say_next_command,
)
from alphamepol.cli.stepping import STEPPING, SteppingOptions
from alphamepol.settings.run import LogTarget


@dataclass(frozen=True)
class Pretrain:
    """Pre-train one policy per seed that explores every member of CLASS, without reward.

    An option that is not given has the value of --preset for CLASS. The defaults that --help shows are those of the
    CLASS and the --preset on the same command line.

    Example: alphamepol pretrain gridworld-slope --preset quick --alpha 0.2
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: a name that `alphamepol classes` lists, or FILE.py:FUNCTION.
    FUNCTION is a function in a file of your own that returns a class."""
    config: Annotated[PretrainConfig, tyro.conf.arg(name="")]
    preset: Preset | None = None
    """The settings of all options that are not given:
    paper: the settings of the paper, with ten seeds;
    authors: like paper, with the values of the authors' scripts where the two differ;
    large: like paper, with many times the trajectories of an epoch, for minigrid and ant-stairs;
    quick: a small run with one seed, which takes about a minute on two cores;
    own: settings for a class that the paper does not have.
    If it is not given, paper is used for the classes of the paper, and own for all others."""
    init: str | None = None
    """The policy to begin with instead of an untrained one: the folder of a run that trained policies, a policy file,
    or the name of a policy that comes with the package, such as gridworld-slope/alpha-0.2.
    The memory, the scales and the network are those of this policy.
    Then --memory, --recurrent-units, --normalise, --hidden and --initial-mean are not used."""
    checkpoint: int | None = None
    """The number of epochs or iterations after which the run of --init saved the policy, for example 40.
    If it is not given, the final policy is used, or the newest checkpoint of a run that has not ended."""
    folder: Path | None = None
    """The run folder. If it is not given, runs/CLASS-alpha-ALPHA-seed-FIRST is used.
    FIRST is the first seed. For policies with memory, the memory comes after ALPHA.
    With --init, the name ends in -from-INIT."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue the run in the folder, or start it if there is none.
    More --epochs than before continue a finished run, too. All other options must be those of the first start,
    except --checkpoint-every, --keep-checkpoints and --coinciding."""
    log: LogTarget = "tensorboard"
    """The program that metrics and pictures are written for, besides metrics.jsonl.
    wandb is Weights & Biases; its environment variables, such as WANDB_MODE=offline, hold its settings."""
    devices: int = 1
    """The number of devices (such as GPUs) of this machine to use.
    The devices share the seeds. If their number is not a multiple of --devices, they share the mini-batches."""
    stepping: Annotated[SteppingOptions, tyro.conf.arg(name="")] = STEPPING
    watch: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show the run on a live page of this computer while it trains, as `alphamepol watch` does."""

    def run(self) -> None:
        from alphamepol.algorithms.alphamepol.run import pretrain

        folder, watched = self.folder, nullcontext()
        if self.watch:
            from alphamepol.algorithms.alphamepol.start import folder_of_pretraining
            from alphamepol.watching.beside_training import watching_while_training

            folder = folder or folder_of_pretraining(self.environment_class, self.config, self.init, self.checkpoint)
            watched = watching_while_training(folder, say_after_command, self.environment_class)
        with watched:
            done = pretrain(
                self.environment_class,
                self.config,
                init=self.init,
                checkpoint=self.checkpoint,
                folder=folder,
                resume=self.resume,
                devices=self.devices,
                physics=self.stepping.physics,
                workers=self.stepping.given_workers(),
                log=self.log,
            )
        say_after_command(
            f"Everything is in {done.folder}: policies in policy/, numbers in summary.json, pictures in figures/."
        )
        own = own_class_words(self.environment_class)
        say_next_command("Next", "evaluate", done.folder, *own)
        member = member_words(done.summary["members"][-1])
        say_next_command("  or", "finetune", done.folder, "random", *own, *member, *SHORT_FINETUNING)


@dataclass(frozen=True)
class Finetune:
    """Fine-tune policies on tasks in one member of a class, on each task separately.

    A task is a goal to reach, or the reward of the environment itself. If several policies are given, they are
    compared. The defaults are the settings of the paper for the class. For any other class, they are settings for a
    class whose units are not known.

    Example: alphamepol finetune runs/gridworld-slope-alpha-0.2-seed-0 random --member GWN --tasks 5 --iterations 30
    """

    inits: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN|POLICY|random …", help_behavior_hint="")
    ]
    """The policies to start from; one or more of:
    the folder of a run that trained policies;
    a policy file;
    the name of a policy that comes with the package, such as gridworld-slope/alpha-0.2;
    `random`, for untrained policies."""
    member: str
    """The member of the class to act in."""
    config: Annotated[FinetuneConfig, tyro.conf.arg(name="")]
    algorithm: str = DEFAULT
    """The name of the reinforcement-learning algorithm."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The class to act in. If it is not given, the class of the run is used.
    For policy files and `random` alone, it must be given."""
    checkpoint: int | None = None
    """The number of epochs or iterations after which each RUN saved the policy, for example 40.
    If it is not given, the final policy is used, or the newest checkpoint of a run that has not ended."""
    folder: Path | None = None
    """The run folder. If it is not given, runs/finetune-MEMBER-INIT-seed-SEED is used.
    For another algorithm than trpo, its name comes before the seed."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue the run in the folder, or start it if there is none.
    More --iterations than before continue a finished run, too.
    All other options must be those of the first start, except --checkpoint-every and --keep-checkpoints."""
    log: LogTarget = "tensorboard"
    """The program that metrics and pictures are written for, besides metrics.jsonl.
    wandb is Weights & Biases; its environment variables, such as WANDB_MODE=offline, hold its settings."""
    devices: int = 1
    """The number of devices (such as GPUs) of this machine to use. The devices share the tasks and their seeds.
    The number of tasks times the number of seeds must be a multiple of --devices."""
    stepping: Annotated[SteppingOptions, tyro.conf.arg(name="")] = STEPPING

    def run(self) -> None:
        from alphamepol.algorithms.finetuning.finetune import finetune
        from alphamepol.figures.returns import tasks_are_in_a_plane

        done = finetune(
            self.inits[0] if len(self.inits) == 1 else self.inits,
            self.member,
            self.config,
            algorithm=self.algorithm,
            environment_class=self.environment_class,
            checkpoint=self.checkpoint,
            folder=self.folder,
            resume=self.resume,
            devices=self.devices,
            physics=self.stepping.physics,
            workers=self.stepping.given_workers(),
            log=self.log,
        )
        tasks = done.summary["tasks"]
        pictures = "the curves and the maps of goals" if tasks_are_in_a_plane(tasks) else "the curves"
        say_after_command(f"Everything is in {done.folder}: numbers in summary.json, {pictures} in figures/.")


@dataclass(frozen=True)
class Metatrain:
    """Meta-train one policy per seed on CLASS, as a baseline that pre-training is compared with.

    There are three baselines. The method maml-r is MAML on random goals. The method diayn learns skills that can be
    told apart, without reward. The method maml-diayn is MAML on the rewards of these skills. The trained policies can
    be evaluated and fine-tuned like all others. CLASS must be written in JAX. The
    options from --max-kl to --line-search-tries are for MAML only.

    Example: alphamepol metatrain gridworld-slope --method maml-r --preset quick
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: a name that `alphamepol classes` lists, or FILE.py:FUNCTION.
    FUNCTION is a function in a file of your own that returns a class."""
    config: Annotated[MetatrainConfig, tyro.conf.arg(name="")]
    preset: Literal["paper", "quick"] = "paper"
    """The settings of all options that are not given:
    paper: the settings of the paper, with eight seeds;
    quick: a small run with one seed, which takes a minute or two on two cores."""
    diayn: Path | None = None
    """The folder of a DIAYN run on CLASS whose skills are the tasks of maml-diayn.
    If it is not given, maml-diayn learns the skills first."""
    folder: Path | None = None
    """The run folder. If it is not given, runs/CLASS-METHOD-seed-FIRST is used.
    FIRST is the first seed."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue the run in the folder, or start it if there is none.
    More --iterations (for diayn, --epochs) than before continue a finished run, too.
    All other options must be those of the first start, except --checkpoint-every and --keep-checkpoints."""
    log: LogTarget = "tensorboard"
    """The program that metrics and pictures are written for, besides metrics.jsonl.
    wandb is Weights & Biases; its environment variables, such as WANDB_MODE=offline, hold its settings."""
    devices: int = 1
    """The number of devices (such as GPUs) of this machine to use.
    The devices share the seeds, whose number must be a multiple of --devices."""

    def run(self) -> None:
        from alphamepol.algorithms.metatraining.run import metatrain

        done = metatrain(
            self.environment_class,
            self.config,
            diayn=self.diayn,
            folder=self.folder,
            resume=self.resume,
            devices=self.devices,
            log=self.log,
        )
        say_after_command(
            f"Everything is in {done.folder}: policies in policy/, numbers in summary.json, pictures in figures/."
        )
        own, member = own_class_words(self.environment_class), member_words(done.summary["members"][-1])
        say_next_command("Next", "finetune", done.folder, "random", *own, *member, *SHORT_FINETUNING)
        if self.config.method == "diayn":
            skills = "--method", "maml-diayn", "--diayn", done.folder
            say_next_command("  or", "metatrain", self.environment_class, *skills)
