"""The command line: `alphamepol COMMAND …`, its exit statuses, and what its mistakes are told by."""

import errno
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from rich.console import Console

from alphamepol import __version__
from alphamepol.commands import (
    Check,
    Classes,
    Demo,
    Evaluate,
    Export,
    Finetune,
    Metatrain,
    Pretrain,
    Report,
    Reproduce,
)
from alphamepol.errors import InputError, RunError
from alphamepol.runs.config import FinetuneConfig, MetatrainConfig, PretrainConfig, config_from_dict
from alphamepol.runs.interrupts import RunInterrupted
from alphamepol.runs.presets import (
    CLASSES_WITH_SETTINGS,
    Preset,
    finetuning_preset,
    metatraining_preset,
    preset,
    usual_preset,
)

INPUT_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--version"], ["-V"]):
        print(f"alphamepol {__version__}")
        return 0
    try:
        _parse(arguments).run()
    except InputError as error:
        return _fail(str(error), INPUT_ERROR)
    except RunError as error:
        return _fail(str(error), FAILURE)
    except RunInterrupted:
        return _fail(f"interrupted; what is done is saved. Continue with: {_again(arguments)}", INTERRUPTED)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing was changed", INTERRUPTED)
    except BrokenPipeError:
        return FAILURE  # nobody reads on
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            cure = f"what was saved before is whole. Make room, then continue with: {_again(arguments)}"
            return _fail(f"{error.strerror}; {cure}", FAILURE)
        return _fail(f"{error.filename or 'a file'}: {error.strerror or error}", FAILURE)
    except Exception as error:
        if not (isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)):
            raise
        return _fail("there is not enough memory; use fewer --seeds, or smaller networks or samples", FAILURE)
    return 0


def _again(arguments: list[str]) -> str:
    """The command line that goes on with what was begun."""
    resume = ["--resume"] if arguments[0] in ("pretrain", "finetune", "metatrain") else []
    return shlex.join(["alphamepol", *(word for word in arguments if word != "--resume"), *resume])


def _parse(arguments: list[str]) -> Any:
    """Parse twice: defaults depend on the class and the preset, which only a parser can tell for sure."""
    words = [word.removeprefix("--preset=") for word in arguments]
    # --help, if asked for, shows a guess.
    class_name = next(
        (word for word in words[1:] if word in CLASSES_WITH_SETTINGS or ".py:" in word), "gridworld-slope"
    )
    asked: list[Preset] = [known for known in get_args(Preset) if known in words]
    usual = usual_preset(class_name)
    # What the paper does not have, the second parse refuses.
    config = preset(usual if usual == "own" and asked != ["quick"] else (asked or [usual])[0], class_name)
    finetuning = finetuning_preset(class_name)
    meta = metatraining_preset("quick" if "quick" in words else "paper", class_name)
    parsed = _parse_with_defaults(arguments, config, finetuning, meta)
    if isinstance(parsed, Pretrain):
        class_name = parsed.environment_class
        config = preset(parsed.preset or usual_preset(class_name), class_name)
    elif isinstance(parsed, Check):
        config = _settings_to_check(parsed)
    elif isinstance(parsed, Finetune):
        finetuning = finetuning_preset(_class_of(parsed))
    elif isinstance(parsed, Metatrain):
        meta = metatraining_preset(parsed.preset, parsed.environment_class)
    else:
        return parsed
    return _parse_with_defaults(arguments, config, finetuning, meta)


def _settings_to_check(command: Check) -> PretrainConfig:
    """Those of the run that is looked through, if it is one of the class and no preset is asked for."""
    class_name = command.environment_class
    described = _described(command.run_folder) if command.run_folder and command.preset is None else {}
    if described.get("class") == class_name and described.get("command") == "pretrain":
        try:
            return config_from_dict(PretrainConfig, described["config"])
        except (KeyError, TypeError, AttributeError):
            pass  # who reads the run says what is wrong
    return preset(command.preset or usual_preset(class_name), class_name)


def _class_of(command: Finetune) -> str:
    """The class that fine-tuning is in: the one given, else that of the first run."""
    for init in command.inits if command.environment_class is None else ():
        if (named := init.partition("/")[0]) in CLASSES_WITH_SETTINGS and not Path(init).exists():
            return named  # a policy that comes with the package
        if class_name := _described(init).get("class"):
            return str(class_name)
    return command.environment_class or "gridworld-slope"


def _described(run: str) -> dict[str, Any]:
    """What a run's config.json says; nothing if it is none, which who reads it will tell."""
    from alphamepol.files import from_json

    try:
        described = from_json((Path(run) / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def _parse_with_defaults(
    arguments: list[str], config: PretrainConfig, finetuning: FinetuneConfig, meta: MetatrainConfig
) -> Any:
    commands: Any = Annotated[Pretrain, tyro.conf.subcommand("pretrain", default=Pretrain(tyro.MISSING, config))]
    commands |= Annotated[Check, tyro.conf.subcommand("check", default=Check(tyro.MISSING, config))]
    default = Finetune(tyro.MISSING, tyro.MISSING, finetuning)
    commands |= Annotated[Finetune, tyro.conf.subcommand("finetune", default=default)]
    default = Metatrain(tyro.MISSING, meta)
    commands |= Annotated[Metatrain, tyro.conf.subcommand("metatrain", default=default)]
    for command in (Evaluate, Reproduce, Report, Export, Classes, Demo):
        commands |= Annotated[command, tyro.conf.subcommand(command.__name__.lower())]
    return tyro.cli(
        commands,
        prog="alphamepol",
        description="Pre-train one policy, without reward, that explores every environment of a class.",
        args=arguments,
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff),
    )


def _fail(sentence: str, status: int) -> int:
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"alphamepol: {sentence}")
    return status
