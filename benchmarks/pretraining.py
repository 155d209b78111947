"""Compare each phase of an epoch of pre-training with its floor. The settings are the paper's."""

import dataclasses
import time

import jax

from alphamepol import make, preset
from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.epoch import run_epoch
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.samples import SamplePlan
from alphamepol.policies.shape import policy_shape
from benchmarks.measuring import Measurement, Seconds, matmul_rate

IN_JAX = (
    ("gridworld-slope", 0.2),
    ("gridworld-slope", 1.0),
    ("gridworld-counterexample", 0.35),
    ("multigrid", 0.1),
    ("minigrid", 0.2),
    ("minigrid-counterexample", 0.2),
)
ON_THE_HOST = (("ant-stairs", 0.2),)
VIEW_FLOPS = 55_700
"""The FLOPs of one row of MiniGrid views: the convolutions and the layers after them."""


def measure(rounds: int, seeds: int = 1) -> list[Measurement]:
    """Measure all classes on a CPU, and the compiled classes on an accelerator."""
    classes = IN_JAX + (ON_THE_HOST if jax.default_backend() == "cpu" else ())
    return [found for name, alpha in classes for found in measure_class(name, alpha, "none", seeds, rounds)]


def measure_memories(rounds: int, seeds: int = 1) -> list[Measurement]:
    """Measure policies with memory."""
    return [
        found
        for memory in ("last", "recurrent")
        for found in measure_class("gridworld-slope", 1.0, memory, seeds, rounds)
    ]


def measure_class(class_name: str, alpha: float, memory: str, seeds: int, rounds: int) -> list[Measurement]:
    """Measure the phases of an epoch, and the whole epoch."""
    config = dataclasses.replace(preset("paper", class_name), alpha=alpha, memory=memory, seeds=seeds)
    environment_class = make(class_name)
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    rate = matmul_rate(config.hidden[0])
    stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)
    state = start_pretraining(environment_class, config)
    epochs, iterations = [], 0
    for epoch in range(rounds + 1):
        lap = stopwatch.lap()
        start = time.perf_counter()
        state, report, *_ = run_epoch(state, epoch, plan, config, stopwatch)
        iterations = int(report.iterations.max())
        if epoch > 0:
            epochs.append(lap() | {"epoch": time.perf_counter() - start})
    # The machine may have become slower. The floor takes the higher of the two rates.
    rate = max(rate, matmul_rate(config.hidden[0]))
    shape = policy_shape(environment_class)
    if shape.image is None:
        # The weights of the layers and of a GRU are stacked over seeds, so that they have three axes.
        weights = [leaf[0].size for leaf in jax.tree.leaves(state.learners.policy) if leaf.ndim == 3]
        row = 2.0 * sum(weights)
    else:
        row = VIEW_FLOPS
    rows = config.trajectories * config.horizon * config.seeds
    passes, formula = learning_passes(config, iterations)
    floors = {
        SAMPLING: (rows * row / rate, "one forward pass"),
        LEARNING: (passes * rows * row / rate, formula),
        "epoch": (passes * rows * row / rate, "that of learning"),
    }
    label = f"{class_name}, α = {alpha:g}" + ("" if memory == "none" else f", memory {memory}")
    return [
        Measurement(
            f"{label}: {phase}",
            Seconds.of([one[phase] for one in epochs]),
            *floors.get(phase, (None, "")),
        )
        for phase in (*stopwatch.phases, "epoch")
    ]


def learning_passes(config: PretrainConfig, iterations: int) -> tuple[float, str]:
    """Count the passes over all rows, and describe them.

    There is one forward pass before the first iteration. Each iteration has a forward pass over all rows, and a forward
    and a backward pass over the tail.
    """
    share = config.gradient_share if config.alpha == 1 else config.alpha
    tail = risk_tail_count(share, config.minibatches) / config.minibatches
    formula = f"{iterations} + 1 forward passes, {iterations} × 3 passes over {tail:g} of the rows"
    return iterations + 1 + iterations * 3 * tail, formula
