"""The diagnosis of a class under a policy, before training on it."""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from alphamepol.algorithms.alphamepol.baseline import BaselineTradeOff, measure_baseline_trade_off
from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.cost import estimate_pretraining_cost, is_short_pretraining
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds
from alphamepol.algorithms.alphamepol.start import check_pretraining_start, start_learners, untrained_start_policies
from alphamepol.checking.component_scales import component_scales_of
from alphamepol.checking.diagnosis_types import Actions, Diagnosis
from alphamepol.checking.member_shares import member_share_of_draws
from alphamepol.compute.devices import wait_for_devices
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours
from alphamepol.measuring.aliasing import Aliasing, measure_aliasing
from alphamepol.measuring.bounds import measure_bounds
from alphamepol.measuring.dynamics import measure_contrasts_of_dynamics, measure_dynamics, members_for_dynamics
from alphamepol.measuring.particles import policies_with_class_units, units_of_particles
from alphamepol.measuring.sample_checks import aliased_sets_of_samples
from alphamepol.measuring.samples import (
    SamplePlan,
    draw_sample_members,
    entropies_of_samples,
    entropy_ceiling_of_samples,
    neighbours_of_samples,
)
from alphamepol.measuring.sensitivity import Learned, Sensitivity
from alphamepol.measuring.visits import VisitMap, visit_map
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.policies.shape import check_policy_shape
from alphamepol.sampling.trajectories import Trajectories

BATCHES, IN_ALL = 12, 240
"""The mini-batches in each member, and the most in all members together. Each member has at least two."""
FEWER = 4
"""The mini-batches of each member that are measured again with other k."""
MINIBATCHES, MOST_MINIBATCHES = 20, 60
"""The most mini-batches of an epoch from which learning rates are tried, and the most for the baseline trade-off."""
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""The factors of the learning rate that are tried."""
STAGES = (
    "sampling every member",
    "finding neighbours",
    "trying other k",
    "trying other B",
    "sampling an epoch",
    *(f"trying {factor:g} times the learning rate" for factor in FACTORS),
    "measuring the baseline",
    "comparing single steps",
    "comparing state distributions",
    "estimating time and memory",
)
"""The names of the stages of a diagnosis, for progress. Those of learning are left out if nothing can be learned."""
Stage = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class _Samples:
    """The trajectories in every member. The mini-batches of one member follow those of the member before."""

    raw: Trajectories
    """The trajectories as they were collected."""
    measured: Trajectories
    """The same trajectories with particles that are ready for the entropy estimate."""
    members: int

    def by_member(self, values: Any) -> np.ndarray:
        """Return an array over mini-batches with the axes (member, mini-batch)."""
        array = np.asarray(values)[0]
        return array.reshape(self.members, -1, *array.shape[1:])


def diagnose(
    environment_class: AnyClass | str,
    config: PretrainConfig,
    policy: Policy | None = None,
    *,
    label: str = "Random",
    batches: int | None = None,
    stage: Stage = lambda name: nullcontext(),
) -> Diagnosis:
    """Measure a class under a policy, with the settings of a planned run.

    `check` does the same, says what the numbers mean, and writes a page.

    **Arguments**

    - `environment_class`: the class, or its name.
    - `config`: the settings to examine. Those of evaluation and checkpoints do not matter.
    - `policy`: the policy that collects the samples. If it is not given, an untrained policy of seed `config.seed` is
      used.
    - `label`: the name of the policy in the result.
    - `batches`: the number of mini-batches in each member. If it is not given, 12 are sampled, or fewer in a class of
      more than twenty members.
    - `stage`: a function that takes the name of a stage and returns a context manager. It is called for each stage, and
      may show progress.

    **Returns**

    A `Diagnosis`.

    **Raises**

    - `InputError`: if a setting is out of its range, or if the policy or the settings do not fit the class.
    - `RunError`: if the class cannot be sampled, for example because a state is not finite.

    **Example**

    ```python
    import alphamepol as am

    config = am.PretrainConfig(
        epochs=2, trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2
    )
    diagnosis = am.diagnose("gridworld-slope", config, batches=2)
    print(diagnosis.members)  # ('GWS', 'GWN')
    print(diagnosis.entropies.shape)  # (2, 2): members, mini-batches
    ```
    """
    config.check()
    environment_class = make_class(environment_class, config.probabilities)
    check_pretraining_start(environment_class, config)
    given, trained = config, policy is not None
    config = dataclasses.replace(config, seeds=1)
    if policy is None:
        policy = untrained_start_policies(environment_class, config)[config.seed]
    check_policy_shape(policy, environment_class)
    policy = policies_with_class_units(policy, environment_class, config)
    policies, units = stack_policies([policy]), units_of_particles(policy)
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    keys = split_keys_by_purpose(seed_keys([config.seed])).evaluation
    names = environment_class.names
    batches = batches or max(2, min(BATCHES, IN_ALL // len(names)))
    with jax.default_matmul_precision(config.matmul_precision):
        with stage(STAGES[0]):
            samples = _draw_samples_to_diagnose(policies, plan, batches, keys)
        with stage(STAGES[1]):
            found, bare = (_diagnose_aliasing(samples, part.particles) for part in (samples.measured, samples.raw))
            smallest = samples.by_member(jnp.sum(samples.raw.valid, axis=(-1, -2))).min(axis=1)
            fewest = int(smallest.min())
            safe = max(one.largest for one in found)
            k = max(1, min(max(config.neighbours, safe), fewest - 1))
            neighbourhood = neighbours_of_samples(samples.measured, k)
            entropies = samples.by_member(entropies_of_samples(neighbourhood))
            own = samples.by_member(_diagnose_own_neighbours(neighbourhood, config.horizon)).mean(axis=1)
        with stage(STAGES[2]):
            by_neighbours = _diagnose_other_neighbours(samples, config.neighbours, safe, fewest)
        with stage(STAGES[3]):
            by_batch = _diagnose_other_batches(samples, config.batch, k)
        usable = dataclasses.replace(config, neighbours=k)
        learned, trade_off = _diagnose_learning_rates(policies, plan, usable, stage, keys)
        with stage(STAGES[-3]):
            dynamics = measure_dynamics(policy, environment_class, config.horizon, plan.encoder, units, key=keys[0])
            some = members_for_dynamics(len(names))
            contrasts = _diagnose_contrasts(policy, samples, some) if dynamics is None else None
        with stage(STAGES[-2]):
            particles, valid = (samples.by_member(part) for part in (samples.measured.particles, samples.raw.valid))
            by_trajectory = [part.reshape(len(names), -1, *part.shape[3:])[some] for part in (particles, valid)]
            bounds = measure_bounds(
                list(by_trajectory[0]), list(by_trajectory[1]), [names[number] for number in some], dynamics
            )
        with stage(STAGES[-1]):
            short = is_short_pretraining(environment_class, given)
            cost = None if short else estimate_pretraining_cost(environment_class, given)
    return Diagnosis(
        class_name=environment_class.name,
        policy=label,
        trained=trained,
        members=names,
        generated=environment_class.generator is not None,
        probabilities=environment_class.probabilities,
        config=given,
        neighbours=k,
        entropies=entropies,
        ceilings=tuple(entropy_ceiling_of_samples(environment_class[number], units) for number in range(len(names))),
        aliasing=found,
        bare=bare,
        smallest=smallest,
        lengths=valid.sum(axis=-1).mean(axis=(1, 2)),
        own_neighbours=own,
        observations=component_scales_of(_observations_to_diagnose(policy, samples.raw)),
        particles=component_scales_of(np.asarray(samples.raw.particles)[np.asarray(samples.raw.valid)]),
        actions=_diagnose_actions(policy, environment_class, samples.raw),
        by_neighbours=by_neighbours,
        by_batch=by_batch,
        learned=learned,
        draws=tuple(member_share_of_draws(p, config.minibatches) for p in environment_class.probabilities),
        bounds=bounds,
        contrasts=contrasts,
        trade_off=trade_off,
        visits=_diagnose_visits(samples, environment_class),
        scaled=policy.scaling is not None,
        encoded=plan.encoder is not None,
        cost=cost,
    )


def _draw_samples_to_diagnose(policies: Policy, plan: SamplePlan, batches: int, keys: Key[Array, " seeds"]) -> _Samples:
    count = len(plan.environment_class)
    members = jax.device_put(np.repeat(np.arange(count, dtype=np.int32), batches)[None])
    # A mini-batch needs more than one particle, because an estimate needs at least one neighbour.
    raw = plan.collect(policies, members, "check", fewest=1, keys=keys)
    return _Samples(raw, plan.ready(raw, units_of_particles(policies), keys=keys), count)


def _diagnose_aliasing(
    samples: _Samples, particles: Float[Array, "1 minibatches batch time features"]
) -> tuple[Aliasing, ...]:
    """Measure for each member how many particles coincide."""
    points, valid = (samples.by_member(part) for part in (particles, samples.raw.valid))
    flat = points.reshape(*points.shape[:2], -1, points.shape[-1]), valid.reshape(*valid.shape[:2], -1)
    return tuple(measure_aliasing(*of) for of in zip(*flat, strict=True))


def _diagnose_other_neighbours(samples: _Samples, k: int, safe: int, fewest: int) -> Sensitivity:
    """Measure entropies with a quarter of k up to four times k, as far as such a k is possible."""
    wanted = {max(1, k // 4), max(1, k // 2), k, 2 * k, 4 * k}
    tried = sorted(k for k in wanted if safe <= k < fewest)
    some = _first_minibatches_to_diagnose(samples, FEWER)
    found = [samples.by_member(entropies_of_samples(neighbours_of_samples(some, k))).mean(axis=1) for k in tried]
    return Sensitivity(tuple(tried), np.array(found).reshape(len(tried), samples.members))


def _first_minibatches_to_diagnose(samples: _Samples, count: int) -> Trajectories:
    """Return the first `count` mini-batches of each member."""
    batches = samples.measured.members.shape[1] // samples.members
    chosen = np.concatenate([np.arange(i * batches, i * batches + min(count, batches)) for i in range(samples.members)])
    return _minibatches_to_diagnose(samples.measured, chosen)


@jax.jit
def _minibatches_to_diagnose(samples: Any, chosen: Int[Array | np.ndarray, " some"]) -> Any:
    """Return some mini-batches of arrays with axes (seeds, mini-batches, …)."""
    return jax.tree.map(lambda leaf: leaf[:, chosen], samples)


def _diagnose_other_batches(samples: _Samples, batch: int, k: int) -> Sensitivity:
    """Measure entropies with half, twice and four times as many trajectories in a mini-batch, if there are enough."""
    particles, valid = (samples.by_member(part) for part in (samples.measured.particles, samples.raw.valid))
    members, batches, _, time, features = particles.shape
    tried, found = [], []
    for together in sorted({max(1, batch // 2), batch, 2 * batch, 4 * batch}):
        sets = batches * batch // together
        if sets == 0:
            continue
        inside = valid.reshape(members, -1, time)[:, : sets * together].reshape(members, sets, -1)
        if inside.sum(axis=-1).min() <= k:
            continue
        points = particles.reshape(members, -1, time, features)[:, : sets * together]
        neighbourhood = nearest_neighbours(points.reshape(members, sets, -1, features), k, inside)
        if np.any(aliased_sets_of_samples(neighbourhood)):
            continue  # with more trajectories, more particles can coincide
        tried.append(together)
        found.append(np.asarray(entropies_of_samples(neighbourhood)).mean(axis=1))
    return Sensitivity(tuple(tried), np.array(found).reshape(len(tried), members))


def _diagnose_learning_rates(
    policies: Policy, plan: SamplePlan, config: PretrainConfig, stage: Stage, keys: Key[Array, " seeds"]
) -> tuple[tuple[Learned, ...], BaselineTradeOff | None]:
    """Learn one epoch from the same samples with several learning rates, and measure the trade-off of the baseline.

    Return no results if the entropies of the samples cannot be estimated.
    """
    # The baseline needs many mini-batches. A compiled class gives more than an epoch has, at little cost.
    quick = isinstance(plan.environment_class, EnvironmentClass)
    of_member = config.member_batches
    minibatches = MOST_MINIBATCHES if quick else min(config.minibatches, MOST_MINIBATCHES)
    minibatches = max(1, minibatches // of_member) * of_member
    members, epoch_keys = draw_sample_members(keys, 0, plan.environment_class.distribution, minibatches, of_member)
    with stage(STAGES[4]):
        trajectories = plan.collect(policies, members, "check", fewest=0, keys=epoch_keys)
        if np.asarray(trajectories.valid).sum(axis=(-1, -2)).min() <= config.neighbours:
            return (), None
        ready = plan.ready(trajectories, units_of_particles(policies), keys=epoch_keys)
        neighbourhood = neighbours_of_samples(ready, config.neighbours)
        if np.any(aliased_sets_of_samples(neighbourhood)):
            return (), None  # there is no finite entropy, and no gradient
    learned_from = max(1, min(config.minibatches, MINIBATCHES) // of_member) * of_member
    samples, neighbours = _minibatches_to_diagnose((trajectories, neighbourhood), np.arange(learned_from))
    config = dataclasses.replace(config, trajectories=learned_from * config.batch)
    learners = start_learners(policies)
    found = []
    for number, factor in enumerate(FACTORS):
        tried = dataclasses.replace(config, learning_rate=factor * config.learning_rate)
        with stage(STAGES[5 + number]):
            report = wait_for_devices(improve_all_seeds(learners, samples, neighbours, tried, keys=epoch_keys)[1])
        shares = np.asarray(report.effective_shares[0])
        found.append(
            Learned(
                rate=tried.learning_rate,
                effective=float(np.median(shares)),
                worst=float(shares.min()),
                kl=float(report.kl[0]),
                iterations=int(report.iterations[0]),
                backtracks=int(report.backtracks[0]),
                gain=float(report.objective_after[0] - report.objective[0]),
            )
        )
    policy, samples, entropies = take_from_trees((policies, trajectories, entropies_of_samples(neighbourhood)), 0)
    with stage(STAGES[-4]):
        return tuple(found), measure_baseline_trade_off(policy, samples, entropies, config.alpha)


@partial(jax.jit, static_argnums=1)
def _diagnose_own_neighbours(neighbourhood: Neighbourhood, horizon: int) -> Float[Array, "rows sets"]:
    """Return the share of neighbours that belong to the particle's own trajectory of `horizon` particles."""
    valid = neighbourhood.valid
    number = jnp.arange(valid.shape[-1]) // horizon
    if neighbourhood.among is not None:
        own = jnp.sum(neighbourhood.among & (number[:, None] == number), axis=-1) / neighbourhood.k
    else:
        own = jnp.mean(number[neighbourhood.indices] == number[:, None], axis=-1)
    return jnp.sum(jnp.where(valid, own, 0.0), axis=-1) / jnp.sum(valid, axis=-1)


def _diagnose_contrasts(
    policy: Policy, samples: _Samples, numbers: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "some some"] | None:
    raw = samples.raw
    observations = raw.perceived[..., : policy.observation_size]
    parts = (samples.by_member(part)[numbers] for part in (observations, raw.actions, raw.valid))
    observed, actions, valid = (part.reshape(len(part), -1, *part.shape[3:]) for part in parts)
    return measure_contrasts_of_dynamics(observed.astype(float), actions, valid)


def _observations_to_diagnose(policy: Policy, trajectories: Trajectories) -> Float[np.ndarray, "samples observation"]:
    """Return the observations as the environment gives them, before any scaling."""
    seen = np.asarray(trajectories.perceived)[np.asarray(trajectories.valid)][:, : policy.observation_size]
    scaling = policy.scaling
    return np.asarray(seen if scaling is None else seen * scaling.deviation + scaling.mean, float)


def _diagnose_actions(policy: Policy, environment_class: AnyClass, trajectories: Trajectories) -> Actions | None:
    space = environment_class[0].action_space
    if not isinstance(space, gymnasium.spaces.Box) or not isinstance(policy, GaussianPolicy):
        return None
    low, high = space.low.ravel(), space.high.ravel()
    actions = np.asarray(trajectories.actions)[np.asarray(trajectories.valid)]
    with np.errstate(over="ignore"):
        half = (high.astype(float) - low) / 2
    sigma = np.exp(np.asarray(policy.log_std, float))
    if policy.scaling is not None:
        sigma = sigma * np.array(policy.scaling.actions.half_ranges)
    return Actions(sigma, half, float(((actions < low) | (actions > high)).mean()))


def _diagnose_visits(samples: _Samples, environment_class: AnyClass) -> VisitMap | None:
    places, valid = (samples.by_member(part) for part in (samples.raw.whereabouts, samples.raw.valid))
    flat = places.reshape(len(places), -1, places.shape[-1]), valid.reshape(len(valid), -1)
    return visit_map(*flat, environment_class[0])
