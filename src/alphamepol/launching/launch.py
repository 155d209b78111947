"""Do many runs where the settings say: on this machine, on a Ray cluster, or on a Slurm cluster."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.names import join_command_words
from alphamepol.launching.command import LocalStarter
from alphamepol.launching.follow import follow_tasks
from alphamepol.launching.pool import Pool
from alphamepol.launching.ray_cluster import RayStarter
from alphamepol.launching.slurm import SlurmExecutor, slurm_submissions, write_slurm_script
from alphamepol.launching.task import Executor, Task
from alphamepol.settings.launch import LaunchSettings


def launch_tasks(
    tasks: Sequence[Task], settings: LaunchSettings, folder: Path, title: str, console: Console
) -> dict[str, str] | None:
    """Do all tasks, and show them until they have ended.

    Return the reasons of failed tasks by their names. Return None if the settings say not to wait for the tasks.
    """
    if all(task.done for task in tasks):
        return {}
    executor = _executor_of_tasks(tasks, settings, folder)
    return follow_tasks(tasks, executor, title, console) if settings.wait else None


def show_slurm_submission(tasks: Sequence[Task], settings: LaunchSettings, folder: Path, console: Console) -> None:
    """Write the Slurm script, and print it with the commands that would submit it."""
    script = write_slurm_script(_this_command(), tasks, settings, folder)
    say_in_terminal(console, f"{script}:\n")
    for line in script.read_text().splitlines():
        say_in_terminal(console, line)
    say_in_terminal(console, "\nThese commands submit it:")
    for command in slurm_submissions(tasks, settings, script):
        say_in_terminal(console, command)


def _executor_of_tasks(tasks: Sequence[Task], settings: LaunchSettings, folder: Path) -> Executor:
    if settings.on == "slurm":
        return SlurmExecutor(_this_command(), tasks, settings, folder)
    if settings.on == "ray":
        return Pool(tasks, RayStarter(settings.ray_address, settings.cores, settings.gpus), settings.at_once)
    at_once = settings.at_once or 1
    return Pool(tasks, LocalStarter(at_once, settings.cores, settings.gpus), at_once)


def _this_command() -> str:
    """Return the command line of this process, for the reader of a script."""
    name = Path(sys.argv[0]).name
    return join_command_words(["alphamepol" if name == "__main__.py" else name, *sys.argv[1:]])
