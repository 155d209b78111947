"""What fine-tuning from Random depends on: `python -m benchmarks.random_start OUT.json`.

TRPO on the same 50 goals in GWN and GWS from untrained policies of several kinds, at the paper's settings; three
minutes on a large GPU. `results/README.md` shows what came out.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol import FinetuneConfig, Policy, make
from alphamepol.policies import PolicySettings, fresh_policy
from alphamepol.runs.checks import policy_shape
from alphamepol.runs.finetune import mean_with_interval
from alphamepol.runs.folder import describe
from alphamepol.runs.iteration import run_iteration, start_finetuning
from alphamepol.runs.loop import LoopState
from alphamepol.runs.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.seeds import goal_key
from alphamepol.tasks import random_goals, stack_tasks

CLASS = make("gridworld-slope")
CONFIG = FinetuneConfig(iterations=int(sys.argv[2]) if len(sys.argv) > 2 else 100)


def main() -> None:
    variants: dict[str, Callable[[], LoopState]] = {
        "a network for each goal": partial(start, []),
        "and steps before the first reward": lambda: stepping(start([])),
        "and biases of zero": lambda: without_biases(start([])),
        "and both": lambda: stepping(without_biases(start([]))),
    }
    for seed in range(5):
        variants[f"one network for all goals, seed {seed}"] = partial(start, [network(seed)])
    found = {
        member: {name: mean_with_interval(final_returns(member, build())) for name, build in variants.items()}
        for member in ("GWN", "GWS")
    }
    described: dict[str, Any] = describe("benchmarks.random_start", found=found)
    Path(sys.argv[1]).write_text(json.dumps(described, indent=2) + "\n")


def start(policies: list[Policy]) -> LoopState:
    return start_finetuning(policies, CLASS, "GWN", CONFIG.tasks, CONFIG)


def network(seed: int) -> Policy:
    key = jax.random.key(1000 + seed)
    return fresh_policy(policy_shape(CLASS), PolicySettings(CONFIG.hidden, CONFIG.initial_log_std), key=key)


def stepping(state: LoopState) -> LoopState:
    """As if every task had met a reward before."""
    return eqx.tree_at(lambda state: state.learners.rewarded, state, jnp.ones(CONFIG.tasks, bool))


def without_biases(state: LoopState) -> LoopState:
    def biases(state: LoopState) -> list[Any]:
        return [layer.bias for layer in state.learners.policy.layers]

    return eqx.tree_at(biases, state, [jnp.zeros_like(bias) for bias in biases(state)])


def final_returns(member: str, state: LoopState) -> np.ndarray:
    goals = random_goals(CLASS[member], CONFIG.tasks, key=goal_key(CONFIG.seed), radius=CONFIG.goal_radius)
    tasks, stopwatch = stack_tasks(goals), Stopwatch(SAMPLING, LEARNING)
    returns = None
    for iteration in range(CONFIG.iterations):
        state, report = run_iteration(state, iteration, CLASS, member, tasks, CONFIG, stopwatch)
        returns = report.mean_return
    return np.asarray(returns, float)


if __name__ == "__main__":
    main()
