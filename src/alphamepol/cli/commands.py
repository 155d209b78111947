"""What each command takes and does. Heavy imports happen inside `run`, so that --help is quick."""

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


@dataclass(frozen=True)
class Pretrain:
    """Pre-train one policy per seed that explores every member of CLASS, without reward.

    Fields not given have the values of --preset for CLASS; the defaults below are those of the preset and class on
    this command line. Example: alphamepol pretrain gridworld-slope --preset quick --alpha 0.2
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: one that `alphamepol classes` lists, or FILE.py:FUNCTION, a function of your own that
    returns one."""
    config: Annotated[PretrainConfig, tyro.conf.arg(name="")]
    preset: Preset | None = None
    """paper: the paper's settings, ten seeds; authors: those of the authors' scripts; quick: a minute on two cores;
    own: for a class that the paper does not have. If not given, paper where there is one, else own."""
    folder: Path | None = None
    """The run folder; runs/CLASS-alpha-ALPHA-seed-FIRST if not given, the memory after ALPHA if there is one."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue the run in the folder."""
    devices: int = 1
    """How many devices of this machine to use: the seeds are laid over them, else the mini-batches."""

    def run(self) -> None:
        from alphamepol.algorithms.alphamepol.run import pretrain

        done = pretrain(
            self.environment_class, self.config, folder=self.folder, resume=self.resume, devices=self.devices
        )
        say_after_command(
            f"Everything is in {done.folder}: policies in policy/, numbers in summary.json, pictures in figures/."
        )
        member, own = done.summary["members"][-1], _own_class_for_command(self.environment_class)
        say_after_command(f"Next: alphamepol evaluate {done.folder}{own}")
        say_after_command(
            f"  or: alphamepol finetune {done.folder} random{own} --member {member} --tasks 5 --iterations 30"
        )


@dataclass(frozen=True)
class Check:
    """Look at CLASS before training on it: is it well-posed, what k and learning rate, how different are its members?

    Says what was found in order of importance, with a line to train with, and writes a page of numbers and pictures.
    The settings that are looked at are those of `pretrain`: of --preset for CLASS, or of RUN, unless given. Example:
    alphamepol check gridworld-slope --neighbours 10
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: one that `alphamepol classes` lists, or FILE.py:FUNCTION, a function of your own that
    returns one."""
    config: Annotated[PretrainConfig, tyro.conf.arg(name="")]
    run_folder: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """Whose policy to look through: a run folder, a policy file, or the name of a policy that comes with the package;
    an untrained one if not given. Of a run, the policy of --seed."""
    preset: Preset | None = None
    """As of `pretrain`."""
    batches: int | None = None
    """Mini-batches that are sampled in each member; 12 if not given, fewer of more than twenty members."""
    folder: Path | None = None
    """Where the page goes; runs/check-CLASS if not given, of a run RUN/check-CLASS."""

    def run(self) -> None:
        from alphamepol.checking.check import check

        done = check(self.environment_class, self.config, run=self.run_folder, batches=self.batches, folder=self.folder)
        say_after_command(
            f"Everything is in {done.folder}: the page is check.html, numbers in check.json, pictures in figures/."
        )


@dataclass(frozen=True)
class Evaluate:
    """Measure how well the policies of a run explore each member: entropy, CVaR, heat-maps; several are compared.

    Example: alphamepol evaluate runs/gridworld-slope-alpha-0.2-seed-0
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …", help_behavior_hint="")]
    """Run folders, policy files (then --class is needed), names of policies that come with the package, or `random`
    beside them. Several are measured with the settings of the first."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The class to evaluate in, if not the run's own."""
    alpha: float | None = None
    """Percentile of the CVaR; the run's own if not given, for a policy file the paper's for CLASS."""
    feature_noise: float | None = None
    """Deviation of noise on particles, so that they do not coincide; the run's own if not given."""
    encoder_seed: int | None = None
    """Of images: which random network their entropy is taken on; the run's own if not given, for a policy file 0."""
    batches: int = 40
    """Mini-batches per member."""
    folder: Path | None = None
    """Where the results go; RUN/evaluation-CLASS if not given, for several runs/evaluation-CLASS-RUN-RUN."""

    def run(self) -> None:
        from alphamepol.evaluation.evaluate import evaluate as evaluate_runs

        done = evaluate_runs(
            self.runs,
            environment_class=self.environment_class,
            alpha=self.alpha,
            feature_noise=self.feature_noise,
            encoder_seed=self.encoder_seed,
            batches=self.batches,
            folder=self.folder,
        )
        say_after_command(f"Everything is in {done.folder}: numbers in summary.json, pictures in figures/.")


@dataclass(frozen=True)
class Finetune:
    """Fine-tune policies on tasks in one member (goals, or an environment's own reward), each task apart.

    Several policies in one call are compared.

    The defaults are the paper's settings for the class, or, where it has none, those for a class of your own. Example:
    alphamepol finetune runs/gridworld-slope-alpha-0.2-seed-0 random --member GWN --tasks 5 --iterations 30
    """

    inits: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN|POLICY|random …", help_behavior_hint="")
    ]
    """Where to start from: the folder of a run that trained policies, a policy file, the name of a policy that comes
    with the package (gridworld-slope/alpha-0.2), or `random` for untrained ones."""
    member: str
    """The member of the class to act in."""
    config: Annotated[FinetuneConfig, tyro.conf.arg(name="")]
    algorithm: str = DEFAULT
    """The algorithm of reinforcement learning."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """The class to act in, if not the run's own; needed where there is no run."""
    folder: Path | None = None
    """Where the results go; runs/finetune-MEMBER-INIT-seed-SEED if not given."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue what is in the folder."""
    devices: int = 1
    """How many devices of this machine to use: tasks and seeds are laid over them."""

    def run(self) -> None:
        from alphamepol.algorithms.finetuning.finetune import finetune

        done = finetune(
            self.inits[0] if len(self.inits) == 1 else self.inits,
            self.member,
            self.config,
            algorithm=self.algorithm,
            environment_class=self.environment_class,
            folder=self.folder,
            resume=self.resume,
            devices=self.devices,
        )
        say_after_command(
            f"Everything is in {done.folder}: numbers in summary.json, the curves and the map of goals in figures/."
        )


@dataclass(frozen=True)
class Metatrain:
    """Meta-train one policy per seed on CLASS, the baselines that pre-training is compared with.

    maml-r: MAML on random goals. diayn: skills that can be told apart. maml-diayn: MAML on the rewards of these skills.
    What comes out is fine-tuned as any policy is. CLASS must be written in JAX. Example:
    alphamepol metatrain gridworld-slope --method maml-r --preset quick
    """

    environment_class: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CLASS")]
    """The class of environments: one that `alphamepol classes` lists, or FILE.py:FUNCTION, a function of your own that
    returns one."""
    config: Annotated[MetatrainConfig, tyro.conf.arg(name="")]
    preset: Literal["paper", "quick"] = "paper"
    """paper: the paper's settings, eight seeds; quick: a minute or two on two cores, one seed."""
    diayn: Path | None = None
    """For maml-diayn: the folder of a DIAYN run on CLASS whose skills are the tasks; learned first if not given."""
    folder: Path | None = None
    """The run folder; runs/CLASS-METHOD-seed-FIRST if not given."""
    resume: tyro.conf.FlagCreatePairsOff[bool] = False
    """Continue the run in the folder."""
    devices: int = 1
    """How many devices of this machine to use: the seeds are laid over them."""

    def run(self) -> None:
        from alphamepol.algorithms.metatraining.run import metatrain

        done = metatrain(
            self.environment_class,
            self.config,
            diayn=self.diayn,
            folder=self.folder,
            resume=self.resume,
            devices=self.devices,
        )
        say_after_command(
            f"Everything is in {done.folder}: policies in policy/, numbers in summary.json, pictures in figures/."
        )
        member, own = done.summary["members"][-1], _own_class_for_command(self.environment_class)
        say_after_command(
            f"Next: alphamepol finetune {done.folder} random{own} --member {member} --tasks 5 --iterations 30"
        )
        if self.config.method == "diayn":
            say_after_command(
                f"  or: alphamepol metatrain {self.environment_class} --method maml-diayn --diayn {done.folder}"
            )


@dataclass(frozen=True)
class Reproduce:
    """Do experiments of the paper: the runs, the figures, and a verdict on each claim, with a page that shows it all.

    Runs that experiments share are done once; what is done is skipped and what was begun goes on. Example:
    alphamepol reproduce slope-adverse --scale quick
    """

    what: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="WHAT …", help_behavior_hint="")]
    """Claims (then only the runs that they need are done), experiments, or all, also if nothing is given;
    docs/reproduction.md lists them."""
    scale: Literal["quick", "paper"] = "quick"
    """quick: a miniature of each that takes minutes on two cores; paper: the paper's settings, for a GPU."""
    folder: Path | None = None
    """Where everything goes; runs/reproduction-SCALE if not given."""
    dry_run: tyro.conf.FlagCreatePairsOff[bool] = False
    """Only list the runs, what is done already, and about how long the rest will take on this device."""

    def run(self) -> None:
        from alphamepol.reproduction.reproduce import reproduce

        reproduce(self.what, self.scale, folder=self.folder, dry_run=self.dry_run)


@dataclass(frozen=True)
class Report:
    """Write one HTML page, which needs nothing but itself: of a reproduction, or of any runs.

    Example: alphamepol report runs/reproduction-quick
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER …", help_behavior_hint="")]
    """The folder of a reproduction, whose claims are decided anew, or folders of runs."""
    out: Path | None = None
    """The page; report.html in the folder if not given, for several runs here."""

    def run(self) -> None:
        from alphamepol.reproduction.reproduce import report

        say_after_command(f"Written: {report(self.runs, self.out)}")


@dataclass(frozen=True)
class Export:
    """Write a policy for other libraries.

    sb3: a zip that TRPO of sb3_contrib and PPO of stable_baselines3 `load`, ready to go on training.
    safetensors: weights by name (docs/finetuning.md says which). Example:
    alphamepol export runs/gridworld-slope-alpha-0.2-seed-0 --to sb3 policy.zip
    """

    run_folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run that trained policies, a policy file, or the name of a policy that comes with the package."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """The file to write."""
    to: Literal["sb3", "safetensors"]
    """The format."""
    seed: int | None = None
    """Which of the run's policies; the first if not given."""
    environment_class: Annotated[str | None, tyro.conf.arg(name="class", metavar="CLASS")] = None
    """For sb3, the class whose spaces the policy acts in, if not the run's own; needed for a policy file."""

    def run(self) -> None:
        from alphamepol.evaluation.export import export

        export(self.run_folder, self.out, self.to, seed=self.seed, environment_class=self.environment_class)
        say_after_command(f"Written: {self.out}")


@dataclass(frozen=True)
class Classes:
    """List what can be named as CLASS, with members and spaces."""

    def run(self) -> None:
        from alphamepol.classes.listing import print_listing_of_classes

        print_listing_of_classes(Console())


@dataclass(frozen=True)
class Demo:
    """Show the point of α: MEPOL against αMEPOL on gridworld-slope with the quick preset, in a minute or two."""

    folder: Path = Path("runs/demo")
    """Where everything goes. A demo that was interrupted goes on; one that is done is shown again."""
    seed: int = 0
    """The seed of both runs."""

    def run(self) -> None:
        from alphamepol.reproduction.demo import demo

        demo(self.folder, self.seed)


def _own_class_for_command(class_name: str) -> str:
    """What commands that read a run need for a class that is a program: no file has a program run."""
    return f" --class {class_name}" if ":" in class_name else ""


def say_after_command(sentence: str) -> None:
    Console(soft_wrap=True, highlight=False, markup=False).print(sentence)
