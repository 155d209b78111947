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
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import tyro

import alphamepol as am
from alphamepol.algorithms.alphamepol.presets import Preset
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.runs.checkpoints import saved_checkpoints
from alphamepol.runs.folder import RunFolder
from alphamepol.runs.interrupts import RunInterrupted
from alphamepol.sampling import compiled_sampler
from alphamepol.settings.run import PhysicsKind

PART_SECONDS = 600.0
"""The longest time that a run waits for the others, before it fails."""
ROWS = (0, 2)
"""The places of those arguments of samplers that have an axis over seeds or tasks. Keys have one, too."""
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

    def __init__(self, parties: int):
        self._parties = parties
        self._changed = threading.Condition()
        self._round = 0
        self._calls: dict[int, Call] = {}
        self._results: dict[int, Any] = {}

    def compute(self, call: "Call") -> Any:
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
            self._results = dict(enumerate(compute_together(list(self._calls.values()))))
        except BaseException as error:
            self._results = dict.fromkeys(self._calls, error)
        self._calls = {}
        self._round += 1
        self._changed.notify_all()


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a sampler, and its arguments."""

    collect: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def rows(self) -> list[Any]:
        """The arguments that have an axis over the rows, which are seeds or tasks."""
        return [self.arguments[place] for place in ROWS] + [self.named["keys"]]

    @property
    def form(self) -> Any:
        """Everything but the numbers and the count of the rows. Calls of one form can be joined."""
        shapes = [(leaf.shape[1:], leaf.dtype) for leaf in jax.tree.leaves(self.rows)]
        rest = {name: value for name, value in self.named.items() if name != "keys"}
        return self.collect, jax.tree.structure(self.rows), shapes, rest


def compute_together(calls: Sequence[Call]) -> list[Any]:
    """Make one call for all calls if they have one form; else make each of them."""
    first = calls[0]
    if any(call.form != first.form for call in calls):
        return [call.collect(*call.arguments, **call.named) for call in calls]
    *joined, keys = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(call.rows for call in calls))
    arguments = list(first.arguments)
    for place, value in zip(ROWS, joined, strict=True):
        arguments[place] = value
    found = first.collect(*arguments, **(first.named | {"keys": keys}))
    sizes = [jax.tree.leaves(call.rows)[0].shape[0] for call in calls]
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [
        jax.tree.map(lambda leaf, end=end, size=size: leaf[end - size : end], found)
        for end, size in zip(ends, sizes, strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class SideRun:
    """One of the runs. It must resume what it has done."""

    do: Callable[[list[Any]], Any]
    """A function of the callbacks that the run gets."""
    folder: Path
    unit: str
    steps: int

    @property
    def steps_are_done(self) -> bool:
        return self.steps in saved_checkpoints(RunFolder(self.folder).checkpoints, self.unit)


def do_side_by_side(runs: Sequence[SideRun]) -> None:
    """Do runs in threads that sample together. Then end them one after the other, because figures are drawn then."""
    samplers = "collect_compiled", "collect_compiled_episodes"
    usual = {name: getattr(compiled_sampler, name) for name in samplers}
    left = [run for run in runs if not run.steps_are_done]
    meeting = Meeting(len(left))

    def in_thread(run: SideRun) -> None:
        with suppress(RunInterrupted):
            try:
                run.do([stop_after_last_step])
            finally:
                meeting.leave()

    try:
        for name, collect in usual.items():
            setattr(compiled_sampler, name, lambda *a, collect=collect, **k: meeting.compute(Call(collect, a, k)))
        threads = [threading.Thread(target=in_thread, args=(run,)) for run in left]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for name, collect in usual.items():
            setattr(compiled_sampler, name, collect)
    for run in runs:
        run.do([])


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

    do_side_by_side(
        [SideRun(partial(run, alpha), folder / f"alpha-{alpha:g}", "epoch", config.epochs) for alpha in alphas]
    )


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

    names = [Path(init).name for init in inits]
    if len(set(names)) < len(names):
        raise SystemExit(f"inits: {', '.join(names)}: two have the same name, which folders are named after")
    do_side_by_side(
        [SideRun(partial(run, init), folder / Path(init).name, "iteration", config.iterations) for init in inits]
    )


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"pretrain": pretrain, "finetune": finetune})
