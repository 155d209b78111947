"""One iteration of TRPO beside sb3_contrib's: `python -m benchmarks.finetune_iteration --help`.

The same registered environment, network, samples per iteration and settings, turn by turn in one run. Needs the
`sb3` extra, unless --alone.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from alphamepol import FinetuneConfig, Goal, make
from alphamepol.runs.folder import device_name
from alphamepol.runs.iteration import run_iteration, start_finetuning
from alphamepol.runs.stopwatch import COMPILATION, LEARNING, SAMPLING, Stopwatch
from alphamepol.tasks import stack_tasks
from benchmarks.pretrain_epoch import matmul_rate

GOAL = (-0.3, 0.7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1, help="tasks side by side (ours only)")
    parser.add_argument("--rounds", type=int, default=5, help="timed iterations of each, after one that warms up")
    parser.add_argument("--alone", action="store_true", help="without sb3_contrib")
    arguments = parser.parse_args()

    config = FinetuneConfig()
    stopwatch = Stopwatch(SAMPLING, LEARNING)
    contestants = {"alphamepol": ours(config, arguments.tasks, stopwatch)}
    if not arguments.alone:
        for environments in (1, config.trajectories):
            contestants[f"sb3_contrib, {environments} environments"] = theirs(config, environments)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    phases: dict[str, float] = {}
    for turn in range(arguments.rounds + 1):
        lap = stopwatch.lap()
        for name, iterate in contestants.items():
            start = time.perf_counter()
            iterate()
            if turn > 0:
                seconds[name].append(time.perf_counter() - start)
        phases = lap()

    medians = {name: statistics.median(values) for name, values in seconds.items()}
    rate = matmul_rate(config.hidden[0])
    sizes = [2, *config.hidden, 2]
    # Passes over all rows: to sample, to linearise (forward, and back for each of two outputs), one for the gradient,
    # two for each iteration of conjugate gradient, one to try the step.
    passes = 1 + 3 + 1 + 2 * config.conjugate_gradient_iterations + 1
    flops = passes * config.steps * arguments.tasks * 2 * sum(a * b for a, b in pairwise(sizes))
    print(
        json.dumps(
            {
                "device": device_name(),
                "tasks": arguments.tasks,
                "median_seconds": medians,
                "spread_seconds": {name: [min(values), max(values)] for name, values in seconds.items()},
                "times_slower_than_ours": {name: value / medians["alphamepol"] for name, value in medians.items()},
                "our_last_phases": phases,
                "our_compilation_seconds": stopwatch.seconds[COMPILATION],
                "matmul_gflops_per_second": rate / 1e9,
                "floor_seconds": flops / rate,
                "share_of_matmul_rate": flops / rate / medians["alphamepol"],
            },
            indent=2,
        )
    )


def ours(config: FinetuneConfig, tasks: int, stopwatch: Stopwatch) -> Callable[[], None]:
    """Iterations from a fresh policy."""
    environment_class = make("gridworld-slope")
    stacked = stack_tasks([Goal(GOAL)] * tasks)
    state = start_finetuning([], environment_class, "GWS", tasks, config)
    # A policy that has met no reward yet is spared the step; here every iteration is to have one.
    state = eqx.tree_at(lambda state: state.learners.rewarded, state, jnp.ones(tasks, bool))
    number = 0

    def iterate() -> None:
        nonlocal state, number
        state, _ = run_iteration(state, number, environment_class, "GWS", stacked, config, stopwatch)
        number += 1

    return iterate


def theirs(config: FinetuneConfig, environments: int) -> Callable[[], None]:
    """Iterations of sb3_contrib's TRPO, with this many environments in one process."""
    import torch
    from sb3_contrib import TRPO
    from stable_baselines3.common.env_util import make_vec_env

    warnings.filterwarnings("ignore", message="You have specified a mini-batch size", module="sb3_contrib")
    env = make_vec_env("alphamepol/GWS-Goal-v0", environments, env_kwargs={"goal": GOAL, "horizon": config.horizon})
    settings: dict[str, Any] = {
        "n_steps": config.steps // environments,
        "batch_size": config.critic_batch,
        "gamma": config.discount,
        "gae_lambda": config.gae_lambda,
        "cg_max_steps": config.conjugate_gradient_iterations,
        "cg_damping": config.damping,
        "line_search_shrinking_factor": 0.5,
        "line_search_max_iter": config.line_search_tries,
        "n_critic_updates": config.critic_passes,
        "target_kl": config.max_kl,
        "learning_rate": config.critic_learning_rate,
    }
    network = {
        "net_arch": {"pi": list(config.hidden), "vf": list(config.critic_hidden)},
        "activation_fn": torch.nn.ReLU,
        "log_std_init": config.initial_log_std,
    }
    model = TRPO("MlpPolicy", env, policy_kwargs=network, device="cpu", **settings)
    return lambda: model.learn(config.steps, reset_num_timesteps=False) and None


if __name__ == "__main__":
    main()
