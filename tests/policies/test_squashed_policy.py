"""Test SAC's policy: its range, its σ, and the description from which it can be built again."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol.policies.distributions import SquashedNormal
from alphamepol.policies.image_networks import Trunk
from alphamepol.policies.memory import ActionRange
from alphamepol.policies.policy_kinds import LOG_STD_RANGE, SquashedPolicy

ACTIONS = ActionRange(0, (-0.2, -3.0), (0.6, 1.0))


@pytest.fixture(scope="module")
def policy() -> SquashedPolicy:
    return SquashedPolicy(3, ACTIONS, (16, 8), key=jax.random.key(0))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_it_acts_within_the_range(policy: SquashedPolicy, scale: float) -> None:
    """Actions stay within the range however large the outputs of the network are."""
    wild = jax.tree.map(lambda leaf: scale * leaf, policy)
    observations = jax.random.normal(jax.random.key(1), (500, 3))
    keys = jax.random.split(jax.random.key(2), 500)
    actions, remembered = jax.vmap(lambda observation, key: wild.act(observation, key=key))(observations, keys)
    assert remembered is None
    assert actions.shape == (500, 2)
    actions, rounding = np.asarray(actions, float), 1e-6
    assert np.all(actions >= np.array(ACTIONS.low) - rounding)
    assert np.all(actions <= np.array(ACTIONS.high) + rounding)


def test_the_first_outputs_are_means_and_the_others_stand_for_deviations(policy: SquashedPolicy) -> None:
    """An output of the network moves ln σ over its range, from end to end. At an output of 0 it is in the middle."""
    lowest, highest = LOG_STD_RANGE
    head = policy.head(jnp.array([0.3, -7.0, 0.0, 0.5]))
    assert isinstance(head, SquashedNormal)
    np.testing.assert_array_equal(head.normal.mean, np.float32([0.3, -7.0]))
    middle, half = (lowest + highest) / 2, (highest - lowest) / 2
    np.testing.assert_allclose(head.normal.log_std, [middle, middle + half * math.tanh(0.5)], rtol=1e-5)
    ends = policy.head(jnp.array([0.0, 0.0, -1e4, 1e4])).normal.log_std
    np.testing.assert_allclose(ends, [lowest, highest])


def test_its_network_is_worked_out_in_numpy(policy: SquashedPolicy) -> None:
    observation = np.array([0.3, -0.8, 1.1], np.float32)
    hidden = observation
    for layer in policy.layers[:-1]:
        hidden = np.maximum(np.asarray(layer.weight) @ hidden + np.asarray(layer.bias), 0)
    expected = np.asarray(policy.layers[-1].weight) @ hidden + np.asarray(policy.layers[-1].bias)
    normal = policy.distribution(observation).normal
    np.testing.assert_allclose(normal.mean, expected[:2], rtol=1e-5)
    np.testing.assert_allclose(normal.log_std, -1.5 + 3.5 * np.tanh(expected[2:]), rtol=1e-5)


def test_it_says_what_is_needed_to_build_it_again(policy: SquashedPolicy) -> None:
    assert policy.kind == "squashed"
    assert (policy.observation_size, policy.action_size) == (3, 2)
    assert policy.architecture == {
        "kind": "squashed",
        "observation_size": 3,
        "action_size": 2,
        "hidden": [16, 8],
        "actions": {"low": [-0.2, -3.0], "high": [0.6, 1.0]},
    }
    parts = policy.architecture
    actions = ActionRange.from_description(parts["actions"])
    again = SquashedPolicy(parts["observation_size"], actions, parts["hidden"], key=jax.random.key(5))
    assert jax.tree.structure(again) == jax.tree.structure(policy)
    assert [leaf.shape for leaf in jax.tree.leaves(again)] == [leaf.shape for leaf in jax.tree.leaves(policy)]


def test_it_sees_images_through_a_trunk() -> None:
    trunk = Trunk((7, 7, 3), key=jax.random.key(1))
    policy = SquashedPolicy(147, ACTIONS, (8,), trunk, key=jax.random.key(0))
    assert (policy.observation_size, policy.architecture["image"]) == (147, [7, 7, 3])
    image = jax.random.randint(jax.random.key(2), (7, 7, 3), 0, 10).astype(jnp.uint8)
    mean = eqx.filter_jit(lambda image: policy.distribution(image).normal.mean)
    assert mean(image).shape == (2,)
    assert not np.allclose(mean(image), mean(jnp.zeros((7, 7, 3), jnp.uint8)))
