"""Train a specialist on each of the first unseen members: `python -m benchmarks.unseen.specialists FOLDER OUT.json`.

A specialist is MEPOL without memory in a single member. All specialists are trained in one program, as if they were the
seeds of a run. The seed with the number i acts in "unseen i" only.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

import alphamepol as am
from alphamepol.algorithms.alphamepol.epoch import check_epoch_learned, improve_all_seeds
from alphamepol.algorithms.alphamepol.start import start_pretraining, untrained_start_policies
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.measuring.sample_checks import CoincidenceError
from alphamepol.measuring.samples import SamplePlan, draw_sample_members
from alphamepol.policies.policy import unstack_policies
from alphamepol.runs.checkpoints import load_newest_checkpoint, save_checkpoint
from alphamepol.runs.loop import LoopState
from benchmarks.unseen.entries import describe_command, keep_entry
from benchmarks.unseen.measuring import (
    FIRST,
    interval_over_seeds,
    measure_together,
    rounded,
    score_of_members,
    uniform_entropies,
)
from benchmarks.unseen.settings import TrainingOptions, specialists_config, specialists_name


@dataclass(frozen=True)
class Options(TrainingOptions):
    """The settings of the specialists."""

    classes: tuple[str, ...] = ("generated-rooms", "generated-mazes")
    """The generated classes."""
    seeds: int = FIRST
    """The number of specialists."""
    batches: int = 8
    """The number of mini-batches in which each specialist is measured."""


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    options: Annotated[Options, tyro.conf.arg(name="")],
) -> None:
    """Train specialists, and measure each one in its own member.

    Args:
        folder: the folder of the runs. Those that are there are continued.
        out: the JSON file of the entries. Other entries stay in it.
        options: the settings.
    """
    for class_name in options.classes:
        config = specialists_config(class_name, options.seeds, options)
        name = specialists_name(class_name, config)
        members = unseen_members(class_name, config.seeds)
        specialists = train_specialists(members, config, folder / name)
        entry: dict[str, Any] = {"class": class_name, "specialists": config.seeds, "epochs": config.epochs}
        entry |= {"batches": options.batches, **measure_specialists(specialists, members, config, options.batches)}
        keep_entry(out, name, entry | {"run": describe_command("benchmarks.unseen.specialists", config, folder, out)})
        print(name, entry["score"], flush=True)


def unseen_members(class_name: str, count: int) -> EnvironmentClass:
    """Return a class that lists the first unseen members of a generated class."""
    members = class_of_shown_members(am.make(class_name), f"unseen:{count}")
    assert isinstance(members, EnvironmentClass)
    return members


def train_specialists(
    members: EnvironmentClass, config: am.PretrainConfig, folder: Path, checkpoint_every: int = 50
) -> dict[int, am.Policy]:
    """Train the policy of each seed in the member with its number. Finished epochs in the folder are not repeated."""

    def template() -> tuple[Any, jax.Array]:
        state = start_pretraining(members, config, look=False)
        return state.learners, jax.random.key_data(state.keys)

    state, done = start_pretraining(members, config), 0
    learners, keys = eqx.filter_eval_shape(template)
    found, _ = load_newest_checkpoint(folder, "epoch", learners, keys.shape)
    if found is not None:
        state, done = LoopState(found[0], state.keys), found[1]["epoch"]
    plan, names = SamplePlan.of(members, config, config.seed_list), [f"seed-{seed}" for seed in config.seed_list]
    notes = {"keys": jax.random.key_data(state.keys).tolist(), "seconds": {"total": 0.0}}
    notes["metrics"] = {"bytes": 0, "sha256": ""}
    for epoch in range(done, config.epochs):
        state, plan = specialists_epoch(state, epoch, plan, config)
        if (epoch + 1) % checkpoint_every == 0 or epoch + 1 == config.epochs:
            policies = unstack_policies(state.learners.policy, names)
            save_checkpoint(folder, "epoch", epoch + 1, state.learners, notes, policies)
    policies = unstack_policies(state.learners.policy, names)
    return jax.device_put({seed: policies[f"seed-{seed}"] for seed in config.seed_list})


def specialists_epoch(
    state: LoopState, epoch: int, plan: SamplePlan, config: am.PretrainConfig
) -> tuple[LoopState, SamplePlan]:
    """Improve every seed's policy by an epoch in its own member: `run_epoch` without the draw of members."""
    when, distribution = f"epoch {epoch}", plan.environment_class.distribution
    _, keys = draw_sample_members(state.keys, epoch, distribution, config.minibatches)
    own = jnp.asarray(np.repeat(np.arange(config.seeds)[:, None], config.minibatches, axis=1), jnp.int32)
    trajectories = plan.collect(state.learners.policy, own, when, keys=keys)
    try:
        neighbourhood = plan.measure(trajectories, None, when, keys=keys).neighbourhood
    except CoincidenceError:
        plan = plan.with_noise()
        neighbourhood = plan.measure(trajectories, None, when, keys=keys).neighbourhood
    learners, report = improve_all_seeds(state.learners, trajectories, neighbourhood, config, keys=keys)
    check_epoch_learned(learners, report, config.seed_list, when)
    return LoopState(learners, state.keys), plan


def measure_specialists(
    specialists: dict[int, am.Policy], members: EnvironmentClass, config: am.PretrainConfig, batches: int
) -> dict[str, Any]:
    """Return the score of each specialist in its own member, with an interval over members."""
    own = np.arange(config.seeds)[:, None]
    measured = measure_together({"ours": specialists}, members, config, batches, own)["ours"].entropies[:, 0]
    untrained = untrained_start_policies(members, dataclasses.replace(config, seeds=5))
    random = measure_together({"random": untrained}, members, config, 2)["random"].entropies.mean(axis=0)
    uniform = uniform_entropies(members, config)
    scores = score_of_members(measured, random, uniform)
    return {
        "entropy": interval_over_seeds(measured),
        "random": float(random.mean()),
        "uniform": float(uniform.mean()),
        "score": interval_over_seeds(scores),
        "scores": rounded(scores),
    }


if __name__ == "__main__":
    tyro.cli(main)
