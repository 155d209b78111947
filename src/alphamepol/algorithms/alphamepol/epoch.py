"""One epoch of pre-training for all seeds: draw members, collect trajectories, find neighbours, improve the policies.

Policies, learners, trajectories and keys have a leading axis over the seeds. `map_leading_axis` maps the update of one
seed over this axis; its keyword arguments are the same for all seeds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.update import (
    MAX_TRIES,
    EpochReport,
    Learner,
    OffPolicySettings,
    OnPolicySettings,
    improve_off_policy,
    improve_on_policy,
)
from alphamepol.compute.devices import wait_for_devices
from alphamepol.compute.keys import SUBSETS
from alphamepol.compute.mapping import map_leading_axis
from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
from alphamepol.errors import RunError
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring.particles import units_of_particles
from alphamepol.measuring.policy_scales import measure_policy_scales
from alphamepol.measuring.sample_checks import CoincidenceError
from alphamepol.measuring.samples import SamplePlan, draw_sample_members
from alphamepol.runs.loop import LoopState
from alphamepol.sampling.trajectories import Trajectories


class FinishedEpoch(NamedTuple):
    """The result of an epoch, for all seeds."""

    state: LoopState
    report: EpochReport
    trajectories: Trajectories
    """The samples of the epoch."""
    plan: SamplePlan
    """The plan for the next epoch. It has noise from the first epoch on in which particles coincide."""


def run_epoch(
    state: LoopState, epoch: int, plan: SamplePlan, config: PretrainConfig, stopwatch: Stopwatch
) -> FinishedEpoch:
    """Improve every seed's policy by one epoch.

    `state.keys` stay the same: the number of the epoch is folded into them. After the update, the scales of the
    policies' memory and inputs are measured again, with the epoch's samples added. The trust region does not limit this
    change of the scales; the change becomes smaller as the number of samples grows. The units of particles never
    change, so that entropies of different epochs can be compared.
    """
    when, policies = f"epoch {epoch}", state.learners.policy
    with stopwatch.phase(SAMPLING):
        members, keys = draw_sample_members(
            state.keys, epoch, plan.environment_class.distribution, config.minibatches, config.member_batches
        )
        trajectories = plan.collect(policies, members, when, keys=keys)
    with stopwatch.phase(NEIGHBOURS):
        units = units_of_particles(policies)
        try:
            neighbourhood = plan.measure(trajectories, units, when, keys=keys).neighbourhood
        except CoincidenceError:
            if config.coinciding == "stop":
                raise
            plan = plan.with_noise()
            neighbourhood = plan.measure(trajectories, units, when, keys=keys).neighbourhood
    with stopwatch.phase(LEARNING):
        learners, report = wait_for_devices(
            improve_all_seeds(state.learners, trajectories, neighbourhood, config, keys=keys)
        )
        check_epoch_learned(learners, report, config.seed_list, when)
        if policies.memory is not None or policies.scaling is not None:
            rescaled = measure_policy_scales(learners.policy, trajectories)
            learners = eqx.tree_at(lambda learners: learners.policy, learners, rescaled)
    return FinishedEpoch(LoopState(learners, state.keys), report, trajectories, plan)


def improve_all_seeds(
    learners: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    config: PretrainConfig,
    *,
    keys: Key[Array, " seeds"],
) -> tuple[Learner, EpochReport]:
    """Improve every seed's policy with the epoch's samples."""
    improve, settings = improvement_of_all_seeds(config)
    return improve(learners, trajectories, neighbourhood, settings, keys)


def improvement_of_all_seeds(config: PretrainConfig) -> tuple[Any, OffPolicySettings | OnPolicySettings]:
    """Return the jitted function that improves every seed's policy, and its settings."""
    tail_size, together = config.tail_size, config.ranked_together
    rate = jnp.array(config.learning_rate)
    if config.update == "on-policy":
        return _improve_seeds_on_policy, OnPolicySettings(rate, tail_size, config.baseline)
    subset_size = risk_tail_count(config.gradient_share, config.minibatches) if config.alpha == 1 else tail_size
    iterations = jnp.array(config.max_off_policy_iterations)
    settings = OffPolicySettings(rate, jnp.array(config.trust_region), tail_size, iterations, subset_size, together)
    return _improve_seeds_off_policy, settings


@jax.jit
def _improve_seeds_off_policy(learners, trajectories, neighbourhood, settings: OffPolicySettings, keys):
    def one_seed(
        learner: Learner,
        trajectories: Trajectories,
        neighbourhood: Neighbourhood,
        key: PRNGKeyArray,
        settings: OffPolicySettings,
    ) -> tuple[Learner, EpochReport]:
        subsets_key = jax.random.fold_in(key, SUBSETS)
        return improve_off_policy(learner, trajectories, neighbourhood, settings, key=subsets_key)

    return map_leading_axis(one_seed, settings=settings)(learners, trajectories, neighbourhood, keys)


@jax.jit
def _improve_seeds_on_policy(learners, trajectories, neighbourhood, settings: OnPolicySettings, keys):
    return map_leading_axis(improve_on_policy, settings=settings)(learners, trajectories, neighbourhood)


def check_epoch_learned(learner: Learner, report: EpochReport, seeds: Sequence[int], when: str) -> None:
    """Raise a `RunError` if a policy or its estimates are not finite after the update, or after its smallest step."""
    judged = (learner.policy, report.kl, report.objective_after)
    finite = [np.isfinite(leaf).reshape(len(seeds), -1).all(axis=1) for leaf in jax.device_get(jax.tree.leaves(judged))]
    lost = np.flatnonzero(~np.all(finite, axis=0))
    if lost.size:
        raise RunError(
            f"{when}, seed {seeds[lost[0]]}: the policy has moved so far that its entropy is no longer a number; start "
            "again with a lower --learning-rate"
        )
    lost = np.flatnonzero(jax.device_get(report.lost))
    if lost.size:
        raise RunError(
            f"{when}, seed {seeds[lost[0]]}: the KL divergence after a step is not a finite number, not even after the "
            f"step was halved {MAX_TRIES - 1} times; start again with a lower --learning-rate"
        )
