"""Test that policies can be exported to Stable-Baselines3 and read back."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO

from alphamepol import (
    CategoricalPolicy,
    EnvironmentClass,
    GaussianPolicy,
    Gridworld,
    InputError,
    export,
    load_policy,
    save_policy,
)
from alphamepol.policies.stable_baselines3 import to_sb3_zip

RUN = "gridworld-slope/alpha-0.2"
FILE = Path(__file__).parents[2] / "results/policies/gridworld-slope/alpha-0.2.safetensors"
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
SMALL_ACTION = gymnasium.spaces.Box(-0.2, 0.2, (2,), np.float32)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sb3") / "policy.zip"
    export(RUN, path, "sb3")
    return path


@pytest.fixture
def near_goal():
    """Return a task with a goal in the same room. The exploring policy does not always reach it in 100 steps."""
    return gymnasium.make("alphamepol/GWN-Goal-v0", goal=(-0.9, 0.25), horizon=100)


def mean_return(model, env, episodes: int = 30) -> float:
    total = 0.0
    for seed in range(episodes):
        observation, _ = env.reset(seed=1000 + seed)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(model.predict(observation)[0])
            total += float(reward)
            over = terminated or truncated
    return total / episodes


@pytest.mark.parametrize("algorithm", [TRPO, PPO])
def test_the_action_means_and_deviations_agree(algorithm, exported) -> None:
    policy = load_policy(FILE)
    model = algorithm.load(exported, device="cpu")
    states = np.random.default_rng(0).uniform(-1, 1, (1000, 2)).astype(np.float32)
    with torch.no_grad():
        distribution = model.policy.get_distribution(torch.tensor(states)).distribution
    np.testing.assert_allclose(distribution.mean, jax.vmap(policy.mean)(states), atol=1e-5)
    np.testing.assert_allclose(distribution.stddev[0], np.exp(policy.log_std), rtol=1e-5)
    clipped = model.predict(states, deterministic=True)[0]
    np.testing.assert_allclose(clipped, np.clip(jax.vmap(policy.mean)(states), -0.2, 0.2), atol=1e-5)


def test_five_iterations_of_their_trpo_improve_the_return(exported, near_goal) -> None:
    model = TRPO.load(exported, env=near_goal, device="cpu", n_steps=1000, batch_size=250, learning_rate=1e-2)
    model.set_random_seed(0)
    before = mean_return(model, near_goal)
    model.learn(5 * 1000)
    assert model._n_updates == 5
    after = mean_return(model, near_goal)
    assert before < 0.8
    assert after > before + 0.1


def test_their_ppo_trains_on_too(exported, near_goal) -> None:
    """The weights change. They would not if the file held TRPO's gradient clipping of 0."""
    model = PPO.load(exported, env=near_goal, device="cpu", n_steps=500, batch_size=250)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.set_random_seed(0)
    model.learn(500)
    after = model.policy.state_dict()
    assert not torch.equal(after["action_net.weight"], before["action_net.weight"])
    assert not torch.equal(after["value_net.weight"], before["value_net.weight"])


def test_what_was_exported_is_read_back_to_the_bit(exported, tmp_path) -> None:
    policy = load_policy(FILE)
    export(RUN, tmp_path / "policy.safetensors", "safetensors", seed=0)
    for path in (exported, tmp_path / "policy.safetensors"):
        back = load_policy(path)
        assert all(map(np.array_equal, jax.tree.leaves(back), jax.tree.leaves(policy)))
    save_policy(policy, tmp_path / "again.safetensors")
    assert (tmp_path / "policy.safetensors").read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_a_policy_that_trained_on_there_comes_back(exported, near_goal, tmp_path) -> None:
    model = PPO.load(exported, env=near_goal, device="cpu", n_steps=100, batch_size=50)
    model.learn(100)
    model.save(tmp_path / "trained.zip")
    policy = load_policy(tmp_path / "trained.zip")
    observation = np.array([0.3, -0.4], np.float32)
    with torch.no_grad():
        theirs = model.policy.get_distribution(torch.tensor(observation[None])).distribution.mean[0]
    np.testing.assert_allclose(policy.mean(observation), theirs, atol=1e-5)


def test_discrete_actions(tmp_path) -> None:
    policy = CategoricalPolicy(3, 4, (16,), key=jax.random.key(0))
    observations, actions = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32), gymnasium.spaces.Discrete(4)
    path = tmp_path / "policy.zip"
    path.write_bytes(to_sb3_zip(policy, observations, actions))
    states = np.random.default_rng(0).uniform(-1, 1, (100, 3)).astype(np.float32)
    with torch.no_grad():
        probabilities = TRPO.load(path, device="cpu").policy.get_distribution(torch.tensor(states)).distribution.probs
    expected = jax.vmap(lambda one: jax.nn.softmax(policy.distribution(one).logits))(states)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    back = load_policy(path)
    assert isinstance(back, CategoricalPolicy)
    assert all(map(np.array_equal, jax.tree.leaves(back), jax.tree.leaves(policy)))


class Opens:
    """An object that opens a file for writing when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_reading_a_zip_runs_nothing_in_it(exported, tmp_path) -> None:
    """A pickle in the settings is not loaded, and weights that are not tensors are refused."""
    trace = tmp_path / "it-ran"
    poison = pickle.dumps(Opens(trace))
    with zipfile.ZipFile(exported) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    settings = json.loads(parts["data"])
    import base64

    settings["policy_class"][":serialized:"] = base64.b64encode(poison).decode()
    in_settings = tmp_path / "settings.zip"
    with zipfile.ZipFile(in_settings, "w") as file:
        for name, content in (parts | {"data": json.dumps(settings).encode()}).items():
            file.writestr(name, content)
    load_policy(in_settings)
    assert not trace.exists()

    buffer = io.BytesIO()
    torch.save({"log_std": Opens(trace)}, buffer)
    in_weights = tmp_path / "weights.zip"
    with zipfile.ZipFile(in_weights, "w") as file:
        for name, content in (parts | {"policy.pth": buffer.getvalue()}).items():
            file.writestr(name, content)
    with pytest.raises(InputError, match="its weights are not plain tensors") as error:
        load_policy(in_weights)
    assert "\n" not in str(error.value)
    assert not trace.exists()


def test_zips_that_hold_no_policy_of_ours_are_refused(tmp_path) -> None:
    def refused(reason: str, name: str = "model.zip") -> None:
        with pytest.raises(InputError, match=reason) as error:
            load_policy(tmp_path / name)
        assert "\n" not in str(error.value)

    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("hello", "world")
    refused("cannot be read as a policy", "other.zip")
    PPO("MlpPolicy", "CartPole-v1", device="cpu").save(tmp_path / "model.zip")
    refused("its activation is Tanh, only ReLU is possible")
    PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"activation_fn": torch.nn.ReLU6}, device="cpu").save(
        tmp_path / "model.zip"
    )
    refused("ReLU6'>, only ReLU is possible")
    several = gymnasium.spaces.MultiDiscrete([3, 3])
    policy = CategoricalPolicy(2, 6, (4,), key=jax.random.key(0))
    (tmp_path / "model.zip").write_bytes(to_sb3_zip(policy, BOX, several))
    refused("MultiDiscrete'>, only Box and Discrete are possible")
    relu = {"activation_fn": torch.nn.ReLU}
    PPO("MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs=relu, device="cpu").save(tmp_path / "model.zip")
    refused("its σ depends on the state")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((RUN, "policy.bin", "sb3"), "for --to sb3 its name must end in .zip"),
        ((RUN, "policy.zip", "safetensors"), "for --to safetensors its name must end in .safetensors"),
        ((RUN, "policy.zip", "onnx"), "to: 'onnx' was given; choose from sb3, safetensors"),
        (("random", "policy.zip", "sb3"), "random is no policy that could be exported"),
        ((FILE, "policy.zip", "sb3"), "give it with --class"),
        (("nowhere", "policy.zip", "sb3"), "there is no run folder, policy file or released policy nowhere"),
    ],
)
def test_bad_exports_get_a_sentence(arguments, sentence, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        export(*arguments)
    assert sentence in str(error.value)
    assert not any(tmp_path.iterdir())


def test_a_class_of_ones_own_can_be_exported(tmp_path) -> None:
    mine = EnvironmentClass({"open": Gridworld("..\n..")}, name="mine")
    policy = GaussianPolicy(2, 2, (4,), key=jax.random.key(0))
    save_policy(policy, tmp_path / "policy.safetensors")
    export(tmp_path / "policy.safetensors", tmp_path / "policy.zip", "sb3", environment_class=mine)
    assert TRPO.load(tmp_path / "policy.zip", device="cpu").action_space == SMALL_ACTION


def test_seed_and_class_choose_what_is_exported(tmp_path) -> None:
    with pytest.raises(InputError, match="seed: 3 was given"):
        export(RUN, tmp_path / "policy.zip", "sb3", seed=3)
    alien = tmp_path / "alien.safetensors"
    save_policy(GaussianPolicy(5, 2, (4,), key=jax.random.key(0)), alien)
    with pytest.raises(InputError, match="it maps 5 observation numbers"):
        export(alien, tmp_path / "policy.zip", "sb3", environment_class="gridworld-slope")
    export(FILE, tmp_path / "policy.zip", "sb3", environment_class="multigrid")
    assert TRPO.load(tmp_path / "policy.zip", device="cpu").observation_space == BOX
    assert TRPO.load(tmp_path / "policy.zip", device="cpu").action_space == SMALL_ACTION
