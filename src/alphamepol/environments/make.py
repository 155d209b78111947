"""The function that builds a class of environments from its name."""

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
from alphamepol.settings.run import PhysicsKind, WorkersGiven


def make(name: str) -> AnyClass:
    """Build a class of environments from its name.

    **Arguments**

    - `name`: the name of a class of this package, such as "gridworld-slope"; or `FILE.py:FUNCTION` for a class of
      your own. The function takes no arguments and returns an `EnvironmentClass` or a `HostClass`.

    **Returns**

    The class: an `EnvironmentClass` if its members are written in JAX, else a `HostClass`. A class of your own gets
    `FILE.py:FUNCTION` as its name.

    **Raises**

    - `InputError`: if the name is unknown; if the file cannot be imported; or if the function is missing, fails, or
      returns something else than a class.

    **Example**

    ```python
    import alphamepol as am

    slope = am.make("gridworld-slope")
    print(slope.names, slope.probabilities)  # ('GWS', 'GWN') (0.8, 0.2)
    ```
    """
    if ":" in name:
        return _make_class_of_file(name).renamed(name)
    entry = find_registered_class(name)
    if entry is None:
        hint = difflib.get_close_matches(name, registered_class_names(), 1)
        cure = f"did you mean {hint[0]!r}?" if hint else "name one of your own as FILE.py:FUNCTION"
        raise InputError(f"class: {name!r} is not known, only {', '.join(registered_class_names())}; {cure}")
    return entry.build()


def _make_class_of_file(name: str) -> AnyClass:
    """Return the class that a function in a user's file makes."""
    file, _, function = name.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not function.isidentifier():
        raise InputError(f"class: {name!r} was given; a class of your own is named as FILE.py:FUNCTION")
    if not path.is_file():
        raise InputError(
            f"class: there is no file {path} (looked for in {Path.cwd()}); if the run was made elsewhere, "
            f"name the file of its class with --class FILE.py:{function}"
        )
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # lets the file import files next to it, also in worker processes
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


def make_class(
    environment_class: AnyClass | str,
    probabilities: Sequence[float] = (),
    physics: PhysicsKind = "auto",
    workers: WorkersGiven = None,
) -> AnyClass:
    """Return a class that is given itself or by its name. Probabilities, if given, replace those of the class.

    `physics` is the engine of a class of MuJoCo models, and `workers` are those of a class of Gymnasium environments.
    Raises an `InputError` if another class is given an engine or workers.
    """
    if isinstance(environment_class, str):
        environment_class = make(environment_class)
    if isinstance(environment_class, EnvironmentClass):
        environment_class = environment_class.with_physics(physics)
    elif physics != "auto":
        raise InputError(f"physics: {physics} was given; only classes of MuJoCo models have an engine to choose")
    if workers is not None:
        if not isinstance(environment_class, HostClass):
            raise InputError(f"workers: {workers} was given; only classes of Gymnasium environments have workers")
        environment_class = environment_class.with_workers(workers)
    return environment_class.with_probabilities(probabilities) if probabilities else environment_class
