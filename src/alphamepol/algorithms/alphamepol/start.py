"""The start of pre-training: its folder, and its state of fresh or given policies and Adam moments of zero."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.algorithms.alphamepol.update import Learner, tail_of_entropies
from alphamepol.compute.keys import seed_keys, split_keys_by_purpose
from alphamepol.compute.mapping import map_leading_axis
from alphamepol.compute.trees import take_from_trees
from alphamepol.environments.horizons import check_horizon
from alphamepol.environments.host import AnyClass
from alphamepol.errors import InputError, RunError
from alphamepol.measuring.particles import particle_size, policies_with_class_units, units_of_particles
from alphamepol.measuring.sample_checks import CoincidenceError
from alphamepol.measuring.samples import SamplePlan, draw_sample_members, entropies_of_samples
from alphamepol.policies.networks import feed_network
from alphamepol.policies.policy import Policy, stack_policies
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.policies.shape import check_policy_shape, policy_shape
from alphamepol.runs.folder import class_in_folder_name, default_run_folder
from alphamepol.runs.loop import LoopState
from alphamepol.runs.sources import Given, Source, joined_source_names, read_source
from alphamepol.runs.untrained import FirstLook, untrained_policies_for_class


def start_pretraining(
    environment_class: AnyClass, config: PretrainConfig, given: Mapping[int, Policy] | None = None, *, look: bool = True
) -> LoopState:
    """Return the state before epoch 0: fresh or given policies, and Adam moments of zero.

    The seeds take the given policies in turn; a seed that `given` has takes its own. If `initial_mean` is given, the
    mean of each policy is regressed to it. If `look` is false, the class is not sampled to measure scales, and only the
    shapes of the state are right.
    """
    keys = split_keys_by_purpose(seed_keys(config.seed_list))
    build_keys, regress_keys = _split_start_keys(keys.policy)
    if given:
        in_turn = list(given.values())
        chosen = [given.get(seed, in_turn[i % len(in_turn)]) for i, seed in enumerate(config.seed_list)]
        policies = stack_policies(chosen)
    else:
        members, _ = draw_sample_members(keys.policy, 0, environment_class.distribution, config.minibatches)
        first = FirstLook(members, config.batch, config.horizon) if look else None
        policies = untrained_policies_for_class(build_keys, environment_class, config.policy, first, config.encoder)
    if look:
        policies = policies_with_class_units(policies, environment_class, config)
    elif policies.scaling is not None:
        units = jnp.ones((config.seeds, particle_size(environment_class, config.encoder)))
        policies = eqx.tree_at(lambda policies: policies.scaling.particle_deviation, policies, units)
    if config.initial_mean != "none":
        space = environment_class[0].observation_space
        assert isinstance(space, gymnasium.spaces.Box)  # `check_pretraining_start` has checked this
        target, low, high = (jnp.array(part, float) for part in (config.initial_mean, space.low, space.high))
        policies = _regress_start_policies(policies, regress_keys, target, low, high)
    return LoopState(start_learners(policies), keys.epochs)


def check_given_policies(source: Source, environment_class: AnyClass) -> None:
    """Raise an `InputError` if pre-training cannot begin with these policies in the class."""
    if not source.policies:
        raise InputError("init: random was given; leave out --init to begin with an untrained policy")
    for policy in source.policies.values():
        check_policy_shape(policy, environment_class, f"init {source.name}")


def settings_of_given_policies(config: PretrainConfig, given: Mapping[int, Policy]) -> PretrainConfig:
    """Return the settings of a run that begins with given policies: memory, scaling and network are theirs."""
    policy = next(iter(given.values()))
    return dataclasses.replace(
        config,
        hidden=tuple(layer.out_features for layer in policy.layers[:-1]),
        memory="none" if policy.memory is None else policy.memory.kind,
        recurrent_units=(policy.memory and policy.memory.units) or config.recurrent_units,
        normalise=policy.scaling is not None,
        initial_mean="none",
    )


def untrained_start_policies(environment_class: AnyClass, config: PretrainConfig) -> dict[int, Policy]:
    """Return the policies that `random` stands for, by seed: the policies before epoch 0, without regression."""
    start = start_pretraining(environment_class, dataclasses.replace(config, initial_mean="none"))
    return {seed: take_from_trees(start.learners.policy, i) for i, seed in enumerate(config.seed_list)}


def objective_of_untrained_start(plan: SamplePlan, config: PretrainConfig) -> float | None:
    """Return the objective of untrained policies, on samples like those of an epoch, as the mean over seeds.

    Particles get noise if they coincide. The result is None if the samples cannot be measured.
    """
    policies = stack_policies(list(untrained_start_policies(plan.environment_class, config).values()))
    keys = split_keys_by_purpose(seed_keys(config.seed_list)).evaluation
    members, keys = draw_sample_members(
        keys, 0, plan.environment_class.distribution, config.minibatches, config.member_batches
    )
    try:
        trajectories = plan.collect(policies, members, "Random", keys=keys)
        units = units_of_particles(policies)
        try:
            measured = plan.measure(trajectories, units, "Random", keys=keys)
        except CoincidenceError:
            measured = plan.with_noise().measure(trajectories, units, "Random", keys=keys)
    except RunError:
        return None
    entropies = entropies_of_samples(measured.neighbourhood)
    tails = [one[tail_of_entropies(one, config.tail_size, config.ranked_together)] for one in entropies]
    return float(np.mean(tails))


@jax.jit
def _split_start_keys(keys: Key[Array, " seeds"]) -> tuple[Key[Array, " seeds"], Key[Array, " seeds"]]:
    """Return a key for building and a key for regressing the policy of each seed."""
    parts = jax.vmap(jax.random.split)(keys)
    return parts[:, 0], parts[:, 1]


@jax.jit
def start_learners(policies: Policy) -> Learner:
    return jax.vmap(Learner.start)(policies)


@jax.jit
def _regress_start_policies(policies: GaussianPolicy, keys: Key[Array, " seeds"], target, low, high) -> GaussianPolicy:
    def one_seed(policy: GaussianPolicy, key: PRNGKeyArray) -> GaussianPolicy:
        return regress_mean_at_start(policy, target, low, high, key=key)

    return map_leading_axis(one_seed)(policies, keys)


def regress_mean_at_start(
    policy: GaussianPolicy,
    target: Float[Array, " action"],
    low: Float[Array, " observation"],
    high: Float[Array, " observation"],
    *,
    key: PRNGKeyArray,
) -> GaussianPolicy:
    """Fit the mean to a constant action, by 50 Adam steps with rate 2.5e-4 on 5000 uniform observations each.

    Every run then starts from the same policy, which explores badly (docs/method.md, "The start"). The inputs that
    memory adds to an observation are drawn from [−1, 1].
    """
    if policy.scaling is not None:
        actions = policy.scaling.actions
        target = (target - jnp.array(actions.middles)) / jnp.array(actions.half_ranges)
        low, high = policy.scaling.observation(low), policy.scaling.observation(high)
    optimiser = optax.adam(2.5e-4)
    remembered = policy.layers[0].weight.shape[-1] - low.size
    low, high = jnp.pad(low, (0, remembered), constant_values=-1), jnp.pad(high, (0, remembered), constant_values=1)

    def loss(layers: tuple[eqx.nn.Linear, ...], inputs: Float[Array, "samples inputs"]) -> Float[Array, ""]:
        return jnp.mean((jax.vmap(lambda one: feed_network(layers, one))(inputs) - target) ** 2)

    def fit(carry, step_key):
        layers, moments = carry
        inputs = jax.random.uniform(step_key, (5000, low.size), minval=low, maxval=high)
        updates, moments = optimiser.update(jax.grad(loss)(layers, inputs), moments)
        return (eqx.apply_updates(layers, updates), moments), None

    start = policy.layers, optimiser.init(policy.layers)  # pyright: ignore[reportArgumentType] (not modules)
    (layers, _), _ = jax.lax.scan(fit, start, jax.random.split(key, 50))
    return eqx.tree_at(lambda policy: policy.layers, policy, layers)


def check_pretraining_start(environment_class: AnyClass, config: PretrainConfig) -> None:
    """Raise an `InputError` if pre-training cannot start on the class with these settings.

    The members must allow the horizon, and a policy must exist for the spaces of the class. On-policy updates have no
    trust region that could be set. `initial_mean` needs one number per action component, and observations that can be
    drawn from a finite range.
    """
    usual = PretrainConfig.trust_region
    if config.update == "on-policy" and config.trust_region != usual:
        raise InputError(
            f"trust_region: {config.trust_region:g} was given; on-policy updates have no trust region, "
            f"so leave it at {usual:g}"
        )
    if config.diagnostics and environment_class.generator is not None:
        raise InputError("diagnostics: a generated class has no pairs of members to compare; leave out --diagnostics")
    check_horizon(environment_class, config.horizon)
    needed = policy_shape(environment_class)
    if config.initial_mean == "none":
        return
    given = " ".join(f"{value:g}" for value in config.initial_mean)
    if needed.image is not None:
        raise InputError(f"initial_mean: {given} was given; policies that see images are not regressed, use none")
    if needed.kind != "gaussian":
        raise InputError(
            f"initial_mean: {given} was given; actions of class {environment_class.name} have no mean, use none"
        )
    if len(config.initial_mean) != needed.action_size:
        raise InputError(f"initial_mean: {given} was given; an action has {needed.action_size} components")
    space = environment_class[0].observation_space
    assert isinstance(space, gymnasium.spaces.Box)  # `policy_shape` has checked this
    if not (np.all(np.isfinite(space.low)) and np.all(np.isfinite(space.high))):
        raise InputError("initial_mean: the observations have no finite range to draw from; use none")


def folder_of_pretraining(
    class_name: str, config: PretrainConfig, init: Given | None = None, checkpoint: int | None = None
) -> Path:
    """Return the run folder that `pretrain` uses if none is given."""
    source = None if init is None else read_source(init, checkpoint=checkpoint)
    if source is not None:
        config = settings_of_given_policies(config, source.policies)
    return default_folder_of_pretraining(class_name, config, source)


def default_folder_of_pretraining(class_name: str, config: PretrainConfig, source: Source | None) -> Path:
    memory = "" if config.memory == "none" else config.memory
    begun = "" if source is None else f"from-{joined_source_names([source])}"
    words = class_in_folder_name(class_name), f"alpha-{config.alpha:g}", memory, f"seed-{config.seed}", begun
    return default_run_folder(*words)
