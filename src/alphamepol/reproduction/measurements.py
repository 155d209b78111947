"""Measurements that are not training: the exploration of untrained policies, and the variance of gradients.

Each measurement writes a run folder.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.start import untrained_start_policies
from alphamepol.algorithms.alphamepol.update import on_policy_gradient
from alphamepol.compute.devices import device_name, wait_for_devices
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.mapping import map_leading_axis
from alphamepol.compute.stopwatch import EVALUATION, Stopwatch
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
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
from alphamepol.runs.description import describe_run
from alphamepol.runs.folder import RunFolder
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
    init: Path, class_name: str, config: PretrainConfig, batches: int, folder: Path
) -> None:
    """Sample many batches with the final policies of a run, and compare the gradients (E8') and (E9) of each batch.

    In the summary, `variance_with_baseline` and `variance_without` are per seed. Each is the variance of the gradient
    from batch to batch, summed over all parameters. `squared_mean_…` is the squared length of the mean gradient.
    """
    environment_class, stopwatch, run = make_class(class_name, config.probabilities), Stopwatch(), RunFolder(folder)
    description = {
        **_describe_measurement("gradient-variance", environment_class, config),
        "init": str(init),
        "batches": batches,
    }
    with run.claim(description, resume=True):
        policies = RunFolder(init).load_policies()
        stacked = stack_policies(list(policies.values()))
        plan = SamplePlan.of(environment_class, config, list(policies))
        keys = split_keys_by_purpose(seed_keys(list(policies))).evaluation
        found: dict[bool, list[np.ndarray]] = {True: [], False: []}
        tail_size = risk_tail_count(config.alpha, config.minibatches)
        with stopwatch.phase(EVALUATION), jax.default_matmul_precision(config.matmul_precision):
            for batch in track_progress(range(batches), "gradients of batches"):
                members, batch_keys = draw_sample_members(
                    keys, batch, environment_class.probabilities, config.minibatches
                )
                trajectories = plan.collect(stacked, members, f"batch {batch}", keys=batch_keys)
                measured = plan.measure(trajectories, units_of_particles(stacked), f"batch {batch}", keys=batch_keys)
                neighbourhood = measured.neighbourhood
                for baseline, gradients in found.items():
                    gradients.append(
                        np.asarray(
                            wait_for_devices(
                                _gradients_for_measurement(stacked, trajectories, neighbourhood, tail_size, baseline)
                            )
                        )
                    )
        numbers: dict[str, Any] = {
            "method": config.method,
            "class": class_name,
            "seeds": list(policies),
            "batches": batches,
        }
        for baseline, gradients in found.items():
            values = np.stack(gradients).astype(float)
            name = "with_baseline" if baseline else "without"
            numbers[f"variance_{name}"] = values.var(axis=0, ddof=1).sum(axis=-1).tolist()
            numbers[f"squared_mean_{name}"] = (values.mean(axis=0) ** 2).sum(axis=-1).tolist()
        _finish_measurement(run, numbers, stopwatch)


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
