"""One epoch of pre-training, all seeds in one program: collect, find neighbours, improve."""

import dataclasses
from functools import partial

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray

from alphamepol.devices import lay
from alphamepol.environments.environment_class import draw_members
from alphamepol.environments.host import AnyClass
from alphamepol.estimation.knn import Neighbourhood, nearest_neighbours
from alphamepol.estimation.risk import tail_count
from alphamepol.images import RandomEncoder
from alphamepol.learning.alphamepol import EpochReport, Learner, improve_off_policy, improve_on_policy
from alphamepol.mapping import map_leading_axis, take
from alphamepol.policies import GaussianPolicy, Policy, regress_mean
from alphamepol.runs.checks import check_aliasing, check_learned, check_particles
from alphamepol.runs.config import PretrainConfig
from alphamepol.runs.fresh import fresh_policies, measure, particle_deviation
from alphamepol.runs.loop import LoopState
from alphamepol.runs.particles import measurable, units_of
from alphamepol.runs.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch, wait
from alphamepol.sampling.sampler import collect
from alphamepol.sampling.trajectories import Trajectories
from alphamepol.seeds import seed_keys, split_purposes

SUBSETS = 1 << 28
"""Sets the random numbers of MEPOL's subsets apart from those of the trajectories."""


def start_state(environment_class: AnyClass, config: PretrainConfig, *, look: bool = True) -> LoopState:
    """Fresh policies, their mean regressed to `initial_mean` if one is given, and Adam moments of zero.

    Unless `look` is true, nothing is measured of the class, and the state has the right shapes only.
    """
    keys = split_purposes(seed_keys(config.seed_list))
    parts = jax.vmap(jax.random.split)(keys.policy)
    members, _ = draw_epoch(keys.policy, 0, environment_class.probabilities, config.minibatches)
    size = {"batch": config.batch, "horizon": config.horizon}
    policies = fresh_policies(parts[:, 0], environment_class, config, members=members, **size, look=look)
    if look and policies.scaling is not None:
        unit = jnp.tile(particle_deviation(environment_class, config), (config.seeds, 1))
        policies = eqx.tree_at(lambda policies: policies.scaling.particle_deviation, policies, unit)
    if config.initial_mean != "none":
        space = environment_class[0].observation_space
        assert isinstance(space, gymnasium.spaces.Box)  # `check_start` has looked
        target, low, high = (jnp.array(part, float) for part in (config.initial_mean, space.low, space.high))
        policies = _regress(policies, parts[:, 1], target, low, high)
    return LoopState(jax.vmap(Learner.start)(policies), keys.epochs)


def untrained_policies(environment_class: AnyClass, config: PretrainConfig) -> dict[int, Policy]:
    """What `random` stands for: by seed, the policies that training with these settings begins with, not regressed."""
    start = start_state(environment_class, dataclasses.replace(config, initial_mean="none"))
    return {seed: take(start.learners.policy, i) for i, seed in enumerate(config.seed_list)}


@jax.jit
def _regress(policies: GaussianPolicy, keys: Key[Array, " seeds"], target, low, high) -> GaussianPolicy:
    def one_seed(policy: GaussianPolicy, key: PRNGKeyArray) -> GaussianPolicy:
        return regress_mean(policy, target, low, high, key=key)

    return map_leading_axis(one_seed)(policies, keys)


def run_epoch(
    state: LoopState,
    epoch: int,
    environment_class: AnyClass,
    config: PretrainConfig,
    encoder: RandomEncoder | None,
    stopwatch: Stopwatch,
) -> tuple[LoopState, EpochReport, Trajectories]:
    """What `epoch` does to the state, a report, and the samples it used; `encoder` is that of `find_encoder`."""
    names, seeds, when = environment_class.names, config.seed_list, f"epoch {epoch}"
    with stopwatch.phase(SAMPLING):
        members, keys = draw_epoch(state.keys, epoch, environment_class.probabilities, config.minibatches)
        policies = state.learners.policy
        size = {"batch": config.batch, "horizon": config.horizon}
        trajectories = wait(lay(collect(policies, environment_class, lay(members, 2), **size, keys=keys), 2))
        check_particles(trajectories, names, seeds, config.neighbours, when)
    with stopwatch.phase(NEIGHBOURS):
        measured = measurable(trajectories, encoder, units_of(policies), config.feature_noise, keys=keys)
        neighbourhood = wait(lay(neighbours_of_minibatches(measured, config.neighbours), 2))
        check_aliasing(neighbourhood, trajectories, names, seeds, when)
    with stopwatch.phase(LEARNING):
        learners, report = wait(improve(state.learners, trajectories, neighbourhood, config, keys=keys))
        check_learned(learners, report, seeds, when)
        if policies.memory is not None or policies.scaling is not None:
            learners = eqx.tree_at(lambda learners: learners.policy, learners, measure(learners.policy, trajectories))
    return LoopState(learners, state.keys), report, trajectories


def neighbours_of_minibatches(trajectories: Trajectories, k: int) -> Neighbourhood:
    """Neighbours among all particles of a mini-batch, its trajectories taken together."""
    *minibatches, batch, time, features = trajectories.particles.shape
    particles = trajectories.particles.reshape(*minibatches, batch * time, features)
    return nearest_neighbours(particles, k, trajectories.valid.reshape(*minibatches, batch * time))


def improve(
    learners: Learner,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    config: PretrainConfig,
    *,
    keys: Key[Array, " seeds"],
) -> tuple[Learner, EpochReport]:
    """Improve every seed's policy with the epoch's samples."""
    tail_size = tail_count(config.alpha, config.minibatches)
    rate = jnp.array(config.learning_rate)
    if config.update == "on-policy":
        return _improve_on_policy(learners, trajectories, neighbourhood, rate, tail_size, config.baseline)
    trust_region = jnp.array(config.trust_region)
    subset_size = tail_count(config.gradient_share, config.minibatches) if config.alpha == 1 else tail_size
    sizes = {"tail_size": tail_size, "subset_size": subset_size, "max_iterations": config.max_off_policy_iterations}
    return _improve_off_policy(learners, trajectories, neighbourhood, rate, trust_region, keys, **sizes)


@partial(jax.jit, static_argnames=("tail_size", "subset_size", "max_iterations"))
def _improve_off_policy(learners, trajectories, neighbourhood, rate, trust_region, keys, **sizes):
    def one_seed(learner, trajectories, neighbourhood, key, rate, trust_region):
        subsets_key = jax.random.fold_in(key, SUBSETS)
        return improve_off_policy(learner, trajectories, neighbourhood, rate, trust_region, **sizes, key=subsets_key)

    bounds = {"rate": rate, "trust_region": trust_region}
    return map_leading_axis(one_seed, **bounds)(learners, trajectories, neighbourhood, keys)


@partial(jax.jit, static_argnums=(4, 5))
def _improve_on_policy(learners, trajectories, neighbourhood, rate, tail_size, baseline):
    def one_seed(learner, trajectories, neighbourhood, rate):
        return improve_on_policy(learner, trajectories, neighbourhood, rate, tail_size=tail_size, baseline=baseline)

    return map_leading_axis(one_seed, rate=rate)(learners, trajectories, neighbourhood)


@partial(jax.jit, static_argnums=(2, 3))
def draw_epoch(
    keys: Key[Array, " seeds"], epoch: int | Int[Array, ""], probabilities: tuple[float, ...], minibatches: int
) -> tuple[Int[Array, "seeds minibatches"], Key[Array, " seeds"]]:
    """The members of an epoch's mini-batches and the key of its trajectories."""

    def one_seed(key):
        members_key, trajectories_key = jax.random.split(jax.random.fold_in(key, epoch))
        return draw_members(probabilities, minibatches, key=members_key), trajectories_key

    return jax.vmap(one_seed)(keys)
