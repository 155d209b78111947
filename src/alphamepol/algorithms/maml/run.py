"""The run of MAML: its loop over iterations, its files and its summary."""

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
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.figures.curves import draw_adaptation_curves
from alphamepol.figures.tables import meta_iteration_table
from alphamepol.policies.files import save_policy
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

    loop = Loop(
        unit="iteration",
        total=config.iterations,
        checkpoint_every=config.checkpoint_every,
        start=partial(start_maml_iterations, environment_class, config),
        template=partial(start_maml_iterations, environment_class, config, look=False),
        step=step,
        show=meta_iteration_table,
        labels=("seed",),
    )
    state = run_loop(loop, context)
    context.progress.say("saving policies and drawing figures")
    for number, seed in enumerate(config.seed_list):
        save_policy(take_from_trees(state.learners, number), folder.policy(seed))
    before, after = metatraining_record_curves(folder, config, "return_before", "return_after")
    draw_adaptation_curves(before, after, folder.figures)
    tries = 2 * config.iterations * config.tasks * config.trajectories * config.seeds
    return {
        "final": final_metatraining_records({"return_before": before, "return_after": after, "gain": after - before}),
        **context.totals(tries * config.horizon),
        "return_before": before.tolist(),
        "return_after": after.tolist(),
    }
