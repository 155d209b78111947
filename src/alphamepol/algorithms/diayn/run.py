"""The run of DIAYN: its loop over epochs, its files and its summary."""

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np

from alphamepol.algorithms.diayn.config import DiaynConfig
from alphamepol.algorithms.diayn.discriminators import save_discriminator
from alphamepol.algorithms.diayn.epoch import (
    run_diayn_epoch,
    sac_settings_of_diayn_epoch,
    start_diayn_epochs,
    world_of_diayn_epoch,
)
from alphamepol.algorithms.diayn.skills import diayn_skill_trails, policy_of_diayn_skill
from alphamepol.algorithms.metatraining_records import (
    check_metatraining_records,
    final_metatraining_records,
    metatraining_record_curves,
    metatraining_record_lines,
)
from alphamepol.compute.keys import split_keys_by_purpose
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.figures.curves import draw_discriminability_curve
from alphamepol.figures.skills import draw_skill_trails
from alphamepol.figures.tables import diayn_epoch_table
from alphamepol.policies.files import save_policy
from alphamepol.policies.policy import Policy, unstack_policies
from alphamepol.runs.context import RunContext
from alphamepol.runs.loop import Loop, LoopState, run_loop


def run_diayn(environment_class: EnvironmentClass, config: DiaynConfig, context: RunContext) -> dict[str, Any]:
    """Learn one set of skills per seed, save policies and discriminators, and return the numbers of the summary."""
    folder, stopwatch = context.folder, context.stopwatch
    world, settings = (
        world_of_diayn_epoch(environment_class, config),
        sac_settings_of_diayn_epoch(environment_class, config),
    )

    def step(state: LoopState, epoch: int):
        lap = stopwatch.lap()
        improved, report = run_diayn_epoch(state, epoch, world, settings, config, stopwatch)
        report = jax.device_get(report)
        numbers = {
            "discriminability": report.discriminability,
            "reward": report.sac.reward,
            "action_entropy": report.sac.entropy,
            "temperature": report.sac.temperature,
            "critic_loss": report.sac.critic_loss,
        }
        finite = np.all([np.isfinite(values) for values in numbers.values()], axis=0)
        check_metatraining_records(finite, config, f"epoch {epoch}", "a lower --learning-rate")
        return improved, metatraining_record_lines("epoch", epoch, config, numbers, lap()), dict

    loop = Loop(
        unit="epoch",
        total=config.epochs,
        checkpoint_every=10 * config.checkpoint_every,
        keep_checkpoints=config.keep_checkpoints,
        start=partial(start_diayn_epochs, environment_class, config),
        template=partial(start_diayn_epochs, environment_class, config),
        step=step,
        policies=partial(_policies_of_diayn_run, config),
        show=diayn_epoch_table,
        labels=("seed",),
        charted=("discriminability",),
        summarised={"discriminability": float},
    )
    state, epochs = run_loop(loop, context)
    config = dataclasses.replace(config, epochs=epochs)
    context.progress.say("saving policies and drawing figures")
    for number, seed in enumerate(config.seed_list):
        discriminator = take_from_trees(state.learners.state.networks.discriminator, number)
        save_discriminator(discriminator, folder.discriminator(seed))
    named = _policies_of_diayn_run(config, state)
    for name, policy in named.items():
        save_policy(policy, folder.policies / f"{name}.safetensors")
        context.interrupts.check()
    (values,) = metatraining_record_curves(folder, config, "discriminability")
    draw_discriminability_curve(values, config.skills, folder.figures)
    key = split_keys_by_purpose(state.keys).evaluation[0]
    of_first = [named[f"seed-{config.seed}-skill-{skill}"] for skill in range(config.skills)]
    trails = diayn_skill_trails(of_first, environment_class, config.horizon, key=key)
    draw_skill_trails(trails, environment_class, folder.figures)
    return {
        "final": final_metatraining_records({"discriminability": values}),
        **context.totals(config.epochs * config.steps * config.seeds),
        "skills": config.skills,
        "discriminability": values.tolist(),
    }


def _policies_of_diayn_run(config: DiaynConfig, state: LoopState) -> dict[str, Policy]:
    """Return the policy of every skill and seed: the first skill of all seeds, then the second, and so on."""
    actors = unstack_policies(state.learners.state.networks.actor, [f"seed-{seed}" for seed in config.seed_list])
    return {
        f"{name}-skill-{skill}": policy_of_diayn_skill(actor, skill, config.skills)
        for skill in range(config.skills)
        for name, actor in actors.items()
    }
