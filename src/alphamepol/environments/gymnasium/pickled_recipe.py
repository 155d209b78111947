"""The recipe of a class as bytes, which other processes and other machines can load."""

import site
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cloudpickle

from alphamepol.environments.gymnasium.worker import Recipe
from alphamepol.errors import InputError


def pickle_recipe(recipe: Recipe, *, by_value: bool = False) -> bytes:
    """Return a recipe as bytes.

    cloudpickle also sends functions from a script or a notebook, which a worker cannot import. With `by_value`, it
    sends all functions of the user's own files, because other machines do not have these files. If these functions
    cannot be sent, for example because they use a lock of their file, the other machines have to import them.
    """
    if by_value:
        with _own_modules_by_value(), suppress(Exception):
            return cloudpickle.dumps(recipe)
    try:
        return cloudpickle.dumps(recipe)
    except Exception as error:
        raise InputError(
            f"members: they cannot be sent to worker processes ({type(error).__name__}: {error}); each function "
            "must make its environment itself, and must not hold objects such as open files or environments"
        ) from error


@contextmanager
def _own_modules_by_value() -> Iterator[None]:
    """Let cloudpickle send what the user's own modules define, instead of the names of these modules."""
    installed = [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()]
    folders = [Path(folder).resolve() for folder in installed] + [Path(__file__).resolve().parents[2]]
    own = [module for name, module in list(sys.modules.items()) if _is_own_module(name, module, folders)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _is_own_module(name: str, module: Any, installed: list[Path]) -> bool:
    """Return True if an entry of `sys.modules` is neither installed nor part of Python or of this package."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or getattr(module, "__name__", None) != name or name == "__main__":
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in installed)
