"""The run of MAML: its loop over iterations, its files and its summary."""

import dataclasses
from functools import partial
from typing import Any

import jax

from alphamepol.algorithms.maml.config import MamlConfig
from alphamepol.algorithms.maml.iteration import run_maml_iteration, start_maml_iterations
from alphamepol.algorithms.metatraining_records import (
    check_metatraining_records,
    final_metatraining_records,
    metatraining_record_curves,
    metatraining_record_lines,
)
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.figures.curves import draw_adaptation_curves
from alphamepol.figures.tables import meta_iteration_table
from alphamepol.policies.files import save_policy
from alphamepol.policies.policy import Policy, unstack_policies
from alphamepol.runs.context import RunContext
from alphamepol.runs.loop import Loop, LoopState, run_loop


def run_maml(
    environment_class: EnvironmentClass, config: MamlConfig, drawing: Any, context: RunContext
) -> dict[str, Any]:
    """Train one policy per seed, save the policies, and return the numbers of the summary.

    `drawing` is the callable that draws tasks, stacked over seeds.
    """
    folder, stopwatch = context.folder, context.stopwatch

    def step(state: LoopState, iteration: int):
        lap = stopwatch.lap()
        improved, report = run_maml_iteration(state, iteration, environment_class, drawing, config, stopwatch)
        report = jax.device_get(report)
        check_metatraining_records(report.finite, config, f"iteration {iteration}", "a lower --inner-rate")
        numbers = {
            "return_before": report.return_before,
            "return_after": report.return_after,
            "kl": report.stepped.kl,
            "improvement": report.stepped.improvement,
            "step": report.stepped.fraction,
        }
        return improved, metatraining_record_lines("iteration", iteration, config, numbers, lap()), dict

    def policies_of(state: LoopState) -> dict[str, Policy]:
        return unstack_policies(state.learners, [f"seed-{seed}" for seed in config.seed_list])

    loop = Loop(
        unit="iteration",
        total=config.iterations,
        checkpoint_every=config.checkpoint_every,
        keep_checkpoints=config.keep_checkpoints,
        start=partial(start_maml_iterations, environment_class, config),
        template=partial(start_maml_iterations, environment_class, config, look=False),
        step=step,
        policies=policies_of,
        show=meta_iteration_table,
        labels=("seed",),
        charted=("return_before", "return_after"),
        summarised={"return_before": float, "return_after": float},
    )
    state, iterations = run_loop(loop, context)
    config = dataclasses.replace(config, iterations=iterations)
    context.progress.say("saving policies and drawing figures")
    for name, policy in policies_of(state).items():
        save_policy(policy, folder.policies / f"{name}.safetensors")
    before, after = metatraining_record_curves(folder, config, "return_before", "return_after")
    draw_adaptation_curves(before, after, folder.figures)
    tries = 2 * config.iterations * config.tasks * config.trajectories * config.seeds
    return {
        "final": final_metatraining_records({"return_before": before, "return_after": after, "gain": after - before}),
        **context.totals(tries * config.horizon),
        "return_before": before.tolist(),
        "return_after": after.tolist(),
    }
