"""Compare one iteration of our TRPO with one of sb3_contrib: same environment, network, samples and settings."""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from alphamepol import Goal, TrpoConfig, make
from alphamepol.algorithms.finetuning.finetuner import find_finetuner
from alphamepol.algorithms.finetuning.iteration import Plan, run_finetuning_iteration, start_finetuning_iterations
from alphamepol.compute.stopwatch import LEARNING, SAMPLING, Stopwatch
from benchmarks.measuring import Measurement, matmul_rate, network_flops, turn_by_turn

GOAL = (-0.3, 0.7)


def measure(rounds: int) -> list[Measurement]:
    """Measure one task on a CPU, or fifty tasks on an accelerator.

    On a CPU, sb3_contrib is measured too: with one environment, its default, and with as many environments as ours.
    """
    config = TrpoConfig()
    on_cpu = jax.default_backend() == "cpu"
    tasks = 1 if on_cpu else 50
    contestants = {"ours": iterations_of_ours(config, tasks)}
    if on_cpu:
        for environments in (1, config.trajectories):
            several = f"{environments} environment{'s' if environments > 1 else ''}"
            contestants[f"sb3_contrib, {several}"] = iterations_of_theirs(config, environments)
    rate = matmul_rate(config.hidden[0])
    seconds = turn_by_turn(rounds, **contestants)
    rate = max(rate, matmul_rate(config.hidden[0]))
    # One pass to sample, three to linearise (forward, and backward for each of two outputs), one for the gradient, two
    # for each iteration of conjugate gradient, and one to try the step.
    passes = 1 + 3 + 1 + 2 * config.conjugate_gradient_iterations + 1
    floor = passes * config.steps * tasks * network_flops([2, *config.hidden, 2]) / rate
    name = f"TRPO, an iteration of {tasks} gridworld task{'s' if tasks > 1 else ''}"
    peers = {name: found for name, found in seconds.items() if name != "ours"}
    return [Measurement(name, seconds["ours"], floor, f"{passes} passes over {config.steps} rows a task", peers)]


def iterations_of_ours(config: TrpoConfig, tasks: int) -> Callable[[], None]:
    """Return a function that does the next iteration, beginning with a fresh policy."""
    plan = Plan(make("gridworld-slope"), "GWS", [Goal(GOAL)] * tasks, config, find_finetuner("trpo"))
    stacked = plan.task_of_rows()
    state = start_finetuning_iterations([], plan)
    # TRPO skips the step until a task has given a reward. Here every iteration must take the step.
    state = eqx.tree_at(lambda state: state.learners.rewarded, state, jnp.ones(tasks, bool))
    number = 0

    def iterate() -> None:
        nonlocal state, number
        state, _ = run_finetuning_iteration(state, number, plan, stacked, Stopwatch(SAMPLING, LEARNING))
        number += 1

    return iterate


def iterations_of_theirs(config: TrpoConfig, environments: int) -> Callable[[], None]:
    """Return a function that does the next iteration of sb3_contrib's TRPO, with all environments in one process."""
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
