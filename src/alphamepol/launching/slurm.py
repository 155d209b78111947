"""Runs as elements of Slurm arrays: submit them, follow them by their folders and `squeue`, and cancel them."""

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from alphamepol.errors import InputError, RunError
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import read_json, to_json, value_has_type
from alphamepol.files.names import join_command_words
from alphamepol.launching.pool import PATIENCE
from alphamepol.launching.slurm_script import slurm_array, slurm_script
from alphamepol.launching.task import Task, TaskState
from alphamepol.settings.launch import LaunchSettings

SCRIPT, JOBS = "slurm.sh", "slurm.json"
"""The script of the array, and the job of each run, in the folder of the runs."""
RUNNING = ("RUNNING", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED", "SUSPENDED")
QUEUED = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "SPECIAL_EXIT")
"""The states of jobs that have not ended, as squeue prints them. All other states are those of jobs that have ended."""
LATE = 3
"""The number of looks after which an ended job without a result has failed. Files of another machine may come late."""


class SlurmArray(NamedTuple):
    """Runs that are submitted together, because they need the same runs."""

    numbers: list[int]
    needs: tuple[str, ...]


def slurm_arrays(tasks: Sequence[Task]) -> list[SlurmArray]:
    """Return the arrays of all tasks that are not done. Arrays come after the arrays that they need."""
    groups: dict[tuple[str, ...], list[int]] = {}
    done = {task.name for task in tasks if task.done}
    for number, task in enumerate(tasks):
        if task.name not in done:
            groups.setdefault(tuple(name for name in task.needs if name not in done), []).append(number)
    known, ordered = set(done), list[SlurmArray]()
    while groups:
        needs = next(needs for needs in groups if known.issuperset(needs))
        numbers = groups.pop(needs)
        known |= {tasks[number].name for number in numbers}
        ordered.append(SlurmArray(numbers, needs))
    return ordered


def write_slurm_script(command: str, tasks: Sequence[Task], settings: LaunchSettings, folder: Path) -> Path:
    """Write the script of the runs that are not done into a folder, and return its path."""
    arrays = slurm_arrays(tasks)
    tasks[0].log.parent.mkdir(parents=True, exist_ok=True)  # Slurm fails a job whose output has no folder
    first = [tasks[number] for number in arrays[0].numbers] if arrays else tasks
    write_atomically(folder / SCRIPT, slurm_script(command, tasks, first, settings))
    return folder / SCRIPT


def slurm_submissions(tasks: Sequence[Task], settings: LaunchSettings, script: Path) -> list[str]:
    """Return the command lines that submit the script, with the names of needed runs in the place of their jobs."""
    return [
        join_command_words(_submission(array, settings, script, [f"JOB-OF-{name}" for name in array.needs]))
        for array in slurm_arrays(tasks)
    ]


def _submission(array: SlurmArray, settings: LaunchSettings, script: Path, jobs: Sequence[str]) -> list[str]:
    after = [f"--dependency=afterok:{':'.join(jobs)}", "--kill-on-invalid-dep=yes"] if jobs else []
    elements = slurm_array(array.numbers, settings.at_once)
    return ["sbatch", "--parsable", f"--array={elements}", *after, str(script)]


class SlurmExecutor:
    """The executor of tasks on a Slurm cluster. Runs go on if this process ends without `stop`."""

    look_every = 2.0

    def __init__(self, command: str, tasks: Sequence[Task], settings: LaunchSettings, folder: Path):
        self._tasks, self._folder = tasks, folder
        self._ending, self._stopped = threading.Lock(), False
        self._missed = dict.fromkeys([task.name for task in tasks], 0)
        self._jobs = self._jobs_alive(_read_slurm_jobs(folder))
        """The job of each run that was submitted, such as 12_3. Earlier jobs that have not ended are not repeated."""
        left = [task for task in tasks if task.name not in self._jobs and not task.done]
        if not left:
            return
        script = write_slurm_script(command, tasks, settings, folder)
        for array in slurm_arrays(tasks):
            new = [number for number in array.numbers if tasks[number].name not in self._jobs]
            if new:
                jobs = [self._jobs[name] for name in array.needs]
                said = _ask_slurm(_submission(SlurmArray(new, array.needs), settings, script, jobs))
                self._jobs |= {tasks[number].name: f"{said.split(';')[0].strip()}_{number}" for number in new}
                # A crash between two arrays must not make the next command submit the first one again.
                write_atomically(folder / JOBS, to_json({"jobs": self._jobs}))

    def look(self) -> Mapping[str, TaskState]:
        with self._ending:
            states = _states_of_slurm_jobs(list(self._jobs.values()))
            return {
                task.name: self._state(task, *states.get(self._jobs.get(task.name, ""), ("", "")))
                for task in self._tasks
            }

    def _state(self, task: Task, state: str, reason: str) -> TaskState:
        if task.done and state not in RUNNING:
            return TaskState("done")
        if state in RUNNING:
            return TaskState("running")
        if state in QUEUED and reason != "DependencyNeverSatisfied":
            self._missed[task.name] = 0
            return TaskState("waiting" if reason == "Dependency" else "queued", reason.replace("None", ""))
        self._missed[task.name] += 1
        if self._missed[task.name] < LATE and not self._stopped:
            return TaskState("running")
        ended = f"its job {self._jobs.get(task.name)} has ended {state.lower()}".strip()
        return TaskState("failed", task.last_words or ended)

    def stop(self) -> None:
        with self._ending:
            self._stopped = True
            jobs = list(self._jobs_alive(self._jobs).values())
            if not jobs:
                return
            _ask_slurm(["scancel", *jobs])
            end = time.monotonic() + PATIENCE
            while self._jobs_alive(self._jobs) and time.monotonic() < end:
                time.sleep(0.5)

    def _jobs_alive(self, jobs: Mapping[str, str]) -> dict[str, str]:
        """Return the jobs that have not ended."""
        states = _states_of_slurm_jobs(list(jobs.values()))
        return {name: job for name, job in jobs.items() if states.get(job, ("", ""))[0] in RUNNING + QUEUED}


def _read_slurm_jobs(folder: Path) -> dict[str, str]:
    """Return the jobs that an earlier command has submitted for the runs of this folder."""
    path = folder / JOBS
    if not path.is_file():
        return {}
    try:
        jobs = read_json(path)["jobs"]
        if not value_has_type(jobs, dict[str, str]):
            raise ValueError(f"its jobs are {jobs!r:.80}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"folder: {path} cannot be read ({error})") from error
    return jobs


def _states_of_slurm_jobs(jobs: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the state of each job that Slurm still knows, and the reason why it waits."""
    if not jobs:
        return {}
    asked = ",".join(dict.fromkeys(job.partition("_")[0] for job in jobs))
    try:
        said = _ask_slurm(["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r", f"--jobs={asked}"])
    except RunError as error:
        if "Invalid job id" in str(error):
            return {}  # Slurm has forgotten all of them
        raise
    rows = [line.strip().split("|", 2) for line in said.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def _ask_slurm(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise InputError(f"on: slurm was given, but there is no command {command[0]} on this machine") from error
    if done.returncode:
        raise RunError(f"{command[0]} failed: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout
