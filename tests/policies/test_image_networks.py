"""Test convolutions against PyTorch's, the random encoder and its noise, and policies that see images."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.stats import kstest, truncnorm

from alphamepol import InputError, MiniGrid, RandomEncoder, load_policy, save_policy
from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities
from alphamepol.algorithms.trpo.critic import Critic
from alphamepol.algorithms.trpo.linearised import linearise_policy
from alphamepol.compute.mapping import mapped_rows_per_product
from alphamepol.environments.image_spaces import image_space_shape
from alphamepol.files.arrays import pack_arrays
from alphamepol.policies.files import FORMAT
from alphamepol.policies.image_networks import Trunk, image_encoder_noise
from alphamepol.policies.shape import PolicyShape, fresh_policy
from alphamepol.policies.unscaled import unscaled_policy
from alphamepol.sampling.rollout import rollout
from alphamepol.sampling.trajectories import Episodes
from alphamepol.settings.policy import PolicySettings

ROOM = """
    ######
    #>...#
    #....#
    ######
"""
MEMBER = MiniGrid(ROOM)
SHAPE = PolicyShape.of_spaces(MEMBER.observation_space, MEMBER.action_space)


def with_torch(trunk: Trunk, image: np.ndarray) -> np.ndarray:
    """Return the output of the same network with PyTorch's convolutions. The image has channels last."""
    seen = torch.from_numpy(np.moveaxis(image, -1, 0)[None].astype(np.float32))
    for number, filters in enumerate(trunk.filters):
        weight = np.asarray(filters.weight).reshape(len(filters.bias), 2, 2, -1)
        weight = torch.from_numpy(np.moveaxis(weight, -1, 1).copy())
        seen = torch.relu(torch.nn.functional.conv2d(seen, weight, torch.from_numpy(np.array(filters.bias))))
        if number == 0:
            seen = torch.nn.functional.max_pool2d(seen, 2)
    return np.moveaxis(seen[0].numpy(), 0, -1).ravel()


@pytest.mark.parametrize(("shape", "size"), [((7, 7, 3), 64), ((12, 9, 1), 3 * 2 * 64), ((4, 10, 11), 2 * 3 * 64)])
def test_the_trunk_is_pytorchs(shape, size):
    trunk = Trunk(shape, key=jax.random.key(0))
    trunk = jax.tree.map(lambda leaf: leaf + 0.01, trunk)  # so that biases are not 0
    image = np.random.default_rng(0).integers(0, 11, shape, np.uint8)
    found = trunk(jnp.asarray(image.ravel()))
    assert found.shape == (size,) == (trunk.size,)
    last = np.moveaxis(image, 0, -1) if shape[0] < shape[2] else image
    np.testing.assert_allclose(found, with_torch(trunk, last), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("biases", ["zero", "uniform"])
def test_weights_are_xavier_uniform_and_biases_as_told(biases):
    trunk = Trunk((7, 7, 3), biases=biases, key=jax.random.key(0))
    for filters, (channels, outputs) in zip(trunk.filters, [(3, 16), (16, 32), (32, 64)], strict=True):
        assert filters.weight.shape == (outputs, 4 * channels)
        bound = (6 / (4 * channels + 4 * outputs)) ** 0.5
        assert 0.97 * bound < float(jnp.abs(filters.weight).max()) <= bound
        assert float(filters.weight.std()) == pytest.approx(bound / 3**0.5, rel=0.1)
        widest = (4 * channels) ** -0.5 if biases == "uniform" else 0.0
        assert 0.8 * widest <= float(jnp.abs(filters.bias).max()) <= widest
        if biases == "uniform":
            assert kstest(np.asarray(filters.bias), "uniform", (-widest, 2 * widest)).pvalue > 0.01


def test_the_convolutions_of_policies_start_with_biases_as_in_pytorch_and_those_of_encoders_without():
    policy = fresh_policy(SHAPE, PolicySettings((8,)), key=jax.random.key(0))
    assert policy.trunk is not None
    assert all(np.any(filters.bias) for filters in policy.trunk.filters)
    assert not any(np.any(filters.bias) for filters in RandomEncoder((7, 7, 3), key=jax.random.key(0)).trunk.filters)


@pytest.mark.parametrize("shape", [(7, 7, 3), (20, 30, 3), (4, 16, 16)])
def test_the_encoder_gives_64_numbers_of_any_image(shape):
    encoder = RandomEncoder(shape, key=jax.random.key(0))
    images = jax.random.randint(jax.random.key(1), (5, int(np.prod(shape))), 0, 256).astype(jnp.uint8)
    encoded = jax.vmap(encoder)(images)
    assert encoded.shape == (5, 64)
    assert len(np.unique(np.asarray(encoded).round(3), axis=0)) == 5


def test_encoder_noise_is_a_truncated_normal():
    noise = np.asarray(image_encoder_noise((20_000,), key=jax.random.key(0)))
    assert 0 <= noise.min() < noise.max() <= 1e-3
    assert kstest(noise, truncnorm(-1, 0, loc=1e-3, scale=1e-3).cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8), (7, 7, 3)),
        (gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8), (4, 84, 84)),
        (gymnasium.spaces.Box(0, 255, (6, 9, 3), np.uint8), None),
        (gymnasium.spaces.Box(0, 1, (7, 7, 3), np.float32), None),
        (gymnasium.spaces.Box(0, 255, (7, 7), np.uint8), None),
        (gymnasium.spaces.Discrete(3), None),
    ],
)
def test_what_an_image_is(space, image):
    assert image_space_shape(space) == image


def test_spaces_that_are_neither_vectors_nor_images_are_refused():
    with pytest.raises(InputError, match=r"only vectors \(Box\) and images \(uint8"):
        PolicyShape.of_spaces(gymnasium.spaces.Box(0, 1, (7, 7, 3), np.float32), MEMBER.action_space)


@pytest.mark.parametrize("memory", ["none", "last", "recurrent"])
def test_policies_that_see_images_are_the_same_wherever_they_are_computed(memory, tmp_path):
    policy = fresh_policy(SHAPE, PolicySettings((64,), memory=memory), key=jax.random.key(0))
    steps = jax.jit(lambda policy: rollout(policy, MEMBER, 6, key=jax.random.key(1)))(policy)
    assert steps.perceived.shape[1] == {"none": 147}.get(memory, 147 * 2 + 7)
    along = log_probabilities(policy, steps.perceived, steps.actions)

    @jax.jit
    def go_on(state, recollection, action):
        observation = MEMBER.observe(state)
        _, hidden = policy._run(observation, recollection)
        remembered = policy.memory and policy.memory.remember(observation.ravel(), action, hidden)
        found = policy.perceive(observation, recollection), policy.distribution(observation, recollection)
        return MEMBER.step(state, action, key=jax.random.key(0)), remembered, *found

    state, recollection = MEMBER.reset(key=jax.random.key(0)), policy.begin()
    for t in range(6):
        state, recollection, perceived, distribution = go_on(state, recollection, steps.actions[t])
        np.testing.assert_allclose(perceived, steps.perceived[t], rtol=1e-6)
        np.testing.assert_allclose(distribution.log_prob(steps.actions[t]), along[t], rtol=1e-4)
    save_policy(policy, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert loaded.architecture == policy.architecture
    assert policy.architecture["image"] == [7, 7, 3]
    for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(policy), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_policy_is_the_trunk_a_tanh_layer_and_logits():
    policy = fresh_policy(SHAPE, PolicySettings((64,)), key=jax.random.key(0))
    observation = MEMBER.observe(MEMBER.reset(key=jax.random.key(0)))
    seen = with_torch(policy.trunk, np.asarray(observation))
    first, last = policy.layers
    hidden = np.tanh(np.asarray(first.weight) @ seen + np.asarray(first.bias))
    logits = np.asarray(last.weight) @ hidden + np.asarray(last.bias)
    np.testing.assert_allclose(policy.distribution(observation).logits, logits, rtol=1e-4, atol=1e-5)
    assert (first.weight.shape, last.weight.shape) == ((64, 64), (7, 64))


def test_the_critic_is_the_trunk_and_two_relu_layers():
    critic = Critic(147, (64, 64), (7, 7, 3), key=jax.random.key(0))
    observation = MEMBER.observe(MEMBER.reset(key=jax.random.key(0)))
    hidden = with_torch(critic.trunk, np.asarray(observation))
    for layer in critic.layers[:-1]:
        hidden = np.maximum(np.asarray(layer.weight) @ hidden + np.asarray(layer.bias), 0)
    value = np.asarray(critic.layers[-1].weight) @ hidden + np.asarray(critic.layers[-1].bias)
    assert float(critic(observation.ravel())) == pytest.approx(float(value[0]), rel=1e-4)


def test_trpo_sees_the_derivatives_of_convolutions():
    @jax.jit
    def derivatives(key):
        policy = fresh_policy(SHAPE, PolicySettings((8,)), key=key)
        images = jax.random.randint(key, (1, 20, 147), 0, 11).astype(jnp.uint8)
        nothing = jnp.zeros((1, 20))
        episodes = Episodes(images, nothing.astype(int), nothing, nothing.astype(bool), images[:, 0])
        network = linearise_policy(policy, episodes)
        direction = jax.tree.map(lambda leaf: jax.random.normal(key, leaf.shape), policy)
        u = jax.random.normal(key, network.outputs.shape)

        def outputs(by: float):
            return jax.vmap(jax.tree.map(lambda one, change: one + by * change, policy, direction).network)(images[0])

        slope = (outputs(1e-6) - outputs(-1e-6)) / 2e-6
        pushed = network.push(direction)
        products = jax.tree.map(lambda a, b: jnp.sum(a * b), direction, network.pull(u))
        return pushed, slope, jnp.sum(pushed * u), sum(jax.tree.leaves(products))

    with jax.enable_x64(True):
        pushed, slope, one_way, other_way = derivatives(jax.random.key(0))
    np.testing.assert_allclose(pushed, slope, rtol=1e-5, atol=1e-5)
    assert float(one_way) == pytest.approx(float(other_way))  # ⟨J v, u⟩ = ⟨v, Jᵀ u⟩


def test_scaled_images_cannot_become_plain_layers():
    policy = fresh_policy(SHAPE, PolicySettings((8,), normalise=True), 64, key=jax.random.key(0))
    with pytest.raises(InputError, match="it scales images"):
        unscaled_policy(policy)


def test_images_of_another_shape_are_refused():
    policy = fresh_policy(SHAPE, PolicySettings((8,)), key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"its shape is \(3, 7, 7\); this policy sees images \(7, 7, 3\)"):
        policy.distribution(np.zeros((3, 7, 7), np.uint8))


@pytest.mark.parametrize("image", [[3, 3, 3], [8, 8, 3], [7, 7, 3, 1], [7, 21], ["a", 7, 3]])
def test_files_of_images_that_cannot_be_are_refused(image, tmp_path):
    policy = fresh_policy(SHAPE, PolicySettings((8,)), key=jax.random.key(0))
    architecture = policy.architecture | {"image": image}
    (tmp_path / "odd.safetensors").write_bytes(pack_arrays(policy, {"format": FORMAT, "architecture": architecture}))
    with pytest.raises(InputError, match="cannot be read as a policy"):
        load_policy(tmp_path / "odd.safetensors")


def test_large_images_go_in_smaller_pieces():
    assert mapped_rows_per_product(84 * 84 * 4) < 20 < mapped_rows_per_product(147) == mapped_rows_per_product() == 1600
