"""The functions that are called after every step of a run: the user's callbacks, and the loggers."""

import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, get_args, runtime_checkable

import numpy as np

from alphamepol.errors import InputError, RunError
from alphamepol.figures.curves import live_chart_png
from alphamepol.figures.tables import MOST
from alphamepol.files.names import name_as_tag, name_as_text
from alphamepol.notebooks.kernel import NotebookPicture
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.metrics import MOST_DRAWN
from alphamepol.settings.run import LogTarget


@dataclass
class FinishedStep:
    """A step of a run that has just finished, which callbacks are given.

    **Example**

    ```python
    from pathlib import Path

    import alphamepol as am


    def stop_early(step: am.FinishedStep) -> None:
        if step.metrics[0]["objective"] > 0.5:
            step.stop()


    # am.pretrain("gridworld-slope", callbacks=[stop_early]) calls the function after every epoch with such a step.
    step = am.FinishedStep("epoch", 7, 150, [{"seed": 0, "objective": 0.6}], Path("runs/short"))
    stop_early(step)
    print(step.stopped)  # True
    ```
    """

    unit: str
    """The name of a step: epoch or iteration."""
    number: int
    """The number of the step, from 0 on."""
    total: int
    """The number of steps that are planned."""
    metrics: list[dict[str, Any]]
    """The metrics of the step, as in metrics.jsonl: one dict per seed, or per task and seed."""
    folder: Path
    """The run folder."""
    saved: bool = False
    """True if a checkpoint was written after this step."""
    draw: Callable[[], dict[str, np.ndarray]] = field(default=dict, repr=False)
    """Draws pictures of the step's samples by name, uint8 of shape (height, width, 3). Not every run has pictures."""
    stopped: bool = False
    """True after `stop` was called."""

    def stop(self) -> None:
        """End the run after this step, as if it had been planned with this number of steps.

        The final policies are evaluated and saved as usual. `resume` with more steps continues the run.
        """
        self.stopped = True


Callback = Callable[[FinishedStep], None]


def call_after_step(callbacks: Sequence[Callback], step: FinishedStep) -> None:
    """Call the user's callbacks. An error in one of them becomes a `RunError`, so that the finished steps are saved."""
    for callback in callbacks:
        try:
            callback(step)
        except (RunError, InputError):
            raise
        except Exception as error:
            name = getattr(callback, "__name__", type(callback).__name__)
            raise RunError(
                f"{step.unit} {step.number}: the callback {name} failed ({type(error).__name__}: {error}); mend it, "
                "then continue the run with --resume"
            ) from error


@runtime_checkable
class Logger(Protocol):
    """A callback that writes metrics to another program's files, and that must be closed."""

    def __call__(self, step: FinishedStep) -> None:
        """Write the metrics of a step, and its pictures if a checkpoint was written after it."""

    def close(self) -> None:
        """Finish writing."""


def start_logger(target: LogTarget, folder: RunFolder, labels: tuple[str, ...], done: int) -> Logger | None:
    """Return the logger of a run that has done `done` steps; None if nothing but metrics.jsonl is to be written.

    `labels` are the fields that tell to which seed or task a line belongs.
    """
    if target == "tensorboard":
        return TensorBoardLogger(folder.tensorboard, labels, keep=done)
    if target == "wandb":
        return WandbLogger(folder, labels)
    return None


def check_log_target(target: str) -> None:
    """Raise an `InputError` if a run cannot log to `target`."""
    if target not in get_args(LogTarget):
        raise InputError(f"log: {target!r} was given; choose {', '.join(get_args(LogTarget))}")
    if target == "wandb":
        try:
            import wandb  # noqa: F401
        except ImportError as error:
            raise InputError("log: wandb was given; install it with: pip install 'alphamepol[wandb]'") from error


class TensorBoardLogger:
    """The writer of metrics as TensorBoard scalars, and of pictures."""

    def __init__(self, folder: Path, labels: tuple[str, ...], *, keep: int = 0):
        # tensorboardX's SummaryWriter is not used, because it writes in a thread. An error there, such as a full disk,
        # would not be noticed.
        with _without_torch():
            from tensorboardX import summary
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto import event_pb2, summary_pb2

        self._labels = labels
        self._image, self._summary, self._event = summary.image, summary_pb2.Summary, event_pb2.Event  # pyright: ignore[reportAttributeAccessIssue] (made by protobuf)
        resumed = folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}")
        if resumed:
            # This event tells TensorBoard to forget the steps that will be computed again.
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)  # pyright: ignore[reportAttributeAccessIssue]
            self._writer.write_event(self._event(step=keep, session_log=start))

    def __call__(self, step: FinishedStep) -> None:
        curves = curves_of_metrics(step.metrics, step.unit, self._labels)
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in curves.items()]
        self._write(step.number, self._summary(value=values))
        for name, pixels in step.draw().items() if step.saved else ():
            picture = self._image("", pixels, dataformats="HWC")
            picture.value[0].tag = name  # tensorboardX itself would replace characters, so that names could merge
            self._write(step.number, picture)

    def _write(self, number: int, summary: Any) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=number, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandbLogger:
    """The writer of metrics and pictures to Weights & Biases. Its settings are wandb's own environment variables.

    A resumed run continues the run of the same folder there, if wandb is online.
    """

    def __init__(self, folder: RunFolder, labels: tuple[str, ...]):
        import wandb

        self._labels, self._image = labels, wandb.Image
        if (folder.path / "wandb").is_symlink():  # wandb itself makes links inside its folder
            raise InputError(f"folder: {folder.path / 'wandb'} is a link; remove it")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "alphamepol"),
                name=name_as_text(folder.path.resolve().name, 128),
                dir=folder.path,
                config=folder.read_config(),
                resume=None if wandb.Settings().mode == "offline" else "allow",
                id=hashlib.sha256(os.fsencode(folder.path.resolve())).hexdigest()[:16],
            )
        except (wandb.Error, UnicodeError) as error:  # wandb has no paths that are no UTF-8
            raise InputError(
                f"log: wandb cannot begin ({error}); log in with `wandb login`, or set WANDB_MODE=offline"
            ) from error

    def __call__(self, step: FinishedStep) -> None:
        pictures = step.draw() if step.saved else {}
        curves = curves_of_metrics(step.metrics, step.unit, self._labels)
        self._run.log(curves | {name: self._image(pixels) for name, pixels in pictures.items()}, step=step.number)

    def close(self) -> None:
        self._run.finish()


@contextmanager
def _without_torch() -> Iterator[None]:
    """Keep tensorboardX from importing PyTorch where it is installed: that takes seconds, and nothing here needs it."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # pyright: ignore[reportArgumentType] (which makes `import torch` an ImportError)
    try:
        yield
    finally:
        del sys.modules["torch"]


CHART_EVERY = 2.0
"""The least number of seconds between two pictures of a live chart."""


class LiveChart:
    """The logger of a notebook: one chart below the cell, which changes while the run trains.

    **Arguments**

    - `fields`: the fields of metrics lines that are drawn: numbers, or dictionaries of numbers.
    - `picture`: the picture in the notebook.
    """

    def __init__(self, fields: Sequence[str], picture: NotebookPicture):
        self._fields, self._picture = fields, picture
        self._curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self._step: FinishedStep | None = None
        self._shown = -math.inf

    def __call__(self, step: FinishedStep) -> None:
        for key, values in _numbers_of_live_chart(step.metrics, self._fields).items():
            points = self._curves.setdefault(key, [])
            points.append((step.number, sum(values) / len(values)))
            if len(points) > MOST_DRAWN:
                del points[1:-1:2]
        self._step = step
        if time.monotonic() - self._shown >= CHART_EVERY:
            self._show(step)

    def close(self) -> None:
        if self._step is not None:
            self._show(self._step)

    def _show(self, step: FinishedStep) -> None:
        title = f"{step.unit} {step.number + 1} of {step.total}"
        shown = dict(list(self._curves.items())[:MOST])
        self._picture.show(live_chart_png(title, step.unit, shown), title)
        self._shown, self._step = time.monotonic(), None


def _numbers_of_live_chart(lines: list[dict[str, Any]], fields: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    """Return the numbers of each curve: one for each line that has it."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        for one in fields:
            numbers = line[one] if isinstance(line[one], dict) else {"": line[one]}
            for name, number in numbers.items():
                found.setdefault((one, name), []).append(number)
    return found


def curves_of_metrics(lines: list[dict[str, Any]], unit: str, labels: tuple[str, ...]) -> dict[str, float]:
    """Return the points that the metrics of a step add to curves, by the names of the curves.

    `labels` are the fields that tell to which seed or task a line belongs. If there is one such field, each of its
    values has its own curve. If there are several, one curve shows the mean over all lines.
    """
    flat = [_flatten_metrics(line) for line in lines]
    curves = {"": flat}
    if len(labels) == 1:
        curves = {f"/{labels[0]}-{line[labels[0]]}": [line] for line in flat}
    return {
        f"{tag}{suffix}": sum(line[tag] for line in of_curve) / len(of_curve)
        for suffix, of_curve in curves.items()
        for tag in of_curve[0].keys() - {unit, *labels}
    }


def _flatten_metrics(value: Any, path: str = "") -> dict[str, float | int]:
    """Return the numbers by their paths: {"entropy": {"GWS": 0.5}} becomes {"entropy/GWS": 0.5}."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {
            tag: number
            for name, part in parts
            for tag, number in _flatten_metrics(part, f"{path}/{name_as_tag(str(name))}").items()
        }
    return {path.removeprefix("/"): value}
