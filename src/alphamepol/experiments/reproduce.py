"""`alphamepol reproduce`: do the runs of experiments, draw their figures, and decide what the paper claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from alphamepol.errors import InputError, RunError
from alphamepol.experiments.catalogue import all_experiments, choose
from alphamepol.experiments.claims import Decision, decide
from alphamepol.experiments.estimates import Clock
from alphamepol.experiments.experiment import Experiment
from alphamepol.experiments.planned import Metatraining, Planned, Pretraining
from alphamepol.experiments.report import report_runs, shown, write_report
from alphamepol.experiments.scale import Scale, ScaleName
from alphamepol.experiments.store import Store, has_products
from alphamepol.files import read_json, to_json, write_atomically
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import Interrupts, RunInterrupted, interrupts
from alphamepol.runs.locks import held
from alphamepol.runs.progress import duration

COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def reproduce(asked: Sequence[str], scale_name: ScaleName, folder: Path, *, dry_run: bool) -> None:
    """Do what is asked, as far as it is not done already; what fails does not keep the rest from being done."""
    console, scale = Console(highlight=False), Scale(scale_name)
    experiments = all_experiments(scale)
    claims, runs = choose(experiments, asked or ["all"])
    _check_scale(folder, scale_name)
    store = Store(folder)
    _say(console, store.problems)
    if dry_run:
        console.print(_plan_table(runs, store))
        return
    try:
        with held(folder), interrupts() as received:
            write_atomically(_marker(folder), to_json({"scale": scale_name}))
            failures = _do(runs, store, console, received)
            release_policies(experiments, store)
            decisions = _decide_all(experiments, store)
            page = write_page(experiments, store, decisions, console)
    except KeyboardInterrupt as interrupt:
        raise RunInterrupted from interrupt
    console.print(verdict_table([decisions[claim.id] for claim in claims]))
    console.print(f"Report: {page}    Runs: {store.runs}    Figures: {folder / 'figures'}", soft_wrap=True)
    if failures:
        raise RunError(f"{len(failures)} of {len(runs)} runs could not be done: {'; '.join(failures)}")


def _decide_all(experiments: Sequence[Experiment], store: Store) -> dict[str, Decision]:
    return {claim.id: decide(claim, store) for experiment in experiments for claim in experiment.claims}


def write_page(
    experiments: Sequence[Experiment],
    store: Store,
    decisions: Mapping[str, Decision],
    console: Console,
    path: Path | None = None,
) -> Path:
    """Draw the figures of experiments that were done, at least in part, and write the page."""
    for experiment in experiments:
        if not any(decisions[claim.id].was_run for claim in experiment.claims):
            continue
        for drawing in experiment.drawings:
            found = {run: stored for run in drawing.runs if (stored := store.find(run)) is not None}
            if not found and drawing.runs:
                continue
            try:
                drawing.draw(found, store.folder / "figures", drawing.name)
            except (InputError, RunError, ImportError, KeyError, ValueError) as error:
                _say(console, [f"figure {drawing.name} was left out: {error}"])
    return write_report(store, experiments, list(decisions.values()), path)


def release_policies(experiments: Sequence[Experiment], store: Store) -> None:
    """Copy the first seed's policy of every method on a whole class to where it can be found by class and method."""
    for run in dict.fromkeys(run for experiment in experiments for run in experiment.runs):
        if not isinstance(run, Pretraining | Metatraining) or getattr(run, "member_alone", None) is not None:
            continue
        stored = store.find(run)
        path = stored and RunFolder(stored.folder).policy(run.config.seed)
        if path and path.is_file():
            name = run.name.removeprefix(f"{run.class_name}-")
            write_atomically(store.folder / "policies" / run.class_name / f"{name}.safetensors", path.read_bytes())


def _do(runs: Sequence[Planned], store: Store, console: Console, received: Interrupts) -> list[str]:
    """Do one after the other; returns why some could not be done."""
    failures: list[str] = []
    failed: set[Planned] = set()
    to_do = [run for run in runs if not store.is_done(run)]
    clock = Clock(store)
    for number, run in enumerate(to_do):
        reason = _hindrance(run, store, failed)
        if reason is None:
            left = sum(clock.seconds(other) for other in to_do[number:])
            console.rule(f"run {number + 1} of {len(to_do)}, about {duration(left)} left in all", align="left")
            try:
                run.do(store.place_of(run), store.place_of)
            except Exception as error:  # of whatever kind: hours of other runs may follow
                reason = str(error).strip() or type(error).__name__
        if reason is not None:
            _say(console, [f"{run.name}: {reason}"])
            failures.append(f"{run.name} ({reason.splitlines()[0]})")
            failed.add(run)
        store.look()
        received.check()
    return failures


def _hindrance(run: Planned, store: Store, failed: set[Planned]) -> str | None:
    """Why a run cannot be begun, if it cannot."""
    for needed in run.needs:
        if needed in failed:
            return f"it needs {needed.name}"
        place = store.place_of(needed)
        if store.is_done(needed) and not has_products(place):
            return f"it needs the policies of {place}, which were not kept; give another --folder to train them"
    return None


def _say(console: Console, sentences: Sequence[str]) -> None:
    for sentence in sentences:
        console.print(sentence, soft_wrap=True, markup=False)


def _plan_table(runs: Sequence[Planned], store: Store) -> Table:
    clock = Clock(store)
    table = Table(title="runs", title_justify="left")
    for column in ("run", "seeds", "state", "time"):
        table.add_column(column, justify="right" if column in ("seeds", "time") else "left", overflow="fold")
    left = 0.0
    for run in runs:
        seconds = 0.0 if store.is_done(run) else clock.seconds(run)
        left += seconds
        time = "" if store.is_done(run) else f"about {duration(seconds)}"
        table.add_row(run.name, str(run.config.seeds), _state(run, store), time)
    table.add_section()
    table.add_row("all that is left", "", "", f"about {duration(left)}")
    return table


def _state(run: Planned, store: Store) -> str:
    if store.is_done(run):
        return "done"
    if _hindrance(run, store, set()):
        return "policies not kept"
    if (store.place_of(run) / "config.json").is_file():
        return "begun"
    shorter = store.find(run)
    return f"only shorter: {shorter.shortfall}" if shorter else "to do"


def verdict_table(decisions: Sequence[Decision]) -> Table:
    """Claims, what the numbers are, and the verdicts."""
    table = Table(title="what the paper says, and what these runs say", title_justify="left", show_lines=True)
    for column in ("claim", "statement", "found [95 %]", "verdict"):
        table.add_column(column)
    for decision in decisions:
        for number, part in enumerate(decision.parts):
            found = "not run" if part.found is None else shown(part.found)
            name = f"{decision.claim.id}\n[{COLOURS[decision.verdict]}]{decision.verdict}" if number == 0 else ""
            verdict = f"[{COLOURS[part.verdict]}]{part.verdict}"
            table.add_row(name, f"{part.statement.says}", f"{found}\n({part.statement.rule})", verdict)
    return table


def _marker(folder: Path) -> Path:
    return folder / "reproduction.json"


def scale_of(folder: Path) -> ScaleName | None:
    """The scale of the reproduction in a folder; None if there is none."""
    try:
        found = read_json(_marker(folder))["scale"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"folder: {_marker(folder)} cannot be read ({error})") from error
    if found not in ("quick", "paper"):
        raise InputError(f"folder: {_marker(folder)} names the scale {found!r}; only quick and paper are known")
    return found


def _check_scale(folder: Path, scale: ScaleName) -> None:
    if folder.is_file():
        raise InputError(f"folder: {folder} is a file; give the name of a folder")
    found = scale_of(folder)
    if found is not None and found != scale:
        raise InputError(
            f"folder: {folder} holds a reproduction at scale {found}, not {scale}; choose another --folder"
        )


def report(folders: Sequence[Path], out: Path | None) -> Path:
    """The page of a reproduction, its figures drawn anew; or of the runs in some folders."""
    first = folders[0]
    scale = scale_of(first) if len(folders) == 1 else None
    if scale is None:
        path = out or (first / "report.html" if len(folders) == 1 else Path("report.html"))
        report_runs(folders, path)
        return path
    store, console = Store(first), Console(highlight=False)
    _say(console, store.problems)
    experiments = all_experiments(Scale(scale))
    return write_page(experiments, store, _decide_all(experiments, store), console, out)
