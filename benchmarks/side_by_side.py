"""Do several runs on one class at once, with one simulation for all of them.

    python -m benchmarks.side_by_side pretrain FOLDER --environment-class ant-stairs --alphas 0.2 1 --seeds 5
    python -m benchmarks.side_by_side finetune FOLDER --inits A B random --member Up

A control step of 1500 Ants takes a GPU hardly longer than one of 750. So runs whose policies have the same shape sample
together here, each in a thread of its own. A run has the same keys as by itself, and its folder is an ordinary run
folder. A killed command goes on from the checkpoints if it is given again.
"""

import dataclasses
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import tyro

import alphamepol as am
from alphamepol.algorithms.alphamepol.presets import Preset
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.runs.interrupts import RunInterrupted
from alphamepol.sampling import compiled_sampler
from alphamepol.settings.run import PhysicsKind

PART_SECONDS = 600.0
"""The longest time that a run waits for the others, before it fails."""
AUTHORS = {
    "gamma": 0.995,
    "critic_targets": "returns",
    "critic_batch": 64,
    "critic_gain": 1.0,
    "critic_biases": "uniform",
}
"""The settings of TRPO in the code of the paper's authors, where they differ from the paper."""


class Meeting:
    """A place where runs wait for each other. One of them computes the calls of all together."""

    def __init__(self, parties: int, together: Callable[[list[Any]], list[Any]]):
        self._parties, self._together = parties, together
        self._changed = threading.Condition()
        self._round = 0
        self._calls: dict[int, Any] = {}
        self._results: dict[int, Any] = {}

    def compute(self, call: Any) -> Any:
        """Return the result of a call, after all runs have made one or have left."""
        with self._changed:
            place, now = len(self._calls), self._round
            self._calls[place] = call
            self._compute_if_complete()
            if not self._changed.wait_for(lambda: self._round != now, PART_SECONDS):
                raise TimeoutError("another run did not sample")
            found = self._results[place]
        if isinstance(found, BaseException):
            raise found
        return found

    def leave(self) -> None:
        """Let the others go on without the run that calls this."""
        with self._changed:
            self._parties -= 1
            self._compute_if_complete()

    def _compute_if_complete(self) -> None:
        if not self._calls or len(self._calls) < self._parties:
            return
        try:
            self._results = dict(enumerate(self._together(list(self._calls.values()))))
        except BaseException as error:
            self._results = dict.fromkeys(self._calls, error)
        self._calls = {}
        self._round += 1
        self._changed.notify_all()


def rows_together(
    collect: Callable[..., Any], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]], rows: Sequence[str | int]
) -> list[Any]:
    """Call a sampler once for calls that differ in their rows only, and else for each call.

    `rows` names the arguments that have an axis over the rows: seeds, or tasks.
    """

    def parts(call: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Any]:
        arguments, named = call
        return [arguments[one] if isinstance(one, int) else named[one] for one in rows]

    def form(call: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        shapes = [(leaf.shape[1:], leaf.dtype) for leaf in jax.tree.leaves(parts(call))]
        return jax.tree.structure(parts(call)), shapes, {k: v for k, v in call[1].items() if k not in rows}

    forms = [form(call) for call in calls]
    if any(one != forms[0] for one in forms):
        return [collect(*arguments, **named) for arguments, named in calls]
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(parts(call) for call in calls))
    arguments, named = list(calls[0][0]), dict(calls[0][1])
    for one, value in zip(rows, joined, strict=True):
        if isinstance(one, int):
            arguments[one] = value
        else:
            named[one] = value
    found = collect(*arguments, **named)
    sizes = [jax.tree.leaves(parts(call))[0].shape[0] for call in calls]
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [
        jax.tree.map(lambda leaf, end=end, size=size: leaf[end - size : end], found)
        for end, size in zip(ends, sizes, strict=True)
    ]


def do_side_by_side(runs: Sequence[Callable[[list[Any]], Any]]) -> None:
    """Do runs in threads that sample together. Then end them one after the other, because figures are drawn then.

    A run is a function of the callbacks that it is given. It must resume what it has done.
    """
    episodes, steps = compiled_sampler.collect_compiled_episodes, compiled_sampler.collect_compiled
    of_steps = Meeting(len(runs), lambda calls: rows_together(steps, calls, (0, 2, "keys")))
    of_episodes = Meeting(len(runs), lambda calls: rows_together(episodes, calls, (0, 2, "keys")))

    def in_thread(run: Callable[[list[Any]], Any]) -> None:
        try:
            run([stop_after_last_step])
        except RunInterrupted:
            pass
        finally:
            of_steps.leave()
            of_episodes.leave()

    compiled_sampler.collect_compiled = lambda *a, **k: of_steps.compute((a, k))
    compiled_sampler.collect_compiled_episodes = lambda *a, **k: of_episodes.compute((a, k))
    try:
        threads = [threading.Thread(target=in_thread, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        compiled_sampler.collect_compiled, compiled_sampler.collect_compiled_episodes = steps, episodes
    for run in runs:
        run([])


def stop_after_last_step(step: am.FinishedStep) -> None:
    """Say how far a run is, and interrupt it after its last step, when all of it but the end is done."""
    print(step.folder.name, step.number + 1, flush=True)
    if step.number + 1 == step.total:
        raise KeyboardInterrupt


def pretrain(
    folder: Annotated[Path, tyro.conf.Positional],
    environment_class: str = "ant-stairs",
    preset: Preset = "paper",
    alphas: tuple[float, ...] = (0.2, 1.0),
    seeds: int = 5,
    seed: int = 0,
    epochs: int | None = None,
    learning_rate: float | None = None,
    memory: Literal["none", "last", "recurrent"] = "none",
    checkpoint_every: int = 20,
    physics: PhysicsKind = "auto",
) -> None:
    """Pre-train with several α, in FOLDER/alpha-….

    Args:
        folder: the folder of the runs.
        environment_class: the class.
        preset: the preset of the class.
        alphas: the percentiles, one run for each.
        seeds: the number of seeds of a run.
        seed: the first seed.
        epochs: the number of epochs, if it is not that of the preset.
        learning_rate: the learning rate, if it is not that of the preset.
        memory: the memory of the policies.
        checkpoint_every: the number of epochs between two checkpoints.
        physics: the engine of a class of MuJoCo models.
    """
    config = dataclasses.replace(
        am.preset(preset, environment_class),
        **{"seeds": seeds, "seed": seed, "memory": memory, "checkpoint_every": checkpoint_every, "keep_checkpoints": 1},
        **{name: value for name, value in (("epochs", epochs), ("learning_rate", learning_rate)) if value is not None},
    )

    def run(alpha: float, callbacks: list[Any]) -> None:
        am.pretrain(
            environment_class,
            dataclasses.replace(config, alpha=alpha),
            folder=folder / f"alpha-{alpha:g}",
            **{"resume": True, "physics": physics, "log": "none", "callbacks": callbacks, "quiet": True},
        )

    do_side_by_side([lambda callbacks, alpha=alpha: run(alpha, callbacks) for alpha in alphas])


def finetune(
    folder: Annotated[Path, tyro.conf.Positional],
    inits: tuple[str, ...],
    member: str,
    environment_class: str = "ant-stairs",
    authors: bool = False,
    tasks: int | None = None,
    iterations: int | None = None,
    seeds: int = 1,
    checkpoint_every: int = 20,
    physics: PhysicsKind = "auto",
) -> None:
    """Fine-tune from several initial policies, in FOLDER/….

    Args:
        folder: the folder of the runs.
        inits: the folders of runs, or random.
        member: the member to act in.
        environment_class: the class.
        authors: use the settings of TRPO in the code of the paper's authors.
        tasks: the number of tasks, if it is not that of the preset.
        iterations: the number of iterations, if it is not that of the preset.
        seeds: the number of seeds for each task.
        checkpoint_every: the number of iterations between two checkpoints.
        physics: the engine of a class of MuJoCo models.
    """
    usual = am.finetuning_preset(environment_class)
    assert isinstance(usual, TrpoConfig)
    config = dataclasses.replace(
        usual,
        **{"seeds": seeds, "checkpoint_every": checkpoint_every, "keep_checkpoints": 1},
        **{name: value for name, value in (("tasks", tasks), ("iterations", iterations)) if value is not None},
        **(AUTHORS if authors else {}),
    )

    def run(init: str, callbacks: list[Any]) -> None:
        am.finetune(
            init,
            member,
            config,
            environment_class=environment_class,
            folder=folder / Path(init).name,
            **{"resume": True, "physics": physics, "log": "none", "callbacks": callbacks, "quiet": True},
        )

    do_side_by_side([lambda callbacks, init=init: run(init, callbacks) for init in inits])


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"pretrain": pretrain, "finetune": finetune})
