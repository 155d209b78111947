"""The diagnostics of an epoch: distances between members, and the paper's bounds (D1)–(D7)."""

import math
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from alphamepol.algorithms.alphamepol.baseline import measure_baseline_trade_off
from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.update import EpochReport
from alphamepol.compute.devices import move_to_one_device, using_one_device
from alphamepol.compute.trees import take_from_trees
from alphamepol.measuring.aliasing import measure_aliasing
from alphamepol.measuring.bounds import measure_bounds
from alphamepol.measuring.dynamics import measure_dynamics, members_for_dynamics
from alphamepol.measuring.particles import units_of_particles
from alphamepol.measuring.samples import SamplePlan, draw_sample_members
from alphamepol.policies.policy import Policy
from alphamepol.runs.loop import LoopState
from alphamepol.sampling.trajectories import Trajectories

POINTS = 200
"""The number of particles per member for Wasserstein distances. It is half the number that `check` uses, and takes a
sixth of the time."""


def epoch_diagnostics(
    state: LoopState,
    epoch: int,
    plan: SamplePlan,
    config: PretrainConfig,
    trajectories: Trajectories,
    report: EpochReport,
) -> list[dict[str, Any]]:
    """Measure, for each seed, the policy that sampled the epoch and the members that were drawn in it.

    Numbers that are infinite or cannot be measured are left out.
    """
    state, trajectories, report = move_to_one_device((state, trajectories, report))
    with using_one_device():
        policies = state.learners.policy
        keys = draw_sample_members(state.keys, epoch, plan.environment_class.distribution, config.minibatches)[1]
        ready = plan.ready(trajectories, units_of_particles(policies), keys=keys)
        found = []
        for i in range(config.seeds):
            policy, samples, entropies, key = take_from_trees((policies, ready, report.entropies, keys), i)
            numbers = _diagnostics_of_members(policy, samples, plan, key)
            trade_off = measure_baseline_trade_off(policy, samples, entropies, config.alpha)
            if trade_off is not None:
                numbers |= {"baseline_bias": trade_off.bias, "baseline_bias_bound": trade_off.bias_bound}
                numbers |= {"baseline_samples": trade_off.samples, "baseline_crossing": trade_off.crossing}
            found.append({name: value for name, value in numbers.items() if math.isfinite(value)})
    return found


def _diagnostics_of_members(
    policy: Policy, samples: Trajectories, plan: SamplePlan, key: PRNGKeyArray
) -> dict[str, Any]:
    environment_class = plan.environment_class
    particles, valid, members = (np.asarray(part) for part in (samples.particles, samples.valid, samples.members))
    minibatches = particles.reshape(len(particles), -1, particles.shape[-1]), valid.reshape(len(valid), -1)
    alias = measure_aliasing(*minibatches)
    numbers: dict[str, Any] = {"coinciding": alias.coinciding, "smallest_safe_k": alias.largest}
    judged = members_for_dynamics(len(environment_class))
    met = np.intersect1d(members, judged)
    if len(met) < 2:
        return numbers
    by_member = [
        [part[members == number].reshape(-1, *part.shape[2:]) for number in met] for part in (particles, valid)
    ]
    units = units_of_particles(policy)
    dynamics = measure_dynamics(policy, environment_class, plan.settings.horizon, plan.encoder, units, key=key)
    names = [environment_class.names[number] for number in met]
    dynamics = dynamics and dynamics.of_members(np.searchsorted(judged, met))
    bounds = measure_bounds(by_member[0], by_member[1], names, dynamics, points=POINTS)
    return numbers | bounds.to_dict()
