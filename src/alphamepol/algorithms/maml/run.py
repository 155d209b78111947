"""MAML as a run."""

from functools import partial
from typing import Any

import jax

from alphamepol.algorithms.maml.config import MamlConfig
from alphamepol.algorithms.maml.iteration import run_meta_iteration, start_maml
from alphamepol.algorithms.records import check_finite, curves_of, final_numbers, seed_lines
from alphamepol.compute.mapping import take
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.figures.curves import draw_adaptation
from alphamepol.figures.tables import show_meta_iteration
from alphamepol.policies.files import save_policy
from alphamepol.runs.context import RunContext
from alphamepol.runs.loop import Loop, LoopState, run_loop


def run_maml(
    environment_class: EnvironmentClass, config: MamlConfig, drawing: Any, context: RunContext
) -> dict[str, Any]:
    """Train one policy per seed, save it, and return the numbers of the summary; `drawing` draws tasks, stacked over
    seeds."""
    folder, stopwatch = context.folder, context.stopwatch

    def step(state: LoopState, iteration: int):
        lap = stopwatch.lap()
        improved, report = run_meta_iteration(state, iteration, environment_class, drawing, config, stopwatch)
        report = jax.device_get(report)
        check_finite(report.finite, config, f"iteration {iteration}", "a lower --inner-rate")
        numbers = {
            "return_before": report.return_before,
            "return_after": report.return_after,
            "kl": report.stepped.kl,
            "improvement": report.stepped.improvement,
            "step": report.stepped.fraction,
        }
        return improved, seed_lines("iteration", iteration, config, numbers, lap()), dict

    loop = Loop(
        unit="iteration",
        total=config.iterations,
        checkpoint_every=config.checkpoint_every,
        start=partial(start_maml, environment_class, config),
        template=partial(start_maml, environment_class, config, look=False),
        step=step,
        show=show_meta_iteration,
        labels=("seed",),
    )
    state = run_loop(loop, context)
    context.progress.say("saving policies and drawing figures")
    for number, seed in enumerate(config.seed_list):
        save_policy(take(state.learners, number), folder.policy(seed))
    before, after = curves_of(folder, config, "return_before", "return_after")
    draw_adaptation(before, after, folder.figures)
    tries = 2 * config.iterations * config.tasks * config.trajectories * config.seeds
    return {
        "final": final_numbers({"return_before": before, "return_after": after, "gain": after - before}),
        **context.totals(tries * config.horizon),
        "return_before": before.tolist(),
        "return_after": after.tolist(),
    }
