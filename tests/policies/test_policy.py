"""Test policies: their density, their initial weights, and their files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.stats import norm

from alphamepol import CategoricalPolicy, GaussianPolicy, InputError, SquashedPolicy, load_policy, save_policy
from alphamepol.algorithms.alphamepol.start import regress_mean_at_start
from alphamepol.policies.memory import ActionRange

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def policy() -> GaussianPolicy:
    return GaussianPolicy(2, 3, (16, 8), -0.7, key=jax.random.key(0))


def test_mean_is_the_network_worked_out_in_numpy(policy: GaussianPolicy) -> None:
    observation = np.array([0.3, -0.8], np.float32)
    hidden = observation
    for layer in policy.layers[:-1]:
        hidden = np.maximum(np.asarray(layer.weight) @ hidden + np.asarray(layer.bias), 0)
    expected = np.asarray(policy.layers[-1].weight) @ hidden + np.asarray(policy.layers[-1].bias)
    np.testing.assert_allclose(policy.mean(observation), expected, rtol=1e-5)


def test_log_prob_agrees_with_scipy(policy: GaussianPolicy) -> None:
    observation, action = jnp.array([0.3, -0.8]), jnp.array([0.1, 0.2, -2.0])
    expected = norm.logpdf(action, policy.mean(observation), np.exp(-0.7)).sum()
    assert policy.distribution(observation).log_prob(action) == pytest.approx(expected, rel=1e-5)


def test_samples_have_the_mean_and_deviation(policy: GaussianPolicy) -> None:
    observation = jnp.array([0.3, -0.8])
    actions = jax.vmap(lambda key: policy.act(observation, key=key)[0])(jax.random.split(jax.random.key(1), 20_000))
    np.testing.assert_allclose(actions.mean(axis=0), policy.mean(observation), atol=0.02)
    np.testing.assert_allclose(actions.std(axis=0), np.exp(-0.7), rtol=0.03)


def test_policies_without_a_mean_have_probabilities_or_a_median_and_say_so() -> None:
    observation, keys = jnp.array([0.3, -0.8]), jax.random.split(jax.random.key(1), 20_000)
    chooser = CategoricalPolicy(2, 3, (16, 8), key=jax.random.key(2))
    choices = jax.vmap(lambda key: chooser.act(observation, key=key)[0])(keys)
    np.testing.assert_allclose(chooser.probabilities(observation), np.bincount(choices) / 20_000, atol=0.02)
    with pytest.raises(InputError, match=r"which have no mean; call probabilities\(observation\)"):
        chooser.mean(observation)
    squashed = SquashedPolicy(2, ActionRange(0, (-3.0,), (1.0,)), (16, 8), key=jax.random.key(2))
    actions = jax.vmap(lambda key: squashed.act(observation, key=key)[0])(keys)
    np.testing.assert_allclose(squashed.median(observation), np.median(actions, axis=0), atol=0.02)
    with pytest.raises(InputError, match=r"call median\(observation\)"):
        squashed.mean(observation)


def test_default_shape_and_xavier_weights() -> None:
    policy = GaussianPolicy(2, 2, key=jax.random.key(3))
    assert [layer.weight.shape for layer in policy.layers] == [(300, 2), (300, 300), (2, 300)]
    np.testing.assert_allclose(policy.log_std, -1.5)
    weights = np.asarray(policy.layers[1].weight)
    bound = np.sqrt(6 / 600)
    assert np.abs(weights).max() <= bound
    assert weights.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)


def test_regression_brings_the_mean_to_the_constant_action() -> None:
    policy = GaussianPolicy(2, 2, key=jax.random.key(4))
    target, corner = jnp.array([-0.2, 0.2]), jnp.ones(2)
    regressed = regress_mean_at_start(policy, target, -corner, corner, key=jax.random.key(5))
    observations = jax.random.uniform(jax.random.key(6), (1000, 2), minval=-1.0)
    before, after = (jnp.abs(jax.vmap(p.mean)(observations) - target).mean() for p in (policy, regressed))
    assert after < 0.05 < 0.3 < before
    np.testing.assert_array_equal(regressed.log_std, policy.log_std)


def test_a_saved_policy_comes_back_and_the_file_is_reproducible(policy: GaussianPolicy, tmp_path) -> None:
    first, second = tmp_path / "a.safetensors", tmp_path / "deep" / "b.safetensors"
    save_policy(policy, first)
    save_policy(load_policy(first), second)
    assert first.read_bytes() == second.read_bytes()
    observation = np.array([0.5, 0.5], np.float32)
    np.testing.assert_array_equal(load_policy(second).mean(observation), policy.mean(observation))
    assert not list(tmp_path.glob("*.tmp"))


def test_the_file_is_plain_safetensors_with_the_architecture(policy: GaussianPolicy, tmp_path) -> None:
    path = tmp_path / "policy.safetensors"
    save_policy(policy, path)
    arrays = load_file(path)
    assert sorted(arrays)[:2] == ["layers.0.bias", "layers.0.weight"]
    header_size = int.from_bytes(path.read_bytes()[:8], "little")
    metadata = json.loads(path.read_bytes()[8 : 8 + header_size])["__metadata__"]
    assert json.loads(metadata["alphamepol"])["architecture"] == {
        "kind": "gaussian",
        "observation_size": 2,
        "action_size": 3,
        "hidden": [16, 8],
    }


def _damage(path, how: str, policy: GaussianPolicy) -> None:
    save_policy(policy, path)
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-10])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("hello")
    elif how == "pickle":
        path.write_bytes(b"\x80\x04\x95\x00\x00\x00\x00.")
    elif how == "foreign":
        save_file({"weight": np.zeros(3, np.float32)}, path)
    elif how == "forged size":
        path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    elif how == "other shapes":
        header = {"format": "alphamepol-policy-1", "architecture": dict(policy.architecture, hidden=[9])}
        save_file(load_file(path), path, metadata={"alphamepol": json.dumps(header)})
    elif how == "huge architecture":
        header = {"format": "alphamepol-policy-1", "architecture": dict(policy.architecture, hidden=[10**9])}
        save_file(load_file(path), path, metadata={"alphamepol": json.dumps(header)})
    elif how == "strange architecture":
        header = {"format": "alphamepol-policy-1", "architecture": {"kind": "oracle"}}
        save_file(load_file(path), path, metadata={"alphamepol": json.dumps(header)})


@pytest.mark.parametrize(
    "how",
    [
        "truncated",
        "empty",
        "text",
        "pickle",
        "foreign",
        "forged size",
        "other shapes",
        "huge architecture",
        "strange architecture",
    ],
)
def test_an_unreadable_file_gets_a_sentence(policy: GaussianPolicy, tmp_path, how: str) -> None:
    path = tmp_path / "policy.safetensors"
    _damage(path, how, policy)
    with pytest.raises(InputError, match=r"policy: .*policy\.safetensors cannot be read as a policy"):
        load_policy(path)


def test_a_missing_file_gets_a_sentence(tmp_path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        load_policy(tmp_path / "nothing")
