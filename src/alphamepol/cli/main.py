"""The command line `alphamepol COMMAND …`: its parser, its exit statuses and its error messages."""

import dataclasses
import errno
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from rich.console import Console

from alphamepol import __version__
from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import Preset, preset, usual_preset, usual_preset_settings
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.finetuning.finetuner_names import DEFAULT, FINETUNERS
from alphamepol.algorithms.finetuning.presets import finetuning_preset
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.algorithms.metatraining.presets import metatraining_preset
from alphamepol.cli.commands import Check, Classes, Demo, Evaluate, Export, Report, Reproduce
from alphamepol.cli.ending import INTERRUPTED, command_to_continue, interrupted_sentence
from alphamepol.cli.render_command import Render
from alphamepol.cli.sweep_command import Sweep, SweptOptions
from alphamepol.cli.training_commands import Finetune, Metatrain, Pretrain
from alphamepol.cli.watch_command import Watch
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError, RunError
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.atomic import count_atomic_writes
from alphamepol.files.json_files import read_config_json
from alphamepol.runs.interrupts import RunInterrupted

INPUT_ERROR, FAILURE = 2, 1
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "Unable to allocate", "bad_alloc"
"""The words of errors by which JAX, its compiler and NumPy say that memory is exhausted."""


def main(arguments: list[str] | None = None, *, before_interrupted_end: Callable[[], None] = lambda: None) -> int:
    """Run a command line and return its exit status.

    `before_interrupted_end` is called before an interrupted command says its last sentence.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--version"], ["-V"]):
        print(f"alphamepol {__version__}")
        return 0
    before = count_atomic_writes()
    try:
        _parse_main_arguments(arguments).run()
    except InputError as error:
        return _fail_in_main(str(error), INPUT_ERROR)
    except RunError as error:
        return _fail_in_main(str(error), FAILURE)
    except KeyboardInterrupt as interrupt:
        before_interrupted_end()
        resumable = isinstance(interrupt, RunInterrupted)
        return _fail_in_main(interrupted_sentence(arguments, resumable=resumable, before=before), INTERRUPTED)
    except BrokenPipeError:
        return FAILURE  # the reader of the output has closed the pipe
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            cure = f"what was saved before is whole. Make room, then continue with: {command_to_continue(arguments)}"
            return _fail_in_main(f"{error.strerror}; {cure}", FAILURE)
        return _fail_in_main(f"{error.filename or 'a file'}: {error.strerror or error}", FAILURE)
    except Exception as error:
        if not (isinstance(error, MemoryError) or any(word in str(error) for word in OUT_OF_MEMORY)):
            raise
        return _fail_in_main("there is not enough memory; use fewer --seeds, or smaller networks or samples", FAILURE)
    return 0


def _parse_main_arguments(arguments: list[str]) -> Any:
    """Parse the arguments twice, because options and defaults depend on the class, the preset and the algorithm.

    Only a parser can tell for sure which arguments are the class and the preset. The first parse uses guesses.
    """
    words = [word.removeprefix("--preset=").removeprefix("--algorithm=") for word in arguments]
    # --help ends the first parse, so that it shows the options and defaults of the guessed class and preset.
    class_name = next(
        (word for word in words[1:] if word in registered_class_names() or ".py:" in word), "gridworld-slope"
    )
    defaults = Defaults(
        _guess_preset_in_main(words, class_name),
        finetuning_preset(class_name, next((word for word in words if word in FINETUNERS), DEFAULT)),
        metatraining_preset("quick" if "quick" in words else "paper", class_name),
    )
    parsed = _parse_main_with_defaults(arguments, defaults)
    if isinstance(parsed, Pretrain | Check | Sweep):
        class_name = parsed.environment_class
        run = parsed.run_folder if isinstance(parsed, Check) else None
        config = preset(parsed.preset, class_name) if parsed.preset else usual_preset_settings(class_name, run)
        defaults = dataclasses.replace(defaults, pretraining=config)
    elif isinstance(parsed, Finetune):
        finetuning = finetuning_preset(_main_class_of_finetuning(parsed), parsed.algorithm)
        defaults = dataclasses.replace(defaults, finetuning=finetuning)
    elif isinstance(parsed, Metatrain):
        meta = metatraining_preset(parsed.preset, parsed.environment_class)
        defaults = dataclasses.replace(defaults, metatraining=meta)
    else:
        return parsed
    return _parse_main_with_defaults(arguments, defaults)


def _guess_preset_in_main(words: Sequence[str], class_name: str) -> PretrainConfig:
    """Return the settings of the first preset among the words that the class has, else those of its usual preset.

    A preset that the class does not have is passed over here. The second parse refuses it.
    """
    asked: list[Preset] = [known for known in get_args(Preset) if known in words]
    for name in asked:
        with suppress(InputError):
            return preset(name, class_name)
    return preset(usual_preset(class_name), class_name)


@dataclass(frozen=True)
class Defaults:
    """The settings of each command before its options override single fields."""

    pretraining: PretrainConfig
    finetuning: FinetuneConfig
    metatraining: MetatrainConfig


def _main_class_of_finetuning(command: Finetune) -> str:
    """Return the class that fine-tuning acts in: the given one, otherwise that of the first run or released policy."""
    for init in command.inits if command.environment_class is None else ():
        if (named := init.partition("/")[0]) in registered_class_names() and not Path(init).exists():
            return named  # a policy that comes with the package
        if class_name := read_config_json(Path(init)).get("class"):
            return str(class_name)
    return command.environment_class or "gridworld-slope"


def _parse_main_with_defaults(arguments: list[str], defaults: Defaults) -> Any:
    default: Any = Pretrain(tyro.MISSING, defaults.pretraining)
    commands: Any = Annotated[Pretrain, tyro.conf.subcommand("pretrain", default=default)]
    default = Check(tyro.MISSING, defaults.pretraining)
    commands |= Annotated[Check, tyro.conf.subcommand("check", default=default)]
    default = Finetune(tyro.MISSING, tyro.MISSING, defaults.finetuning)
    commands |= Annotated[Finetune, tyro.conf.subcommand("finetune", default=default)]
    default = Metatrain(tyro.MISSING, defaults.metatraining)
    commands |= Annotated[Metatrain, tyro.conf.subcommand("metatrain", default=default)]
    default = Sweep(tyro.MISSING, SweptOptions.with_defaults(defaults.pretraining))
    commands |= Annotated[Sweep, tyro.conf.subcommand("sweep", default=default)]
    for command in (Evaluate, Watch, Render, Reproduce, Report, Export, Classes, Demo):
        commands |= Annotated[command, tyro.conf.subcommand(command.__name__.lower())]
    return tyro.cli(
        commands,
        prog="alphamepol",
        description="Pre-train one policy, without reward, that explores every environment of a class (αMEPOL). Then "
        "evaluate it, fine-tune it on tasks, and reproduce the experiments of the paper.\n\n"
        "Start with `alphamepol demo`, which shows the method in a minute or two. `alphamepol classes` lists the "
        "classes of environments. `alphamepol COMMAND --help` explains a command and all its options.",
        args=arguments,
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff),
    )


def _fail_in_main(sentence: str, status: int) -> int:
    say_in_terminal(Console(stderr=True), f"alphamepol: {sentence}")
    return status
