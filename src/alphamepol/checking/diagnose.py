"""What a class is like under a policy, before anything is trained on it."""

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
from alphamepol.algorithms.alphamepol.epoch import improve_all_seeds
from alphamepol.algorithms.alphamepol.start import check_pretraining_start, start_learners, untrained_start_policies
from alphamepol.checking.component_scales import component_scales_of
from alphamepol.checking.diagnosis_types import Actions, Diagnosis
from alphamepol.checking.member_shares import member_share_of_draws
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.host import AnyClass
from alphamepol.environments.make import make_class
from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours
from alphamepol.measuring.aliasing import Aliasing, measure_aliasing
from alphamepol.measuring.bounds import measure_bounds
from alphamepol.measuring.dynamics import measure_contrasts_of_dynamics, measure_dynamics, members_for_dynamics
from alphamepol.measuring.particles import particle_size, units_of_particles
from alphamepol.measuring.sample_checks import aliased_sets_of_samples, check_sample_units
from alphamepol.measuring.samples import (
    SamplePlan,
    draw_sample_members,
    entropies_of_samples,
    entropy_ceiling_of_samples,
    neighbours_of_samples,
)
from alphamepol.measuring.sensitivity import Learned, Sensitivity
from alphamepol.measuring.visits import VisitMap, visit_map
from alphamepol.policies.policy import GaussianPolicy, Policy, stack_policies
from alphamepol.policies.shape import check_policy_shape
from alphamepol.sampling.trajectories import Trajectories

BATCHES, IN_ALL = 12, 240
"""Mini-batches in each member; fewer where that would be more than so many in all, but two at least."""
FEWER = 4
"""Of those, so many are measured again with other k."""
MINIBATCHES, MOST_MINIBATCHES = 20, 60
"""At most so many of an epoch are learned from, to see what a learning rate does; so many are judged, for the
baseline."""
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Of the learning rate."""
STAGES = ("sampling every member", "neighbours", "other k and B", "learning rates", "dynamics", "distances")


@dataclass(frozen=True)
class _Samples:
    """Trajectories in every member, in its order, `batches` mini-batches each; and ready for their entropy."""

    raw: Trajectories
    measured: Trajectories
    members: int

    def by_member(self, values: Any) -> np.ndarray:
        """An array of mini-batches, member by member."""
        array = np.asarray(values)[0]
        return array.reshape(self.members, -1, *array.shape[1:])


def diagnose(
    environment_class: AnyClass | str,
    config: PretrainConfig,
    policy: Policy | None = None,
    *,
    label: str = "Random",
    batches: int | None = None,
    stage: Callable[[str], AbstractContextManager[Any]] = lambda name: nullcontext(),
) -> Diagnosis:
    """Look at a class through a policy, with the settings of a run that is to be.

    **Arguments**

    - `environment_class`: a class or its name.
    - `config`: the settings; all but those of evaluation and checkpoints count.
    - `policy`: whose samples are looked at; an untrained one of seed `config.seed` if not given, called `label`.
    - `batches`: mini-batches that are sampled in each member; 12 if not given, fewer of more than twenty members.
    - `stage`: is entered with the name of each of `STAGES`, and may show progress.
    """
    config.check()
    environment_class = make_class(environment_class, config.probabilities)
    check_pretraining_start(environment_class, config)
    given, trained = config, policy is not None
    config = dataclasses.replace(config, seeds=1)
    if policy is None:
        policy = untrained_start_policies(environment_class, config)[config.seed]
    check_policy_shape(policy, environment_class)
    policies, units = stack_policies([policy]), units_of_particles(policy)
    check_sample_units(units, particle_size(environment_class, config.encoder), environment_class.name)
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
            by_batch = _diagnose_other_batches(samples, config.batch, k)
        with stage(STAGES[3]):
            usable = dataclasses.replace(config, neighbours=k)
            learned, trade_off = _diagnose_learning_rates(policies, plan, usable, keys)
        with stage(STAGES[4]):
            dynamics = measure_dynamics(policy, environment_class, config.horizon, plan.encoder, units, key=keys[0])
            some = members_for_dynamics(len(names))
            contrasts = _diagnose_contrasts(policy, samples, some) if dynamics is None else None
        with stage(STAGES[5]):
            particles, valid = (samples.by_member(part) for part in (samples.measured.particles, samples.raw.valid))
            by_trajectory = [part.reshape(len(names), -1, *part.shape[3:])[some] for part in (particles, valid)]
            bounds = measure_bounds(
                list(by_trajectory[0]), list(by_trajectory[1]), [names[number] for number in some], dynamics
            )
    return Diagnosis(
        class_name=environment_class.name,
        policy=label,
        trained=trained,
        members=names,
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
    )


def _draw_samples_to_diagnose(policies: Policy, plan: SamplePlan, batches: int, keys: Key[Array, " seeds"]) -> _Samples:
    count = len(plan.environment_class)
    members = jax.device_put(np.repeat(np.arange(count, dtype=np.int32), batches)[None])
    # One neighbour is the least that can be measured.
    raw = plan.collect(policies, members, "check", fewest=1, keys=keys)
    return _Samples(raw, plan.ready(raw, units_of_particles(policies), keys=keys), count)


def _diagnose_aliasing(
    samples: _Samples, particles: Float[Array, "1 minibatches batch time features"]
) -> tuple[Aliasing, ...]:
    """Of each member."""
    points, valid = (samples.by_member(part) for part in (particles, samples.raw.valid))
    flat = points.reshape(*points.shape[:2], -1, points.shape[-1]), valid.reshape(*valid.shape[:2], -1)
    return tuple(measure_aliasing(*of) for of in zip(*flat, strict=True))


def _diagnose_other_neighbours(samples: _Samples, k: int, safe: int, fewest: int) -> Sensitivity:
    """Entropies with a quarter to four times the k, as far as that can be."""
    wanted = {max(1, k // 4), max(1, k // 2), k, 2 * k, 4 * k}
    tried = sorted(k for k in wanted if safe <= k < fewest)
    some = _first_minibatches_to_diagnose(samples, FEWER)
    found = [samples.by_member(entropies_of_samples(neighbours_of_samples(some, k))).mean(axis=1) for k in tried]
    return Sensitivity(tuple(tried), np.array(found).reshape(len(tried), samples.members))


def _first_minibatches_to_diagnose(samples: _Samples, count: int) -> Trajectories:
    """The first mini-batches of each member."""
    batches = samples.measured.members.shape[1] // samples.members
    chosen = np.concatenate([np.arange(i * batches, i * batches + min(count, batches)) for i in range(samples.members)])
    return _minibatches_to_diagnose(samples.measured, chosen)


@jax.jit
def _minibatches_to_diagnose(samples: Any, chosen: Int[Array | np.ndarray, " some"]) -> Any:
    """Return some mini-batches of arrays with axes (seeds, mini-batches, …)."""
    return jax.tree.map(lambda leaf: leaf[:, chosen], samples)


def _diagnose_other_batches(samples: _Samples, batch: int, k: int) -> Sensitivity:
    """Entropies of half, twice and four times as many trajectories together, as far as there are so many."""
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
            continue  # more coincide, of more
        tried.append(together)
        found.append(np.asarray(entropies_of_samples(neighbourhood)).mean(axis=1))
    return Sensitivity(tuple(tried), np.array(found).reshape(len(tried), members))


def _diagnose_learning_rates(
    policies: Policy, plan: SamplePlan, config: PretrainConfig, keys: Key[Array, " seeds"]
) -> tuple[tuple[Learned, ...], BaselineTradeOff | None]:
    """One epoch, from the same samples, with each of some learning rates; and the trade-off of the baseline."""
    # More than an epoch has, for the baseline, where they cost little.
    quick = isinstance(plan.environment_class, EnvironmentClass)
    minibatches = MOST_MINIBATCHES if quick else min(config.minibatches, MOST_MINIBATCHES)
    members, epoch_keys = draw_sample_members(keys, 0, plan.environment_class.probabilities, minibatches)
    trajectories = plan.collect(policies, members, "check", fewest=0, keys=epoch_keys)
    if np.asarray(trajectories.valid).sum(axis=(-1, -2)).min() <= config.neighbours:
        return (), None
    ready = plan.ready(trajectories, units_of_particles(policies), keys=epoch_keys)
    neighbourhood = neighbours_of_samples(ready, config.neighbours)
    if np.any(aliased_sets_of_samples(neighbourhood)):
        return (), None  # no entropy, and no gradient
    learned_from = min(config.minibatches, MINIBATCHES)
    samples, neighbours = _minibatches_to_diagnose((trajectories, neighbourhood), np.arange(learned_from))
    config = dataclasses.replace(config, trajectories=learned_from * config.batch)
    learners = start_learners(policies)
    found = []
    for factor in FACTORS:
        tried = dataclasses.replace(config, learning_rate=factor * config.learning_rate)
        report = improve_all_seeds(learners, samples, neighbours, tried, keys=epoch_keys)[1]
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
    return tuple(found), measure_baseline_trade_off(policy, samples, entropies, config.alpha)


@partial(jax.jit, static_argnums=1)
def _diagnose_own_neighbours(neighbourhood: Neighbourhood, horizon: int) -> Float[Array, "rows sets"]:
    """The share of neighbours that are of the particle's own trajectory, of which each has `horizon` particles."""
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
    """As the environment gives them."""
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
