"""`alphamepol sweep`: pre-train with many values of α and memory, and show what they buy."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.presets import preset, usual_preset
from alphamepol.errors import InputError, RunError
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.locks import folder_lock_held
from alphamepol.files.names import name_as_text
from alphamepol.files.reading import refusing_odd_files
from alphamepol.launching.launch import launch_tasks, show_slurm_submission
from alphamepol.reproduction.launched.tasks import tasks_of_planned_runs, words_of_pretraining
from alphamepol.reproduction.planned import Planned
from alphamepol.reproduction.reproduce import table_of_planned_runs
from alphamepol.reproduction.store import Store
from alphamepol.runs.folder import class_in_folder_name, default_run_folder
from alphamepol.settings.launch import HERE, LaunchSettings, check_launch_settings
from alphamepol.settings.policy import MemoryKind
from alphamepol.settings.sweep import ALPHAS, MEMORIES
from alphamepol.sweeping.page import write_sweep_page
from alphamepol.sweeping.plan import plan_sweep


def sweep(
    environment_class: str,
    config: PretrainConfig | None = None,
    *,
    alpha: Sequence[float] = ALPHAS,
    memory: Sequence[MemoryKind] = MEMORIES,
    specialists: bool = False,
    launch: LaunchSettings | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
) -> Path | None:
    """Pre-train on a class with every α and every kind of memory, and write a page that compares the runs.

    Each run is a command `alphamepol pretrain` in a process of its own. A run that fails is tried again from its
    checkpoint. A run that the folder has already is not repeated. The page shows the front of what α and memory buy:
    the entropy in each member against the others, and the mean against the CVaR.

    **Arguments**

    - `environment_class`: the name of a class, or `FILE.py:FUNCTION`.
    - `config`: all other settings of the runs. The default is the preset `"paper"` if the class has it, else `"own"`.
    - `alpha`: the values of α.
    - `memory`: the kinds of memory: "none", "last" or "recurrent".
    - `specialists`: if true, also train a policy on each member alone. The page shows them as marks.
    - `launch`: the place in which the runs are done. The default is one process at a time on this machine.
    - `folder`: the folder of the runs and the page; by default `runs/sweep-CLASS`.
    - `resume`: continue runs that have begun in the folder.
    - `dry_run`: if true, only print a table of the runs. For Slurm, the script is written and printed, too.

    **Returns**

    The path of the page; None if `dry_run`, or if `launch` says not to wait for the runs.

    **Raises**

    - `InputError`: if a setting is not allowed, or if the folder holds runs that have begun and `resume` is false.
    - `RunError`: after all other work, if at least one run failed.
    - `RunInterrupted` (a `KeyboardInterrupt`): on Ctrl-C or SIGTERM. All runs have then saved their work.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(epochs=2, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8))
    am.sweep("gridworld-slope", config, alpha=(0.2, 1.0), memory=("none", "last"), dry_run=True)  # prints four runs
    ```
    """
    console = Console(highlight=False)
    config, launch = config or preset(usual_preset(environment_class), environment_class), launch or HERE
    check_launch_settings(launch)
    runs = plan_sweep(environment_class, config, alpha, memory, specialists)
    folder = Path(folder) if folder else default_run_folder("sweep", class_in_folder_name(environment_class))
    if folder.is_file():
        raise InputError(f"folder: {folder} is a file; give the name of a folder")
    with refusing_odd_files(folder):
        store = Store(folder)
        for problem in store.problems:
            say_in_terminal(console, problem)

        def words(run: Planned) -> list[str]:
            assert isinstance(run.config, PretrainConfig)
            return words_of_pretraining(run.class_name, run.config, store.place_of(run), max(1, launch.gpus))

        tasks = tasks_of_planned_runs(runs, store, words)
        if dry_run:
            console.print(table_of_planned_runs(runs, store))
            if launch.on == "slurm":
                show_slurm_submission(tasks, launch, folder, console)
            return None
        begun = [task.name for task in tasks if not task.done and (task.folder / "config.json").is_file()]
        if begun and not resume:
            raise InputError(
                f"folder: {folder} holds runs that have begun, such as {begun[0]}; continue them with --resume, or "
                "choose another --folder"
            )
        with folder_lock_held(folder):
            title = f"a sweep on {name_as_text(environment_class)}, in {folder}"
            failed = launch_tasks(tasks, launch, folder, title, console)
            if failed is None:
                say_in_terminal(console, f"submitted: {folder}; give the same command with --resume to follow the runs")
                return None
            store.look()
            page = write_sweep_page(environment_class, runs, store)
    say_in_terminal(console, f"Page: {page}    Runs: {store.runs}    Figures: {folder / 'figures'}")
    if failed:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in failed.items())
        raise RunError(f"{len(failed)} of {len(tasks)} runs could not be done: {reasons}")
    return page
