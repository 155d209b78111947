"""`alphamepol reproduce`: do the runs of experiments, draw their figures, and decide the claims of the paper."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from alphamepol.errors import InputError, RunError
from alphamepol.figures.style import DrawnFigure
from alphamepol.figures.tables import plain_table
from alphamepol.figures.terminal import say_in_terminal
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.files.locks import folder_lock_held
from alphamepol.files.reading import ODD, refusing_odd_files
from alphamepol.launching.launch import launch_tasks, show_slurm_submission
from alphamepol.policies.files import read_policy_file, save_policy
from alphamepol.reproduction.catalogue import catalogue_of_experiments, choose_from_catalogue
from alphamepol.reproduction.claims import Claim, Decision, decide_claim
from alphamepol.reproduction.experiment import Experiment
from alphamepol.reproduction.launched.tasks import do_reproduced_run, tasks_of_planned_runs, words_of_reproduced_run
from alphamepol.reproduction.planned import (
    GradientVariance,
    Metatraining,
    Planned,
    Pretraining,
)
from alphamepol.reproduction.report.own_runs import report_runs
from alphamepol.reproduction.report.page import write_report
from alphamepol.reproduction.run_times import Clock
from alphamepol.reproduction.scale import (
    Scale,
    ScaleName,
    check_reproduction_scale,
    read_reproduction_scale,
    reproduction_scale_file,
)
from alphamepol.reproduction.store import Store, checkpoints_not_in_stored_run, stored_run_has_products
from alphamepol.runs.folder import RunFolder, default_run_folder
from alphamepol.runs.interrupts import Interrupts, interrupts
from alphamepol.runs.progress import duration
from alphamepol.settings.launch import HERE, LaunchSettings, check_launch_settings

COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def reproduce(
    what: Sequence[str] = (),
    scale: ScaleName = "quick",
    *,
    folder: str | Path | None = None,
    dry_run: bool = False,
    launch: LaunchSettings | None = None,
    run: str | None = None,
) -> None:
    """Reproduce experiments of the paper: do their runs, draw their figures, and decide their claims.

    The verdicts are printed, and `report.html` in the folder shows all results on one page. Finished runs are skipped,
    and interrupted runs continue. If a run fails, the other runs are still done.

    **Arguments**

    - `what`: the names of experiments and claims, or "all", which is the default. For a claim, only the runs that
        decide it are done. docs/reproduction.md lists the names.
    - `scale`: "quick" does a miniature of each experiment, in minutes on two CPU cores. "paper" has the settings of the
        paper and is meant for a GPU.
    - `folder`: the folder of the reproduction; by default `runs/reproduction-SCALE`.
    - `dry_run`: if true, only print a table of the runs: their state, and about how long each will take on this device.
    - `launch`: the place in which the runs are done. The default is this process, in which they are done one after the
      other.
    - `run`: the name of a single run, which is the name of its folder in `runs/`. Only this run is done, and nothing is
      decided. The tasks of `launch` do this.

    **Returns**

    Nothing; the results are printed and written into the folder.

    **Raises**

    - `InputError`: if a name in `what` is unknown, if `folder` is a file or holds a reproduction at another scale, or
        if another process is writing into it.
    - `RunError`: after all other work, if at least one run failed.

    **Example**

    ```python
    import alphamepol as am

    am.reproduce(["slope-adverse"], dry_run=True)  # prints a table of the two runs that the claim needs
    ```
    """
    console, folder = Console(highlight=False), Path(folder) if folder else default_run_folder("reproduction", scale)
    experiments = catalogue_of_experiments(Scale(scale))
    claims, runs = choose_from_catalogue(experiments, what or ["all"])
    launch = launch or HERE
    check_launch_settings(launch)
    with refusing_odd_files(folder):
        check_reproduction_scale(folder, scale)
        store = Store(folder)
        if run is not None:
            do_reproduced_run(runs, store, run)
            return
        _say_of_reproduction(console, store.problems)
        if dry_run:
            _show_what_would_be_reproduced(claims, runs, scale, store, console, launch)
        else:
            _reproduce_in_folder(experiments, claims, runs, scale, store, console, launch)


def _show_what_would_be_reproduced(
    claims: Sequence[Claim],
    runs: Sequence[Planned],
    scale: ScaleName,
    store: Store,
    console: Console,
    launch: LaunchSettings,
) -> None:
    console.print(table_of_planned_runs(runs, store))
    for sentence in _sentences_about_undecided([decide_claim(claim, store) for claim in claims]):
        say_in_terminal(console, sentence)
    if launch.on == "slurm":
        tasks = tasks_of_planned_runs(runs, store, partial(words_of_reproduced_run, scale, store))
        show_slurm_submission(tasks, launch, store.folder, console)


def _reproduce_in_folder(
    experiments: Sequence[Experiment],
    claims: Sequence[Claim],
    runs: Sequence[Planned],
    scale: ScaleName,
    store: Store,
    console: Console,
    launch: LaunchSettings,
) -> None:
    folder = store.folder
    with folder_lock_held(folder), interrupts() as received:
        write_atomically(reproduction_scale_file(folder), to_json({"scale": scale}))
        if launch.on == "local" and launch.at_once in (None, 1):
            failures = _reproduce_runs(runs, store, console, received)
        else:
            tasks = tasks_of_planned_runs(runs, store, partial(words_of_reproduced_run, scale, store))
            failed = launch_tasks(tasks, launch, folder, f"runs of {folder}", console)
            if failed is None:
                say_in_terminal(console, f"submitted: {folder}; the same command without --no-wait follows the runs")
                return
            failures = [f"{name} ({reason})" for name, reason in failed.items()]
            store.look()
        release_reproduced_policies(experiments, store)
        decisions = _decide_what_was_reproduced(experiments, store)
        page = write_reproduced_page(Scale(scale), store, decisions, console)
    console.print(reproduced_verdict_table([decisions[claim.id] for claim in claims]))
    say_in_terminal(console, f"Report: {page}    Runs: {store.runs}    Figures: {folder / 'figures'}")
    if failures:
        raise RunError(f"{len(failures)} of {len(runs)} runs could not be done: {'; '.join(failures)}")


def _decide_what_was_reproduced(experiments: Sequence[Experiment], store: Store) -> dict[str, Decision]:
    return {claim.id: decide_claim(claim, store) for experiment in experiments for claim in experiment.claims}


def write_reproduced_page(
    scale: Scale, store: Store, decisions: Mapping[str, Decision], console: Console, path: Path | None = None
) -> Path:
    """Draw the figures of every experiment that has all runs of at least one claim, and write the page."""
    experiments = catalogue_of_experiments(scale)
    drawn: dict[str, DrawnFigure | None] = {}
    for experiment in experiments:
        if not any(decisions[claim.id].was_run for claim in experiment.claims):
            continue
        for drawing in experiment.drawings:
            found = {run: stored for run in drawing.runs if (stored := store.find(run)) is not None}
            if not found and drawing.runs:
                continue
            try:
                drawn[drawing.name] = drawing.draw(found, store.folder / "figures", drawing.name)
            except (*ODD, RunError, ImportError) as error:
                _say_of_reproduction(console, [f"figure {drawing.name} was left out: {error}"])
    path = path or store.folder / "report.html"
    write_report(store, experiments, list(decisions.values()), drawn, path, scale)
    return path


def release_reproduced_policies(experiments: Sequence[Experiment], store: Store) -> None:
    """Copy the policy of the first seed of every method to `policies/CLASS/METHOD.safetensors`, except specialists."""
    for run in dict.fromkeys(run for experiment in experiments for run in experiment.runs):
        if not isinstance(run, Pretraining | Metatraining) or run.member_alone is not None:
            continue
        stored = store.find(run)
        path = stored and RunFolder(stored.folder).policy(run.config.seed)
        if path and path.is_file():
            name = run.name.removeprefix(f"{run.class_name}-")
            # Equal policies give equal files.
            save_policy(read_policy_file(path), store.folder / "policies" / run.class_name / f"{name}.safetensors")


def _reproduce_runs(runs: Sequence[Planned], store: Store, console: Console, received: Interrupts) -> list[str]:
    """Do the runs that are not done, one after the other. Return a reason for each run that failed."""
    failures: list[str] = []
    failed: set[Planned] = set()
    to_do = [run for run in runs if not store.is_done(run)]
    clock = Clock(store)
    for number, run in enumerate(to_do):
        reason = _hindrance_to_reproduce(run, store, failed)
        if reason is None:
            left = sum(clock.seconds(other) for other in to_do[number:])
            console.rule(f"run {number + 1} of {len(to_do)}, about {duration(left)} left for all runs", align="left")
            try:
                run.do(store.place_of(run), store.place_of)
            except Exception as error:  # any error of one run must not stop hours of other runs
                reason = str(error).strip() or type(error).__name__
        if reason is not None:
            _say_of_reproduction(console, [f"{run.name}: {reason}"])
            failures.append(f"{run.name} ({reason.splitlines()[0]})")
            failed.add(run)
        store.look()
        received.check()
    return failures


def _hindrance_to_reproduce(run: Planned, store: Store, failed: set[Planned]) -> str | None:
    """Return the reason why a run cannot begin; None if it can."""
    for needed in run.needs:
        if needed in failed:
            return f"it needs {needed.name}"
        if products := _products_not_kept(run, needed, store):
            place = store.place_of(needed)
            cure = "give another --folder to do that run again"
            return f"it needs the {products} of {place}, which were not kept; {cure}"
    return None


def _products_not_kept(run: Planned, needed: Planned, store: Store) -> str:
    """Return which products of a finished run are needed but were not kept: its policies or its checkpoints."""
    if not store.is_done(needed):
        return ""
    if not stored_run_has_products(store.place_of(needed)):
        return "policies"
    wanted = run.checkpoints if isinstance(run, GradientVariance) else ()
    return "checkpoints" if checkpoints_not_in_stored_run(store.place_of(needed), wanted) else ""


def _say_of_reproduction(console: Console, sentences: Sequence[str]) -> None:
    for sentence in sentences:
        say_in_terminal(console, sentence)


def table_of_planned_runs(runs: Sequence[Planned], store: Store) -> Table:
    """Return a table of planned runs: their state, and about how long each will take on this device."""
    clock = Clock(store)
    rows, left = [], 0.0
    for run in runs:
        seconds = 0.0 if store.is_done(run) else clock.seconds(run)
        left += seconds
        time = "" if store.is_done(run) else f"about {duration(seconds)}"
        rows.append((run.name, str(run.config.seeds), _state_of_run_to_reproduce(run, store), time))
    total = "all runs that are left", "", "", f"about {duration(left)}"
    return plain_table("runs", ("run", "seeds", "state", "time"), rows, left=("run", "state"), total=total)


def _sentences_about_undecided(decisions: Sequence[Decision]) -> list[str]:
    """Return what would be expected to decide each statement that the runs in the folder leave undecided."""
    return [
        f"{decision.claim.id}: undecided that {part.statement.says}.{part.power}"
        for decision in decisions
        for part in decision.parts
        if part.found is not None and part.verdict == "undecided"
    ]


def _state_of_run_to_reproduce(run: Planned, store: Store) -> str:
    if store.is_done(run):
        return "done"
    if not_kept := [products for needed in run.needs if (products := _products_not_kept(run, needed, store))]:
        return f"{not_kept[0]} not kept"
    if (store.place_of(run) / "config.json").is_file():
        return "begun"
    shorter = store.find(run)
    return f"a shorter run exists: {shorter.shortfall}" if shorter else "to do"


def reproduced_verdict_table(decisions: Sequence[Decision]) -> Table:
    """Return a table of claims with their statements, numbers and verdicts."""
    rows = []
    for decision in decisions:
        for number, part in enumerate(decision.parts):
            found = "not run" if part.found is None else part.found.text
            name = Text(decision.claim.id) if number == 0 else Text()
            if number == 0:
                name.append(f"\n{decision.verdict}", COLOURS[decision.verdict])
            verdict = Text(part.verdict, COLOURS[part.verdict])
            rows.append((name, part.statement.says, f"{found}\n({part.statement.rule})", verdict))
    header = ("claim", "statement", "found [95 %]", "verdict")
    title = "the claims of the paper, and the results of these runs"
    return plain_table(title, header, rows, left=header, lines=True)


def report(folders: str | Path | Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Write an HTML page with the results of a reproduction or of single runs.

    The page needs no other file: figures and replays are inside it. For a reproduction, the claims are decided again
    and the figures are drawn again; `claims.json`, `claims.md` and `figures/` in its folder are rewritten. A single run
    that has not ended is shown as far as it is.

    **Arguments**

    - `folders`: the folder of a reproduction, the folder of a run, or a sequence of folders of runs.
    - `out`: the path of the page; by default `report.html` in the folder. For several runs the default is `report.html`
        in the working directory.

    **Returns**

    The path of the page.

    **Raises**

    - `InputError`: if no folder is given, or if a folder holds no run.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(
        epochs=2, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2
    )
    am.pretrain("gridworld-slope", config, folder="runs/short", quiet=True)
    page = am.report("runs/short")
    print(page)  # runs/short/report.html
    ```
    """
    folders = [Path(folder) for folder in ([folders] if isinstance(folders, str | Path) else folders)]
    if not folders:
        raise InputError("folder: none was given; name the folder of a reproduction, or folders of runs")
    with refusing_odd_files(", ".join(map(str, folders))):
        return _report_folders(folders, Path(out) if out else None)


def _report_folders(folders: Sequence[Path], out: Path | None) -> Path:
    first = folders[0]
    scale = read_reproduction_scale(first) if len(folders) == 1 else None
    if scale is None:
        path = out or (first / "report.html" if len(folders) == 1 else Path("report.html"))
        report_runs(folders, path)
        return path
    store, console = Store(first), Console(highlight=False)
    _say_of_reproduction(console, store.problems)
    decisions = _decide_what_was_reproduced(catalogue_of_experiments(Scale(scale)), store)
    return write_reproduced_page(Scale(scale), store, decisions, console, out)
