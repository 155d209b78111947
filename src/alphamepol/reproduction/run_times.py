"""Estimates of how long runs take: their operations divided by the speed of this device, corrected by finished runs."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.cost import learning_passes
from alphamepol.algorithms.finetuning.config import FinetuneConfig
from alphamepol.algorithms.metatraining.config import MetatrainConfig
from alphamepol.compute.devices import device_name
from alphamepol.compute.machine import machine_cores
from alphamepol.environments.registry import StepCost, find_registered_class
from alphamepol.files.json_files import value_has_type
from alphamepol.policies.networks import network_operations_per_row
from alphamepol.reproduction.planned import AnyConfig, Identity, Planned
from alphamepol.reproduction.store import Store
from alphamepol.runs.metrics import last_metrics_line

# These numbers are rough: the times of finished runs correct them.
SHARE = {"cpu": 0.4, "gpu": 0.2}
"""The share of the speed of matrix products that whole runs reach."""
OVERHEAD = {"cpu": 20.0, "gpu": 40.0}
"""The seconds that start, compilation, evaluation and figures take."""
UPDATE = {"cpu": 4e-3, "gpu": 3e-4}
"""The seconds of one update of DIAYN. Updates are too small to fill a device, so operations do not count."""


@dataclass(frozen=True)
class Clock:
    """Estimates the seconds of runs on this device."""

    store: Store

    def seconds(self, run: Planned) -> float:
        """Return the seconds that a run will still take."""
        return self.seconds_of([run])[0]

    def seconds_of(self, runs: Sequence[Planned]) -> list[float]:
        """Return the seconds that each run will still take. The finished runs are read once for all of them."""
        ratios = self._ratios() if runs else {}
        return [
            self._rough(run.class_name, run.config, run.identity)
            * _correction_of_run_time(run, ratios)
            * self._left(run)
            for run in runs
        ]

    def _left(self, run: Planned) -> float:
        """Return the share of a run that is still to be done."""
        path = self.store.place_of(run) / "metrics.jsonl"
        last = last_metrics_line(path) or {}
        done = last.get("epoch", last.get("iteration", -1))
        if not value_has_type(done, int):
            return 1.0
        return 1 - min(1.0, (done + 1) / steps_for_run_time(run.config))

    def _rough(self, class_name: str, config: AnyConfig, identity: Identity) -> float:
        kind, entry = _backend_for_run_time(), find_registered_class(class_name)
        cost = entry.cost if entry else StepCost()
        flops, updates, steps = _work_for_run_time(cost, config, identity)
        stepping = steps / (cost.host_steps_per_second * machine_cores()) if cost.host_steps_per_second else 0.0
        return OVERHEAD[kind] + flops / (self._rate * SHARE[kind]) + updates * UPDATE[kind] + stepping

    def _ratios(self) -> dict[str, dict[str, list[float]]]:
        """Return the ratios of real to estimated time of all finished runs on this device, by command and class.

        A run whose summary does not say how long it took does not count.
        """
        ratios: dict[str, dict[str, list[float]]] = {}
        for stored in self.store.all():
            command, class_name = stored.description["command"], stored.description["class"]
            taken = stored.summary.get("seconds", {}).get("total", 0)
            if stored.summary.get("device") == device_name() and taken > 0:
                ratio = taken / self._rough(class_name, stored.config, stored.identity)
                ratios.setdefault(command, {}).setdefault(class_name, []).append(ratio)
        return ratios

    @cached_property
    def _rate(self) -> float:
        return product_rate_for_run_times()


def _correction_of_run_time(run: Planned, ratios: Mapping[str, Mapping[str, Sequence[float]]]) -> float:
    """Return the median ratio of real to estimated time among finished runs of the same command.

    Runs of the same class count; without any, runs of all classes. Return 1 if no run has finished.
    """
    of_command = ratios.get(run.command, {})
    alike = of_command.get(run.class_name) or [ratio for of_class in of_command.values() for ratio in of_class]
    return statistics.median(alike) if alike else 1.0


def steps_for_run_time(config: AnyConfig) -> int:
    """Return the number of epochs or iterations of a run."""
    if isinstance(config, MetatrainConfig):
        return config.epochs if config.method == "diayn" else config.iterations
    return config.epochs if isinstance(config, PretrainConfig) else config.iterations


def _work_for_run_time(cost: StepCost, config: AnyConfig, identity: Identity) -> tuple[float, float, int]:
    """Return the numbers of floating-point operations, updates of DIAYN, and environment steps."""
    command = identity["command"]
    row = network_operations_per_row(config.hidden, cost.image_multiplications)
    if isinstance(config, FinetuneConfig):
        steps = config.iterations * config.steps * config.tasks * config.seeds
        return 35 * steps * row, 0.0, steps
    if isinstance(config, MetatrainConfig):
        if config.method == "diayn":
            return (
                0.0,
                float(config.epochs * config.steps * (config.seeds if _backend_for_run_time() == "cpu" else 1)),
                0,
            )
        steps = config.iterations * config.tasks * config.trajectories * config.horizon * config.seeds
        return 181 * steps * row, 0.0, 0
    if command == "untrained":
        return 0.0, 0.0, config.evaluation_batches * config.batch * config.horizon * config.seeds * 2
    epochs = config.epochs
    if command == "gradient-variance":
        epochs = identity["batches"] * max(1, len(identity.get("checkpoints", [])))
    steps = epochs * config.trajectories * config.horizon * config.seeds
    return learning_passes(config) * steps * row, 0.0, steps


def _backend_for_run_time() -> str:
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def product_rate_for_run_times(width: int = 300, products: int = 50, rounds: int = 3) -> float:
    """Return the FLOPs per second of float32 matrix products like those of a hidden layer, in the fastest round."""
    rows = 1600 if _backend_for_run_time() == "cpu" else 400_000
    weights = jax.random.normal(jax.random.key(0), (width, width)) / width**0.5
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, x: weights @ x, x))
    x = jax.block_until_ready(chain(jnp.ones((width, rows))))
    seconds: Sequence[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(chain(x))
        seconds.append(time.perf_counter() - start)
    return 2 * products * rows * width**2 / min(seconds)
