"""Measurements that are not training: the exploration of untrained policies, and the variance of gradients.

Each measurement writes a run folder.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.start import untrained_start_policies
from alphamepol.algorithms.alphamepol.update import on_policy_gradient
from alphamepol.compute.devices import device_name, wait_for_devices
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.mapping import map_leading_axis
from alphamepol.compute.stopwatch import EVALUATION, Stopwatch
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.errors import InputError
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.files.atomic import write_atomically
from alphamepol.files.json_files import to_json
from alphamepol.measuring.evaluation_files import save_evaluation
from alphamepol.measuring.exploration import measure_exploration
from alphamepol.measuring.particles import units_of_particles
from alphamepol.measuring.samples import SamplePlan, draw_sample_members
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.reproduction.store import checkpoints_not_in_stored_run
from alphamepol.runs.description import describe_run
from alphamepol.runs.folder import RunFolder, SavedCheckpoint
from alphamepol.runs.progress import track_progress
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.settings.conversion import settings_to_dict


def untrained_measurement(class_name: str, config: PretrainConfig, folder: Path) -> None:
    """Evaluate untrained policies with these settings, not regressed to an initial mean."""
    environment_class, stopwatch, run = make_class(class_name, config.probabilities), Stopwatch(), RunFolder(folder)
    description = _describe_measurement("untrained", environment_class, config)
    with run.claim(description, resume=True):
        with stopwatch.phase(EVALUATION):
            policies = untrained_start_policies(environment_class, config)
            track = partial(track_progress, description=f"untrained policies in {class_name}")
            with jax.default_matmul_precision(config.matmul_precision):
                evaluation = measure_exploration(
                    policies,
                    environment_class,
                    config,
                    alpha=config.alpha,
                    batches=config.evaluation_batches,
                    units=units_of_particles(policies[config.seed]),
                    track=track,
                )
        save_evaluation(evaluation, run.evaluation)
        numbers = {"method": "random", "label": "Random", **evaluation.to_dict()}
        _finish_measurement(run, numbers, stopwatch)


def gradient_variance_measurement(
    init: Path, class_name: str, config: PretrainConfig, batches: int, folder: Path, checkpoints: Sequence[int] = ()
) -> None:
    """Sample many batches with policies of the run `init`, and compare the gradients (E8') and (E9) of each batch.

    The policies are the final ones or, if `checkpoints` are given, those after these numbers of epochs. Raises an
    `InputError` if the run has not kept one of these checkpoints.

    In the summary, `variance_with_baseline` and `variance_without` are the variance of the gradient from batch to
    batch, summed over all parameters. `action_mean_variance_…` is the sum over the parameters of the policy's mean,
    which are all but ln σ. `squared_mean_…` is the squared length of the mean gradient. Each has a number for every
    seed, or a list for every seed with a number for every checkpoint.
    """
    environment_class, stopwatch, run = make_class(class_name, config.probabilities), Stopwatch(), RunFolder(folder)
    description = {
        **_describe_measurement("gradient-variance", environment_class, config),
        "init": str(init),
        "batches": batches,
        **({"checkpoints": list(checkpoints)} if checkpoints else {}),
    }
    policies = _policies_for_measurement(init, checkpoints)
    seeds = list(policies[0])
    plan = SamplePlan.of(environment_class, config, seeds)
    with run.claim(description, resume=True):
        measured: list[dict[str, np.ndarray]] = []
        with stopwatch.phase(EVALUATION), jax.default_matmul_precision(config.matmul_precision):
            for number, by_seed in enumerate(policies):
                stacked = stack_policies(list(by_seed.values()))
                # Other policies meet other batches, so that their numbers do not share the luck of sampling.
                drawn = range(number * batches, (number + 1) * batches)
                title = f"gradients after epoch {checkpoints[number]}" if checkpoints else "gradients of batches"
                gradients = _gradients_of_batches(stacked, plan, config, track_progress(drawn, title))
                measured.append(_variances_for_measurement(gradients, parameters_of_action_mean(by_seed[seeds[0]])))
        numbers: dict[str, Any] = {"method": config.method, "class": class_name, "seeds": seeds, "batches": batches}
        for name in measured[0]:
            values = np.stack([one[name] for one in measured], axis=1)
            numbers[name] = (values if checkpoints else values[:, 0]).tolist()
        if checkpoints:
            numbers["checkpoints"] = list(checkpoints)
        _finish_measurement(run, numbers, stopwatch)


def _policies_for_measurement(init: Path, checkpoints: Sequence[int]) -> list[dict[int, Policy]]:
    """Return the policies of a run by seed: those of every checkpoint, or once the final ones."""
    run = RunFolder(init)
    if not checkpoints:
        return [run.load_policies()]
    if missing := checkpoints_not_in_stored_run(init, checkpoints):
        epochs = ", ".join(map(str, missing))
        raise InputError(
            f"run: {init} has not kept its checkpoints after epoch {epochs}, and their policies are to be measured; "
            "do the run again in another --folder, which keeps all checkpoints"
        )
    return [run.load_policies(SavedCheckpoint("epoch", number)) for number in checkpoints]


def _gradients_of_batches(
    policies: Policy, plan: SamplePlan, config: PretrainConfig, batches: Iterable[int]
) -> dict[bool, Float[np.ndarray, "batches seeds parameters"]]:
    """Return the gradient of every batch with the baseline (True), and the gradient without it (False)."""
    keys = split_keys_by_purpose(seed_keys(plan.seeds)).evaluation
    tail_size = risk_tail_count(config.alpha, config.minibatches)
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for batch in batches:
        members, batch_keys = draw_sample_members(keys, batch, plan.environment_class.probabilities, config.minibatches)
        trajectories = plan.collect(policies, members, f"batch {batch}", keys=batch_keys)
        measured = plan.measure(trajectories, units_of_particles(policies), f"batch {batch}", keys=batch_keys)
        neighbourhood = measured.neighbourhood
        for baseline, gradients in found.items():
            gradient = _gradients_for_measurement(policies, trajectories, neighbourhood, tail_size, baseline)
            gradients.append(np.asarray(wait_for_devices(gradient)))
    return {baseline: np.stack(gradients) for baseline, gradients in found.items()}


def _variances_for_measurement(
    gradients: Mapping[bool, Float[np.ndarray, "batches seeds parameters"]],
    of_action_mean: Bool[np.ndarray, " parameters"],
) -> dict[str, Float[np.ndarray, " seeds"]]:
    """Return the numbers of the summary for one set of policies."""
    numbers = {}
    for baseline, values in gradients.items():
        name = "with_baseline" if baseline else "without"
        variances = values.var(axis=0, ddof=1, dtype=float)
        numbers[f"variance_{name}"] = variances.sum(axis=-1)
        numbers[f"action_mean_variance_{name}"] = variances[:, of_action_mean].sum(axis=-1)
        numbers[f"squared_mean_{name}"] = (values.mean(axis=0, dtype=float) ** 2).sum(axis=-1)
    return numbers


def parameters_of_action_mean(policy: Policy) -> Bool[np.ndarray, " parameters"]:
    """Return True for the parameters of a policy's mean, in the order of `ravel_pytree`: for all but ln σ."""
    marked = jax.tree.map(jnp.ones_like, policy)
    if isinstance(policy, GaussianPolicy):
        marked = eqx.tree_at(lambda one: one.log_std, marked, jnp.zeros_like(policy.log_std))
    return np.asarray(ravel_pytree(marked)[0]) > 0


@partial(jax.jit, static_argnums=(3, 4))
def _gradients_for_measurement(
    policies: Policy, trajectories: Trajectories, neighbourhood: Neighbourhood, tail_size: int, baseline: bool
) -> Float[Array, "seeds parameters"]:
    def one_seed(
        policy: Policy, trajectories: Trajectories, neighbourhood: Neighbourhood
    ) -> Float[Array, " parameters"]:
        entropies = jax.vmap(particle_entropy)(neighbourhood)
        gradient = on_policy_gradient(policy, trajectories, entropies, tail_size=tail_size, baseline=baseline)
        return jnp.asarray(ravel_pytree(gradient)[0])

    return map_leading_axis(one_seed)(policies, trajectories, neighbourhood)


def _describe_measurement(command: str, environment_class: AnyClass, config: PretrainConfig) -> dict[str, Any]:
    parts = {"members_sha256": environment_class.fingerprint, "config": settings_to_dict(config)}
    return describe_run(command, environment_class.name, parts)


def _finish_measurement(run: RunFolder, numbers: dict[str, Any], stopwatch: Stopwatch) -> None:
    # The summary is written last: a run with a summary is complete.
    write_atomically(run.summary, to_json({**numbers, "seconds": stopwatch.so_far(), "device": device_name()}))
