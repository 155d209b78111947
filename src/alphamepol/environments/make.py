"""Classes of environments by their names."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.environments.registry import find_registered_class, registered_class_names
from alphamepol.errors import InputError


def make(name: str) -> AnyClass:
    """Build a class by its name, e.g. `make("gridworld-slope")`, or by `FILE.py:FUNCTION`, which returns one."""
    if ":" in name:
        return _make_class_of_file(name).renamed(name)
    entry = find_registered_class(name)
    if entry is None:
        hint = difflib.get_close_matches(name, registered_class_names(), 1)
        cure = f"did you mean {hint[0]!r}?" if hint else "name one of your own as FILE.py:FUNCTION"
        raise InputError(f"class: {name!r} is not known, only {', '.join(registered_class_names())}; {cure}")
    return entry.build()


def _make_class_of_file(name: str) -> AnyClass:
    """The class that a function in a user's file returns."""
    file, _, function = name.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not function.isidentifier():
        raise InputError(f"class: {name!r} was given; a class of your own is named as FILE.py:FUNCTION")
    if not path.is_file():
        raise InputError(
            f"class: there is no file {path} (looked for in {Path.cwd()}); of a run from elsewhere, say with --class "
            f"where its class is, as FILE.py:{function}"
        )
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # its neighbours can be imported, here and in worker processes
    try:
        module = importlib.import_module(path.stem)
    except Exception as error:
        raise InputError(f"class: {path} cannot be imported ({type(error).__name__}: {error})") from error
    if Path(module.__file__ or "").resolve() != path.resolve():
        raise InputError(f"class: {path} has the name of another module, {module.__file__}; give the file another name")
    if not callable(getattr(module, function, None)):
        raise InputError(f"class: {path} has no function {function}")
    try:
        made = getattr(module, function)()
    except InputError:
        raise
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(line.filename).name}, line {line.lineno}"
        raise InputError(f"class: {name} failed ({type(error).__name__}: {error}; {where})") from error
    if not isinstance(made, EnvironmentClass | HostClass):
        raise InputError(
            f"class: {name} returned {type(made).__name__}; it must return a class of environments, as "
            "alphamepol.gymnasium_class and alphamepol.EnvironmentClass do"
        )
    return made


def make_class(environment_class: AnyClass | str, probabilities: Sequence[float] = ()) -> AnyClass:
    """A class or the one of that name, under other probabilities if some are given."""
    if isinstance(environment_class, str):
        environment_class = make(environment_class)
    return environment_class.with_probabilities(probabilities) if probabilities else environment_class
