"""A loop that can stop and go on at any of its steps: metrics, checkpoints, interrupts, resume.

The epochs of pre-training and of DIAYN, the iterations of fine-tuning and of MAML are such loops; they differ in what
a step does and shows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from rich.console import RenderableType

from alphamepol.devices import laid_over, lay, on_one_device
from alphamepol.errors import RunError
from alphamepol.runs.checkpoints import load_newest_checkpoint, save_checkpoint
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import Interrupts, RunInterrupted, interrupts
from alphamepol.runs.metrics import JsonLinesLogger, Logger, Mark, TensorBoardLogger
from alphamepol.runs.progress import RunProgress
from alphamepol.runs.stopwatch import Stopwatch


class LoopState(eqx.Module):
    """Everything that lives on from step to step, stacked over what runs side by side."""

    learners: Any
    keys: Key[Array, " rows"]


@dataclass(frozen=True)
class Loop:
    """What is done, how often, and what is shown of it."""

    unit: str
    """What a step is called: the field of its metrics lines and the name of its checkpoints."""
    total: int
    checkpoint_every: int
    start: Callable[[], LoopState]
    template: Callable[[], LoopState]
    """A state of the same shapes; what it takes to make it can be traced."""
    step: Callable[[LoopState, int], tuple[LoopState, list[dict[str, Any]], Callable[[], dict[str, np.ndarray]]]]
    """The new state, the metrics lines, and how to draw pictures for TensorBoard."""
    show: Callable[[list[dict[str, Any]]], tuple[RenderableType, str]]
    """Metrics lines as a live table, and as the end of a sentence."""
    labels: tuple[str, ...]
    """The fields that say whose a line is."""
    devices: int = 1
    """How many the state is laid over, along what it is stacked by."""


@contextmanager
def running(
    title: str, unit: str, total: int, *, precision: str, quiet: bool
) -> Iterator[tuple[RunProgress, Interrupts]]:
    """What surrounds a run: its progress, and interrupts, which end it with `RunInterrupted`."""
    try:
        with (
            jax.default_matmul_precision(precision),
            interrupts() as received,
            RunProgress(title, unit, total, quiet=quiet) as progress,
        ):
            yield progress, received
    except KeyboardInterrupt as interrupt:
        raise RunInterrupted from interrupt


def run_loop(
    loop: Loop, folder: RunFolder, stopwatch: Stopwatch, progress: RunProgress, received: Interrupts
) -> LoopState:
    """Do the steps that are still to do, and return the final state."""
    state, done, mark = _restore_or_start(loop, folder, stopwatch, progress)
    with laid_over(loop.devices):
        state = _go_on(loop, lay(state), done, mark, folder, stopwatch, progress, received)
    return state if loop.devices == 1 else on_one_device(state)


def _go_on(
    loop: Loop,
    state: LoopState,
    done: int,
    mark: Mark | None,
    folder: RunFolder,
    stopwatch: Stopwatch,
    progress: RunProgress,
    received: Interrupts,
) -> LoopState:
    saved = done
    metrics = JsonLinesLogger(folder.metrics, keep=mark)
    mark = metrics.mark
    loggers: list[Logger] = [metrics, TensorBoardLogger(folder.tensorboard, loop.unit, loop.labels, keep=done)]
    try:
        for number in range(done, loop.total):
            improved, lines, draw = loop.step(state, number)
            for logger in loggers:
                logger.log(lines)
            # Together: an interrupt before leaves none of the step, and its lines are written again.
            state, done, mark = improved, number + 1, metrics.mark
            progress.advance(*loop.show(lines))
            if done % loop.checkpoint_every == 0 or done == loop.total:
                with received.held():
                    _save(folder, loop.unit, state, done, stopwatch, mark)
                saved = done
                for name, pixels in draw().items():
                    for logger in loggers:
                        logger.log_picture(name, number, pixels)
            received.check()
    except (KeyboardInterrupt, RunError):
        if done > saved:
            with received.held():
                _save(folder, loop.unit, state, done, stopwatch, mark)
        raise
    finally:
        for logger in loggers:
            logger.close()
    return state


def _restore_or_start(
    loop: Loop, folder: RunFolder, stopwatch: Stopwatch, progress: RunProgress
) -> tuple[LoopState, int, Mark | None]:
    """The state of the newest intact checkpoint, or a fresh one, the number of steps done, and how far metrics were."""
    template = eqx.filter_eval_shape(lambda: loop.template().learners)
    found, damaged = load_newest_checkpoint(folder.checkpoints, loop.unit, template)
    for sentence in damaged:
        progress.say(sentence)
    if found is None:
        if damaged:
            progress.say(f"no checkpoint is intact: starting again from {loop.unit} 0")
        return loop.start(), 0, None
    learners, notes = found
    done = notes[loop.unit]
    stopwatch.add(notes["seconds"])
    progress.start_at(done)
    progress.say(f"continuing after {loop.unit} {done} of {loop.total}")
    keys = jax.random.wrap_key_data(jnp.array(notes["keys"], jnp.uint32))
    return LoopState(learners, keys), done, Mark(**notes["metrics"])


def _save(folder: RunFolder, unit: str, state: LoopState, done: int, stopwatch: Stopwatch, mark: Mark) -> None:
    notes = {
        "keys": jax.random.key_data(state.keys).tolist(),
        "seconds": stopwatch.so_far(),
        "metrics": mark._asdict(),
    }
    save_checkpoint(folder.checkpoints, unit, done, state.learners, notes)
