"""The loop over the steps of a run. It writes metrics and checkpoints, and can be interrupted and resumed at any step.

The epochs of pre-training and of DIAYN, and the iterations of fine-tuning and of MAML, are such loops. They differ in
what a step does and shows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from rich.console import RenderableType

from alphamepol.compute.devices import lay_over_devices, move_to_one_device, using_devices
from alphamepol.errors import RunError
from alphamepol.files.reading import refusing_odd_files
from alphamepol.notebooks.kernel import NotebookPicture, in_notebook
from alphamepol.policies.policy import Policy
from alphamepol.runs.callbacks import FinishedStep, LiveChart, call_after_step, start_logger
from alphamepol.runs.checkpoints import delete_old_checkpoints, load_newest_checkpoint, save_checkpoint
from alphamepol.runs.context import RunContext
from alphamepol.runs.metrics import JsonLinesLogger, Mark, check_metrics


class LoopState(eqx.Module):
    """The state that lives on from step to step, stacked over the seeds or tasks that run side by side."""

    learners: Any
    keys: Key[Array, " rows"]


@dataclass(frozen=True)
class Loop:
    """The definition of a loop: its steps, their number, and what is shown of them."""

    unit: str
    """The name of a step, e.g. epoch: a field of the metrics lines, and the first part of the names of checkpoints."""
    total: int
    """The number of steps."""
    checkpoint_every: int
    """The number of steps between checkpoints."""
    keep_checkpoints: int | str
    """The number of newest checkpoints that stay, or "all"."""
    start: Callable[[], LoopState]
    """Returns the state before the first step."""
    template: Callable[[], LoopState]
    """Returns a state of the same shapes. JAX must be able to trace this function."""
    step: Callable[[LoopState, int], tuple[LoopState, list[dict[str, Any]], Callable[[], dict[str, np.ndarray]]]]
    """Does one step, given the state and the number of the step.

    Returns the new state, the metrics lines, and a function that draws pictures for TensorBoard.
    """
    policies: Callable[[LoopState], dict[str, Policy]]
    """Returns the policies of a state by the names of their files, e.g. seed-0. They are part of every checkpoint."""
    show: Callable[[list[dict[str, Any]]], tuple[RenderableType, str]]
    """Returns the metrics lines as a live table, and as the end of a sentence."""
    labels: tuple[str, ...]
    """The fields that tell to which seed or task a metrics line belongs."""
    charted: tuple[str, ...]
    """The fields of metrics lines that a notebook's live chart shows."""
    summarised: Mapping[str, Any]
    """The fields of a metrics line that the run reads again at its end, with their types."""


@dataclass(frozen=True)
class Reached:
    """The progress of a loop."""

    state: LoopState
    done: int
    """The number of steps that are done."""
    metrics: Mark | None
    """The position in metrics.jsonl after these steps; None if the loop starts from the beginning."""


def run_loop(loop: Loop, context: RunContext) -> tuple[LoopState, int]:
    """Do the remaining steps of a loop. Return the final state, and the number of steps that are done.

    The steps are fewer than planned if a callback has stopped the run. The run then becomes one of this length: its
    config.json says so.
    """
    reached = _restore_or_start_loop(loop, context)
    with using_devices(context.devices):
        state, done = _go_on_with_loop(loop, reached, context)
    if done < loop.total:
        context.folder.shorten(f"{loop.unit}s", done)
        context.progress.say(f"stopped by a callback after {loop.unit} {done} of {loop.total}")
    return (state if context.devices == 1 else move_to_one_device(state)), done


def _go_on_with_loop(loop: Loop, reached: Reached, context: RunContext) -> tuple[LoopState, int]:
    folder, interrupts, saved = context.folder, context.interrupts, reached.done
    metrics = JsonLinesLogger(folder.metrics, keep=reached.metrics)
    resumed = reached.metrics is not None
    reached = Reached(lay_over_devices(reached.state), reached.done, metrics.mark)
    loggers = [start_logger(context.way.log, folder, loop.labels, reached.done)]
    if in_notebook() and not context.way.quiet:
        loggers.append(LiveChart(loop.charted, NotebookPicture()))

    def save() -> None:
        """Save the finished steps, unless they are saved."""
        nonlocal saved
        if reached.done > saved:
            _save_loop_state(loop, reached, context)
            saved = reached.done

    try:
        if resumed:
            check_metrics(folder.metrics, loop.unit, saved, len(reached.state.keys), loop.summarised)
        with interrupts.saving_with(save):
            for number in range(saved, loop.total):
                improved, lines, draw = loop.step(reached.state, number)
                metrics.log(lines)
                # An interrupt before this line discards the whole step; a resumed run writes its metrics lines again.
                reached = Reached(improved, number + 1, metrics.mark)
                context.progress.advance(*loop.show(lines))
                if reached.done % loop.checkpoint_every == 0 or reached.done == loop.total:
                    with interrupts.held():
                        save()
                step = FinishedStep(loop.unit, number, loop.total, lines, folder.path, saved == reached.done, draw)
                for logger in filter(None, loggers):
                    logger(step)
                call_after_step(context.way.callbacks, step)
                interrupts.check()
                if step.stopped:
                    break
            with interrupts.held():
                save()
                # A run that was killed while it deleted checkpoints after its last step has left some files.
                delete_old_checkpoints(folder.checkpoints, loop.unit, loop.keep_checkpoints)
    except (KeyboardInterrupt, RunError):
        with interrupts.held():
            save()
        raise
    finally:
        metrics.close()
        for logger in filter(None, loggers):
            logger.close()
    return reached.state, reached.done


def _restore_or_start_loop(loop: Loop, context: RunContext) -> Reached:
    """Read the newest intact checkpoint, or start from the beginning."""

    def template() -> tuple[Any, Array]:
        state = loop.template()
        return state.learners, jax.random.key_data(state.keys)

    learners, keys = eqx.filter_eval_shape(template)
    with refusing_odd_files(context.folder.path):
        found, damaged = load_newest_checkpoint(context.folder.checkpoints, loop.unit, learners, keys.shape)
    progress = context.progress
    for sentence in damaged:
        progress.say(sentence)
    if found is None:
        if damaged:
            progress.say(f"no checkpoint is intact: starting again from {loop.unit} 0")
        return Reached(loop.start(), 0, None)
    with refusing_odd_files(context.folder.path):
        learners, notes = found
        done = notes[loop.unit]
        context.stopwatch.add(notes["seconds"])
        words = jnp.array(notes["keys"], jnp.uint32)
        reached = Reached(LoopState(learners, jax.random.wrap_key_data(words)), done, Mark(**notes["metrics"]))
    progress.start_at(done)
    progress.say(f"continuing after {loop.unit} {done} of {loop.total}")
    return reached


def _save_loop_state(loop: Loop, reached: Reached, context: RunContext) -> None:
    assert reached.metrics is not None
    notes = {
        "keys": jax.random.key_data(reached.state.keys).tolist(),
        "seconds": context.stopwatch.so_far(),
        "metrics": reached.metrics._asdict(),
    }
    save_checkpoint(
        context.folder.checkpoints,
        loop.unit,
        reached.done,
        reached.state.learners,
        notes,
        loop.policies(reached.state),
        loop.keep_checkpoints,
    )
