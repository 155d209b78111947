"""Measure how fine-tuning from Random depends on the untrained policy: `python -m benchmarks.random_start OUT.json`.

TRPO trains on the same 50 goals in GWN and GWS, from untrained policies of several kinds, with the paper's settings.
This takes three minutes on a large GPU. `results/README.md` has the results.
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

from alphamepol import Policy, TrpoConfig, make
from alphamepol.algorithms.finetuning.finetuner import find_finetuner
from alphamepol.algorithms.finetuning.iteration import Plan, run_finetuning_iteration, start_finetuning_iterations
from alphamepol.compute.keys import goal_key
from alphamepol.compute.stopwatch import LEARNING, SAMPLING, Stopwatch
from alphamepol.environments.member_tasks import random_goal_tasks
from alphamepol.estimation.statistics import mean_with_bootstrap_interval
from alphamepol.policies.shape import fresh_policy, policy_shape
from alphamepol.runs.description import describe_run
from alphamepol.runs.loop import LoopState
from alphamepol.settings.policy import PolicySettings

CLASS = make("gridworld-slope")
CONFIG = TrpoConfig(iterations=int(sys.argv[2]) if len(sys.argv) > 2 else 100)


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
        member: {name: mean_with_bootstrap_interval(final_returns(member, build())) for name, build in variants.items()}
        for member in ("GWN", "GWS")
    }
    described: dict[str, Any] = describe_run("benchmarks.random_start", CLASS.name, {"found": found})
    Path(sys.argv[1]).write_text(json.dumps(described, indent=2) + "\n")


def plan_of(member: str) -> Plan:
    goals = random_goal_tasks(CLASS[member], CONFIG.tasks, key=goal_key(CONFIG.seed), radius=CONFIG.goal_radius)
    return Plan(CLASS, member, goals, CONFIG, find_finetuner("trpo"))


def start(policies: list[Policy]) -> LoopState:
    return start_finetuning_iterations(policies, plan_of("GWN"))


def network(seed: int) -> Policy:
    key = jax.random.key(1000 + seed)
    return fresh_policy(policy_shape(CLASS), PolicySettings(CONFIG.hidden, CONFIG.initial_log_std), 0, key=key)


def stepping(state: LoopState) -> LoopState:
    """Mark every task as rewarded before, so that TRPO takes a step in every iteration."""
    return eqx.tree_at(lambda state: state.learners.rewarded, state, jnp.ones(CONFIG.tasks, bool))


def without_biases(state: LoopState) -> LoopState:
    def biases(state: LoopState) -> list[Any]:
        return [layer.bias for layer in state.learners.policy.layers]

    return eqx.tree_at(biases, state, [jnp.zeros_like(bias) for bias in biases(state)])


def final_returns(member: str, state: LoopState) -> np.ndarray:
    plan, stopwatch = plan_of(member), Stopwatch(SAMPLING, LEARNING)
    tasks, returns = plan.task_of_rows(), None
    for iteration in range(CONFIG.iterations):
        state, report = run_finetuning_iteration(state, iteration, plan, tasks, stopwatch)
        returns = report.mean_return
    return np.asarray(returns, float)


if __name__ == "__main__":
    main()
