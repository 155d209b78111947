"""One epoch of pre-training against the machine's floor: `python -m benchmarks.pretrain_epoch --help`.

Everything is measured in one run, so that ratios mean something on a noisy machine.
"""

import argparse
import dataclasses
import json
import resource
import statistics
import time

import jax
import jax.numpy as jnp

from alphamepol import make, preset
from alphamepol.estimation.risk import tail_count
from alphamepol.runs.epoch import run_epoch, start_state
from alphamepol.runs.folder import device_name
from alphamepol.runs.particles import find_encoder
from alphamepol.runs.stopwatch import COMPILATION, LEARNING, NEIGHBOURS, SAMPLING, Stopwatch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--class", dest="class_name", default="gridworld-slope")
    parser.add_argument("--alpha", type=float, default=0.2)
    parser.add_argument("--memory", choices=("none", "last", "recurrent"), default="none")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5, help="timed epochs, after one that compiles")
    arguments = parser.parse_args()

    chosen = {"alpha": arguments.alpha, "memory": arguments.memory, "seeds": arguments.seeds}
    config = dataclasses.replace(preset("paper", arguments.class_name), **chosen)
    environment_class = make(arguments.class_name)
    encoder = find_encoder(environment_class, config)
    rate = matmul_rate(config.hidden[0])
    stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)
    state = start_state(environment_class, config)
    epochs, iterations = [], 0
    for epoch in range(arguments.epochs + 1):
        lap = stopwatch.lap()
        start = time.perf_counter()
        state, report, _ = run_epoch(state, epoch, environment_class, config, encoder, stopwatch)
        iterations = int(report.iterations.max())
        if epoch > 0:
            epochs.append(lap() | {"epoch": time.perf_counter() - start})

    # Forward passes over all samples (one per iteration and one before), forward and backward over the tail.
    # Weights, of the layers and of a GRU, are stacked over seeds.
    weights = [leaf for leaf in jax.tree.leaves(state.learners.policy) if leaf.ndim == 3]
    flops_per_row = 2 * sum(leaf[0].size for leaf in weights)
    rows = config.trajectories * config.horizon * config.seeds
    tail = tail_count(config.alpha, config.minibatches) / config.minibatches
    flops = rows * flops_per_row * (iterations + 1 + iterations * 3 * tail)
    medians = {name: statistics.median(epoch[name] for epoch in epochs) for name in (*stopwatch.phases, "epoch")}
    print(
        json.dumps(
            {
                "device": device_name(),
                "class": arguments.class_name,
                "alpha": config.alpha,
                "memory": config.memory,
                "seeds": config.seeds,
                "median_seconds": medians,
                "slowest_epoch_seconds": max(epoch["epoch"] for epoch in epochs),
                "compilation_seconds": stopwatch.seconds[COMPILATION],
                "matmul_gflops_per_second": rate / 1e9,
                "learning_floor_seconds": flops / rate,
                "learning_share_of_matmul_rate": flops / rate / medians["learning"],
                "peak_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            },
            indent=2,
        )
    )


def matmul_rate(width: int, products: int = 200) -> float:
    """FLOPs per second of products in the shape of the hidden layer, at their best of five."""
    rows = 1600 if jax.default_backend() == "cpu" else 400_000
    weights = jax.random.normal(jax.random.key(0), (width, width)) / width**0.5
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, products, lambda _, x: weights @ x, x))
    x = jax.block_until_ready(chain(jnp.ones((width, rows))))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(chain(x))
        seconds.append(time.perf_counter() - start)
    return 2 * products * rows * width**2 / min(seconds)


if __name__ == "__main__":
    main()
