"""Test that scales are those of the measured steps, and that a scaled policy is the same policy in other units."""

import dataclasses
from functools import partial

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stable_baselines3 import PPO
from toys import walk_seen_in

from alphamepol.algorithms.alphamepol.epoch import run_epoch
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.errors import InputError
from alphamepol.measuring.samples import SamplePlan
from alphamepol.policies.files import save_policy
from alphamepol.policies.memory import ActionRange
from alphamepol.policies.policy import Policy
from alphamepol.policies.scaling import Scaling, deviation_for_scaling
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.policies.stable_baselines3 import to_sb3_zip
from alphamepol.policies.unscaled import unscaled_policy
from alphamepol.runs.sources import load_policy
from alphamepol.settings.policy import PolicySettings

ACTIONS = ActionRange(0, (-3.0, 0.0), (1.0, 10.0))


def test_mean_and_deviation_are_of_all_valid_steps_so_far():
    random = np.random.default_rng(0)
    scaling, seen = Scaling(3, 2, ACTIONS), []
    for count in (7, 40, 13):
        raw = random.normal([5.0, -400.0, 0.01], [1.0, 90.0, 0.002], (4, count, 3))
        valid = random.uniform(size=(4, count)) < 0.7
        seen.append(raw[valid])
        # A policy with these scales perceives the scaled observations.
        scaled = jax.vmap(jax.vmap(scaling.observation))(raw)
        scaling = scaling.measure(scaled, jnp.asarray(valid))
    together = np.concatenate(seen)
    np.testing.assert_allclose(scaling.mean, together.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(scaling.deviation, together.std(axis=0), rtol=1e-4)
    assert float(scaling.measured_steps) == len(together)


def test_what_never_moves_keeps_its_unit():
    scaling = Scaling(2, 1, ACTIONS)
    for _ in range(3):
        observations = jnp.tile(scaling.observation(np.array([3e5, 0.0])), (2, 50, 1))
        scaling = scaling.measure(observations, jnp.ones((2, 50), bool))
        np.testing.assert_allclose(scaling.mean, [3e5, 0.0])
        np.testing.assert_array_equal(scaling.deviation, 1.0)
    steps = np.linspace(0, 1, 20)
    particles = np.stack([np.full(20, 7.0), steps, 1e8 * steps], axis=-1).astype(np.float32)
    valid = np.arange(20) < 10
    found = deviation_for_scaling(jnp.asarray(particles), jnp.asarray(valid))
    np.testing.assert_allclose(found, [1.0, steps[:10].std(), 1e8 * steps[:10].std()], rtol=1e-5)


@pytest.mark.parametrize("unit", [2.0**-100, 2.0**-70, 1.0, 2.0**70, 2.0**100])
def test_units_of_particles_whose_squares_are_no_numbers(unit: float) -> None:
    particles, valid = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32), jnp.ones(40, bool)
    found = deviation_for_scaling(jnp.asarray(particles * np.float32(unit)), valid)
    np.testing.assert_allclose(found, particles.std(axis=0) * unit, rtol=1e-5)
    np.testing.assert_array_equal(found, deviation_for_scaling(jnp.asarray(particles), valid) * np.float32(unit))


def scaled_policy(kind: str, memory: str) -> Policy:
    actions = ACTIONS if kind == "gaussian" else ActionRange(4)
    shape = PolicyShape(kind, 3, actions.size, actions)
    settings = PolicySettings((6,), -0.7, memory, 5, normalise=True)
    policy = fresh_policy(shape, settings, 2, key=jax.random.key(1))
    measured = jnp.array([5.0, -400.0, 0.1]), jnp.array([1.0, 90.0, 0.02]) ** 2
    where = lambda policy: (policy.scaling.mean, policy.scaling.variance)  # noqa: E731
    return eqx.tree_at(where, policy, measured)


@pytest.mark.parametrize("memory", ["none", "last", "recurrent"])
@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_an_unscaled_policy_acts_alike(kind, memory):
    policy = scaled_policy(kind, memory)
    plain = unscaled_policy(policy)
    assert plain.scaling is None
    observations = np.array([[4.0, -350.0, 0.12], [6.5, -500.0, 0.1], [5.0, -420.0, 0.06]], np.float32)
    mine, other = policy.begin(), plain.begin()
    for step, observation in enumerate(observations):
        one, two = policy.distribution(observation, mine), plain.distribution(observation, other)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
        action, mine = policy.act(observation, mine, key=jax.random.key(step))
        _, other = plain.act(observation, other, key=jax.random.key(step))
        if memory != "none":
            other = plain.memory.remember(observation, action, other.hidden)
    assert unscaled_policy(plain) is plain


def test_actions_are_counted_from_the_middle_of_their_range_in_halves_of_it():
    policy = scaled_policy("gaussian", "none")
    silent = eqx.tree_at(lambda policy: policy.layers, policy, jax.tree.map(jnp.zeros_like, policy.layers))
    here = silent.distribution(np.zeros(3, np.float32))
    np.testing.assert_allclose(here.mean, [-1.0, 5.0])
    np.testing.assert_allclose(np.exp(here.log_std), np.exp(-0.7) * np.array([2.0, 5.0]), rtol=1e-6)
    np.testing.assert_allclose(silent.mean(np.zeros(3, np.float32)), [-1.0, 5.0])


def test_scales_are_saved_with_the_policy_and_a_forged_one_is_refused(tmp_path):
    policy = scaled_policy("gaussian", "last")
    save_policy(policy, tmp_path / "policy.safetensors")
    again = load_policy(tmp_path / "policy.safetensors")
    assert eqx.tree_equal(policy, again)
    forged = eqx.tree_at(lambda policy: policy.scaling.particle_deviation, policy, jnp.array([1.0, 0.0]))
    save_policy(forged, tmp_path / "forged.safetensors")
    with pytest.raises(InputError, match="scaling must be finite and above 0"):
        load_policy(tmp_path / "forged.safetensors")


def test_learning_does_not_depend_on_units(tiny):
    config = dataclasses.replace(tiny, normalise=True, initial_mean="none", initial_log_std=-0.5)
    found = []
    for unit in (1.0, 1024.0):
        makers = {"calm": partial(walk_seen_in, unit), "windy": partial(walk_seen_in, unit, wind=(0.2, 0.0))}
        walks = gymnasium_class(makers, workers=1)
        state = start_pretraining(walks, config)
        plan = SamplePlan.of(walks, config, config.seed_list)
        state, report, *_ = run_epoch(state, 0, plan, config, Stopwatch(SAMPLING, NEIGHBOURS, LEARNING))
        found.append((report.entropies, jax.tree.map(lambda leaf: leaf[0], state.learners.policy)))
    (entropies, policy), (other_entropies, other) = found
    np.testing.assert_allclose(entropies, other_entropies, atol=1e-3)
    units = np.array([1024.0, 1.0])
    np.testing.assert_allclose(units * policy.scaling.deviation, other.scaling.deviation, rtol=1e-3)
    np.testing.assert_allclose(units * policy.scaling.particle_deviation, other.scaling.particle_deviation, rtol=1e-3)
    for one, two in zip(jax.tree.leaves(policy.layers), jax.tree.leaves(other.layers), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


@pytest.mark.parametrize("memory", ["none", "last"])
def test_a_scaled_policy_acts_alike_in_stable_baselines3(memory, tmp_path):
    policy = scaled_policy("gaussian", memory)
    observed = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    applied = gymnasium.spaces.Box(np.array(ACTIONS.low, np.float32), np.array(ACTIONS.high, np.float32))
    (tmp_path / "policy.zip").write_bytes(to_sb3_zip(policy, observed, applied))
    model = PPO.load(tmp_path / "policy.zip", device="cpu")
    observation = np.array([4.0, -350.0, 0.12], np.float32)
    shown = np.asarray(unscaled_policy(policy).perceive(observation))
    expected = np.clip(policy.mean(observation), ACTIONS.low, ACTIONS.high)
    np.testing.assert_allclose(model.predict(shown, deterministic=True)[0], expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(InputError, match="Stable-Baselines3 needs bounded actions"):
        to_sb3_zip(policy, observed, gymnasium.spaces.Box(-np.inf, 1.0, (2,), np.float32))
