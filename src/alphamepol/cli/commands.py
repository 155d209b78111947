"""The commands of the command line: their options, their help texts, and the functions that they call.

Heavy imports happen inside `run`, so that --help is quick.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import Preset
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.names import join_command_words
from alphamepol.settings.run import LogTarget, PhysicsKind

SHORT_FINETUNING = "--tasks", "5", "--iterations", "30"
"""The options of the short fine-tuning that commands propose as the next step."""


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
    physics: PhysicsKind = "auto"
    """The engine that steps a class of MuJoCo models:
    cpu: MuJoCo, on all cores of this machine;
    gpu: MuJoCo Warp, on an NVIDIA GPU;
    auto: the GPU if it can step the models, and otherwise the CPU."""

    def run(self) -> None:
        from alphamepol.algorithms.alphamepol.run import pretrain

        done = pretrain(
            self.environment_class,
            self.config,
            init=self.init,
            checkpoint=self.checkpoint,
            folder=self.folder,
            resume=self.resume,
            devices=self.devices,
            physics=self.physics,
            log=self.log,
        )
        say_after_command(
            f"Everything is in {done.folder}: policies in policy/, numbers in summary.json, pictures in figures/."
        )
        own = _own_class_for_command(self.environment_class)
        say_next_command("Next", "evaluate", done.folder, *own)
        member = _member_for_command(done.summary["members"][-1])
        say_next_command("  or", "finetune", done.folder, "random", *own, *member, *SHORT_FINETUNING)


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
    physics: PhysicsKind = "auto"
    """The engine that steps a class of MuJoCo models:
    cpu: MuJoCo, on all cores of this machine;
    gpu: MuJoCo Warp, on an NVIDIA GPU;
    auto: the GPU if it can step the models, and otherwise the CPU."""

    def run(self) -> None:
        from alphamepol.checking.check import check

        done = check(
            self.environment_class,
            self.config,
            run=self.run_folder,
            checkpoint=self.checkpoint,
            batches=self.batches,
            folder=self.folder,
            physics=self.physics,
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
    physics: PhysicsKind = "auto"
    """The engine that steps a class of MuJoCo models:
    cpu: MuJoCo, on all cores of this machine;
    gpu: MuJoCo Warp, on an NVIDIA GPU;
    auto: the GPU if it can step the models, and otherwise the CPU."""

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
            physics=self.physics,
        )
        say_after_command(f"Everything is in {done.folder}: numbers in summary.json, pictures in figures/.")


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
    physics: PhysicsKind = "auto"
    """The engine that steps a class of MuJoCo models:
    cpu: MuJoCo, on all cores of this machine;
    gpu: MuJoCo Warp, on an NVIDIA GPU;
    auto: the GPU if it can step the models, and otherwise the CPU."""

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
            physics=self.physics,
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
        own, member = _own_class_for_command(self.environment_class), _member_for_command(done.summary["members"][-1])
        say_next_command("Next", "finetune", done.folder, "random", *own, *member, *SHORT_FINETUNING)
        if self.config.method == "diayn":
            skills = "--method", "maml-diayn", "--diayn", done.folder
            say_next_command("  or", "metatrain", self.environment_class, *skills)


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
    """Only list the runs: which of them are done, and about how long the others will take on this device."""

    def run(self) -> None:
        from alphamepol.reproduction.reproduce import reproduce

        reproduce(self.what, self.scale, folder=self.folder, dry_run=self.dry_run)


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


def _own_class_for_command(class_name: str) -> tuple[str, ...]:
    """Return the option --class for a class of the user's own (FILE.py:FUNCTION), and nothing for others.

    Commands that read a run need this option, because reading a run folder never runs a program that it names.
    """
    return ("--class", class_name) if ":" in class_name else ()


def _member_for_command(name: str) -> tuple[str, ...]:
    """Return the option --member. A name that begins with a hyphen would be read as an option of its own."""
    return (f"--member={name}",) if name.startswith("-") else ("--member", name)


def say_next_command(introduction: str, *words: str | Path) -> None:
    """Print a command line to go on with. Words that a shell would not read as they are, such as spaces, are quoted."""
    # A path that begins with a hyphen would be read as an option.
    plain = [
        os.path.join(".", word) if isinstance(word, Path) and str(word).startswith("-") else word for word in words
    ]
    say_after_command(f"{introduction}: {join_command_words(['alphamepol', *map(str, plain)])}")


def say_after_command(sentence: str) -> None:
    say_in_terminal(Console(), sentence)
