"""One epoch of DIAYN for all seeds in one program."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray

from alphamepol.algorithms.diayn import sac
from alphamepol.algorithms.diayn.config import DiaynConfig
from alphamepol.algorithms.diayn.sac import SacLearner, SacSettings
from alphamepol.algorithms.diayn.update import DiaynReport, fresh_diayn_networks, train_diayn_by_updates
from alphamepol.compute.devices import wait_for_devices
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.mapping import map_leading_axis, traced_number
from alphamepol.compute.stopwatch import LEARNING, Stopwatch
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.policies.shape import policy_shape
from alphamepol.runs.loop import LoopState
from alphamepol.sampling.stream import World


def start_diayn_epochs(environment_class: EnvironmentClass, config: DiaynConfig) -> LoopState:
    """Return the state before the first epoch: for each seed, networks and a replay with the warm-up steps."""
    purposes = split_keys_by_purpose(seed_keys(config.seed_list))
    return LoopState(_start_learners_of_diayn_epochs(purposes.policy, environment_class, config), purposes.epochs)


def run_diayn_epoch(
    state: LoopState, epoch: int, world: World, settings: SacSettings, config: DiaynConfig, stopwatch: Stopwatch
) -> tuple[LoopState, DiaynReport]:
    """Train every seed for one epoch. Return the new state and a report."""
    with stopwatch.phase(LEARNING):
        done = jnp.array(config.warm_up + epoch * config.steps)
        learners, report = wait_for_devices(
            _train_diayn_epoch(state.learners, world, settings, done, config.steps, state.keys)
        )
    return LoopState(learners, state.keys), report


def world_of_diayn_epoch(environment_class: EnvironmentClass, config: DiaynConfig) -> World:
    """Return the world that the skills are learned in."""
    actions = policy_shape(environment_class).actions
    members, probabilities = environment_class.members, environment_class.probabilities
    return World(members, probabilities, actions, config.horizon, config.skills)


def sac_settings_of_diayn_epoch(environment_class: EnvironmentClass, config: DiaynConfig) -> SacSettings:
    """Return the part of the settings that SAC uses.

    The target entropy of actions is −1 per component. For a choice among finitely many actions, it is half of the
    largest possible entropy.
    """
    actions = policy_shape(environment_class).actions
    entropy = math.log(actions.choices) / 2 if actions.choices else -float(actions.size)
    rates = traced_number(config.learning_rate), traced_number(config.discount), traced_number(config.target_rate)
    return SacSettings(*rates, traced_number(entropy), config.batch)


@eqx.filter_jit
def _start_learners_of_diayn_epochs(
    keys: Key[Array, " seeds"], environment_class: EnvironmentClass, config: DiaynConfig
) -> SacLearner:
    world, shape = world_of_diayn_epoch(environment_class, config), policy_shape(environment_class)

    def one_seed(key: PRNGKeyArray) -> SacLearner:
        networks_key, start_key, warm_up_key = jax.random.split(key, 3)
        networks = fresh_diayn_networks(shape, config.skills, config.hidden, key=networks_key)
        learner = sac.start_sac(networks, world, environments=config.environments, replay=config.replay, key=start_key)
        turns = config.warm_up // config.environments

        def act(learner: SacLearner, now):
            turn, key = now
            return sac.interact_in_sac(learner, world, turn * config.environments, key=key)[0], None

        return jax.lax.scan(act, learner, (jnp.arange(turns), jax.random.split(warm_up_key, turns)))[0]

    return map_leading_axis(one_seed)(keys)


@eqx.filter_jit
def _train_diayn_epoch(
    learners: SacLearner,
    world: World,
    settings: SacSettings,
    done: Int[Array, ""],
    steps: int,
    keys: Key[Array, " seeds"],
) -> tuple[SacLearner, DiaynReport]:
    def one_seed(learner: SacLearner, key: PRNGKeyArray, world: World, settings: SacSettings, done: Int[Array, ""]):
        # The number of earlier steps gives every epoch another key.
        return train_diayn_by_updates(learner, world, settings, done, steps=steps, key=jax.random.fold_in(key, done))

    return map_leading_axis(one_seed, world=world, settings=settings, done=done)(learners, keys)
