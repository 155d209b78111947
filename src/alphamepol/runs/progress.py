"""What a person sees of a run: time left and a table of members, or plain lines where there is no terminal."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.evaluate import Evaluation

LINE_EVERY = 10.0
"""Seconds between lines where there is no terminal."""


class PretrainProgress:
    """Progress of pre-training; a context manager."""

    def __init__(self, environment_class: EnvironmentClass, config: PretrainConfig, folder: Path, *, quiet: bool):
        self._class, self._config, self._folder = environment_class, config, folder
        self._console = Console(quiet=quiet)
        self._bar = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            console=self._console,
        )
        self._task = self._bar.add_task("epoch", total=config.epochs)
        self._live = Live(self._bar, console=self._console, refresh_per_second=4, transient=True)
        self._last_line = -math.inf

    def __enter__(self) -> "PretrainProgress":
        config = self._config
        title = f"{'MEPOL' if config.alpha == 1 else 'αMEPOL'} (α = {config.alpha:g}) on {self._class.name}"
        seeds = f"{config.seeds} seed{'s' if config.seeds > 1 else ''}"
        self.say(f"{title}, {config.epochs} epochs, {seeds}, in {self._folder}")
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def start_at(self, epochs_done: int) -> None:
        """A resumed run: what is done already does not count for the time left."""
        self._bar.reset(self._task, completed=epochs_done, total=self._config.epochs)

    def advance(self, lines: list[dict[str, Any]]) -> None:
        """Show an epoch's metrics, one line per seed."""
        self._bar.advance(self._task)
        objective, kl = (np.mean([line[name] for line in lines]) for name in ("objective", "kl"))
        numbers = f" objective {objective:.3f}   KL {kl:.3f}   {lines[0]['iterations']} iterations"
        self._live.update(Group(self._bar, _table(self._class, lines), numbers))
        task = self._bar.tasks[0]
        if self._console.is_terminal or (time.monotonic() - self._last_line < LINE_EVERY and not task.finished):
            return
        self._last_line = time.monotonic()
        left = f", {_duration(task.time_remaining)} left" if task.time_remaining else ""
        entropies = ", ".join(f"{name} {value:.2f}" for name, value in _mean_by_member(self._class, lines).items())
        self.say(f"epoch {int(task.completed)} of {self._config.epochs}{left}: entropy {entropies}")

    def evaluating(self, members: range) -> Iterator[int]:
        """Go through the members, with a bar of their own."""
        self.say("evaluating the final policies in every member")
        self._bar.reset(self._task, total=len(members), description="evaluating member")
        self._live.update(self._bar)
        for number in members:
            yield number
            self._bar.advance(self._task)

    def finish(self, evaluation: Evaluation) -> None:
        self._live.stop()
        self._console.print(evaluation_table(evaluation, f"final policies, α = {self._config.alpha:g}"))


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Entropy per member, mean over seeds with the smallest and the largest, beside what is possible."""
    table = Table(title=Text(title), title_justify="left")
    table.add_column("member")
    table.add_column("probability", justify="right")
    table.add_column("entropy", justify="right")
    if len(evaluation.seeds) > 1:
        table.add_column("seeds from … to", justify="right")
    table.add_column("ceiling", justify="right")

    def row(name: str, probability: str, values: np.ndarray, ceiling: float) -> None:
        spread = [f"{values.min():.2f} … {values.max():.2f}"] if len(evaluation.seeds) > 1 else []
        table.add_row(
            name, probability, f"{values.mean():.2f}", *spread, f"{ceiling:.2f}" if math.isfinite(ceiling) else ""
        )

    for i, name in enumerate(evaluation.members):
        row(name, f"{evaluation.probabilities[i]:g}", evaluation.member_means[:, i], evaluation.ceilings[i])
    table.add_section()
    row("mean", "", evaluation.mean, math.inf)
    if evaluation.alpha < 1:
        row(f"mean of worst {evaluation.alpha:g}", "", evaluation.cvar, math.inf)
    return table


def _table(environment_class: EnvironmentClass, lines: list[dict[str, Any]]) -> Table:
    table = Table(box=None)
    table.add_column("member")
    table.add_column("entropy", justify="right")
    table.add_column("share of tail", justify="right")
    entropies = _mean_by_member(environment_class, lines)
    for name in environment_class.names:
        share = np.mean([line["tail_share"][name] for line in lines])
        table.add_row(name, f"{entropies[name]:.3f}" if name in entropies else "not met", f"{share:.0%}")
    return table


def _mean_by_member(environment_class: EnvironmentClass, lines: list[dict[str, Any]]) -> dict[str, float]:
    """Mean over the seeds that met a member."""
    met = {
        name: [line["entropy"][name] for line in lines if name in line["entropy"]] for name in environment_class.names
    }
    return {name: float(np.mean(values)) for name, values in met.items() if values}


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
