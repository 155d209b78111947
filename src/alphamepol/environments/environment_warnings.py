"""The warnings of environments, each shown once and with the name of the member."""

import importlib.util
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from alphamepol.files.names import WIDTH, message_as_text, name_as_text

SHOWN: set[tuple[str, str]] = set()
"""The warnings that this process has shown, without their numbers, such as the time of a simulation.

Each has the name of a member, which is empty if the warning is shown for one member only."""


def name_of_member(number: int, names: Sequence[str]) -> str:
    """Return the name of a member for a message. Members of a training stream have a number instead."""
    return names[number] if number < len(names) else f"training member {number}"


def show_environment_warnings(said: Iterable[tuple[str, str]], *, each_member: bool = False) -> None:
    """Show warnings, each given with the name of the member that it came from.

    A warning is shown only once, or once for each member.
    """
    for member, text in said:
        plain = re.sub(r"\x1b\[\d+m", "", text).removeprefix("WARN: ").strip()
        kind = member if each_member else "", re.sub(r"-?\d[\d.e+-]*", "", plain)
        if kind not in SHOWN:
            SHOWN.add(kind)
            warnings.warn(message_as_text(f"environment {name_as_text(member, WIDTH)}: {plain}"), stacklevel=2)


@contextmanager
def collect_environment_warnings(say: Callable[[str], object]) -> Iterator[None]:
    """Pass the text of each warning, of Python or of MuJoCo, to `say` instead of printing it.

    MuJoCo itself would print a warning for every environment, and write a file MUJOCO_LOG.TXT to the current folder.
    """
    finder = MujocoFinder(lambda module: module.set_mju_user_warning(say))
    mujoco = sys.modules.get("mujoco")
    before = None if mujoco is None else mujoco.get_mju_user_warning()
    if mujoco is None:
        sys.meta_path.insert(0, finder)
    else:
        mujoco.set_mju_user_warning(say)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: say(str(message))
            yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        if "mujoco" in sys.modules:
            sys.modules["mujoco"].set_mju_user_warning(before)


class MujocoFinder(MetaPathFinder):
    """A finder that waits for the import of MuJoCo, and then calls a function with the module.

    Not every environment needs MuJoCo, and MuJoCo reads settings from the environment variables when it is imported.
    Therefore we do not import it ourselves.
    """

    def __init__(self, then: Callable[[ModuleType], None]):
        self.then = then

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "mujoco":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                self.then(module)

            spec.loader.exec_module = execute_and_tell
        return spec
