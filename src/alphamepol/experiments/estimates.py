"""How long runs will take: their arithmetic over the rate of this device, corrected by runs that are done."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import jax
import jax.numpy as jnp

from alphamepol.experiments.planned import Planned
from alphamepol.experiments.store import Store
from alphamepol.machine import cores
from alphamepol.runs.config import AnyConfig, FinetuneConfig, MetatrainConfig
from alphamepol.runs.folder import device_name
from alphamepol.runs.metrics import read_metrics

# Rough numbers; what is measured on the way corrects them.
SHARE = {"cpu": 0.4, "gpu": 0.2}
"""Of the rate of matrix products that whole runs reach."""
OVERHEAD = {"cpu": 20.0, "gpu": 40.0}
"""Seconds of start, compilation, evaluation and figures."""
UPDATE = {"cpu": 4e-3, "gpu": 3e-4}
"""Seconds of an update of DIAYN, which is too small to fill a device."""
HOST_STEPS = {"ant-stairs": 4000.0, "minigrid-counterexample": 2000.0}
"""Steps a second and core of environments that are stepped outside of JAX."""
TRUNK = 30_000
"""Multiplications of the convolutions of a MiniGrid view."""


@dataclass(frozen=True)
class Clock:
    """Estimates seconds on this device."""

    store: Store

    def seconds(self, run: Planned) -> float:
        """How long a run will still take."""
        whole = self._rough(run.command, run.class_name, run.config, getattr(run, "batches", 0))
        return whole * self._correction(run) * self._left(run)

    def _left(self, run: Planned) -> float:
        """The share of a run that is still to be done."""
        path = self.store.place_of(run) / "metrics.jsonl"
        lines = read_metrics(path) if path.is_file() else []
        if not lines:
            return 1.0
        unit = "epoch" if "epoch" in lines[-1] else "iteration"
        return 1 - min(1.0, (lines[-1][unit] + 1) / getattr(run.config, f"{unit}s"))

    def _rough(self, command: str, class_name: str, config: AnyConfig, batches: int) -> float:
        kind = _backend()
        flops, updates, host_steps = _work(command, class_name, config, batches)
        stepping = host_steps / (HOST_STEPS.get(class_name, 1.0) * cores())
        return OVERHEAD[kind] + flops / (self._rate * SHARE[kind]) + updates * UPDATE[kind] + stepping

    def _correction(self, run: Planned) -> float:
        """What runs of this kind took on this device over what was thought: of the same class, or else of any."""
        done = [
            (
                stored.description["class"] == run.class_name,
                stored.summary["seconds"]["total"]
                / self._rough(
                    run.command, stored.description["class"], stored.config, stored.description.get("batches", 0)
                ),
            )
            for stored in self.store.all()
            if stored.description["command"] == run.command and stored.summary.get("device") == device_name()
        ]
        alike = [ratio for same, ratio in done if same] or [ratio for _, ratio in done]
        return statistics.median(alike) if alike else 1.0

    @cached_property
    def _rate(self) -> float:
        return product_rate()


def _work(command: str, class_name: str, config: AnyConfig, batches: int) -> tuple[float, float, float]:
    """Floating-point operations, updates of DIAYN, and steps on the host."""
    row = 2.0 * (sum(a * b for a, b in pairwise(config.hidden)) + 4 * sum(config.hidden))
    row += 2 * TRUNK if class_name.startswith("minigrid") else 0
    on_host = class_name in HOST_STEPS
    if isinstance(config, FinetuneConfig):
        steps = config.iterations * config.steps * config.tasks * config.seeds
        return 35 * steps * row, 0.0, on_host * steps
    if isinstance(config, MetatrainConfig):
        if config.method == "diayn":
            return 0.0, float(config.epochs * config.steps * (config.seeds if _backend() == "cpu" else 1)), 0.0
        steps = config.iterations * config.tasks * config.trajectories * config.horizon * config.seeds
        return 181 * steps * row, 0.0, 0.0
    if command == "untrained":
        return 0.0, 0.0, on_host * config.evaluation_batches * config.batch * config.horizon * config.seeds * 2
    epochs = batches if command == "gradient-variance" else config.epochs
    steps = epochs * config.trajectories * config.horizon * config.seeds
    share = config.gradient_share if config.alpha == 1 else config.alpha
    iterations = config.max_off_policy_iterations
    if config.update == "on-policy":
        passes = 6
    else:
        passes = 1 + iterations * (1 + 3 * share) if share < 1 else 3 * (1 + iterations)
    return passes * steps * row, 0.0, on_host * steps


def _backend() -> str:
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def product_rate(width: int = 300, products: int = 50, rounds: int = 3) -> float:
    """FLOPs a second of float32 products like those of a hidden layer, at their best."""
    rows = 1600 if _backend() == "cpu" else 400_000
    weights = jax.random.normal(jax.random.key(0), (width, width)) / width**0.5
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, x: weights @ x, x))
    x = jax.block_until_ready(chain(jnp.ones((width, rows))))
    seconds: Sequence[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(chain(x))
        seconds.append(time.perf_counter() - start)
    return 2 * products * rows * width**2 / min(seconds)
