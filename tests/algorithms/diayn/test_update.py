"""Test DIAYN: the reward of skills, the policy of one skill, and that skills become distinguishable."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sac_cases import random_networks, settings

from alphamepol import make
from alphamepol.algorithms.diayn.sac import Networks, SacLearner, SacReport, SacSettings, sac_loss, start_sac
from alphamepol.algorithms.diayn.skills import SkillReward, SkillTasks, policy_of_diayn_skill
from alphamepol.algorithms.diayn.update import (
    DiaynReport,
    diayn_update_loss,
    fresh_diayn_networks,
    train_diayn_by_updates,
)
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.policies.memory import ActionRange
from alphamepol.policies.networks import Network
from alphamepol.policies.shape import PolicyShape, policy_shape
from alphamepol.sampling.stream import Transitions, World

PLANE = PolicyShape("gaussian", 3, 2, ActionRange(0, (-0.2, -3.0), (0.6, 1.0)))
CHOICE = PolicyShape("categorical", 3, 4, ActionRange(4))
VIEW = PolicyShape("categorical", 147, 7, ActionRange(7), (7, 7, 3))
SKILLS = 3


def plain_log_q(discriminator: Network, observation: np.ndarray) -> np.ndarray:
    """Return ln q of every skill, in float64."""
    for number, layer in enumerate(discriminator.layers):
        observation = np.asarray(layer.weight, float) @ observation + np.asarray(layer.bias, float)
        observation = observation if number + 1 == len(discriminator.layers) else np.maximum(observation, 0)
    return observation - np.log(np.sum(np.exp(observation)))


@pytest.mark.parametrize("shape", [PLANE, CHOICE, VIEW], ids=["squashed", "categorical", "images"])
def test_the_policy_of_a_skill_is_the_actor_told_of_it(shape: PolicyShape) -> None:
    actor = random_networks(shape, SKILLS, (8, 5)).actor
    if shape.image is None:
        observations = jax.random.normal(jax.random.key(1), (20, shape.observation_size))
    else:
        observations = jax.random.randint(jax.random.key(1), (20, 147), 0, 11).astype(jnp.uint8)

    @jax.jit
    def compare(actor):
        """Return the distributions of every skill, from the policy of the skill and from the actor with the skill."""
        apart = [
            jax.vmap(policy_of_diayn_skill(actor, skill, SKILLS).distribution)(observations) for skill in range(SKILLS)
        ]
        told = [jnp.hstack([observations, jnp.tile(jnp.eye(SKILLS)[skill], (20, 1))]) for skill in range(SKILLS)]
        return apart, [jax.vmap(lambda inputs: actor.head(actor.network(inputs)))(inputs) for inputs in told]

    apart, told = compare(actor)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), apart, told)
    first, second, _ = (np.concatenate(jax.tree.leaves(distribution), axis=-1) for distribution in apart)
    assert not np.allclose(first, second, rtol=1e-2)
    policy = policy_of_diayn_skill(actor, 1, SKILLS)
    assert type(policy) is type(actor)
    assert (policy.observation_size, policy.action_size) == (shape.observation_size, shape.action_size)


def test_the_policy_of_the_only_skill_is_the_actor() -> None:
    actor = random_networks(CHOICE, 1, (8,)).actor
    assert policy_of_diayn_skill(actor, 0, 1) is actor
    assert actor.observation_size == 3


@pytest.mark.parametrize("shape", [PLANE, CHOICE, VIEW], ids=["squashed", "categorical", "images"])
def test_fresh_networks_fit_observations_actions_and_skills(shape: PolicyShape) -> None:
    networks = random_networks(shape, SKILLS, (8, 5))
    seen = 3 if shape.image is None else 64  # the trunk makes 64 numbers of an image
    widths = [
        [layers[0].weight.shape[-1], *(layer.weight.shape[-2] for layer in layers)]
        for layers in (networks.actor.layers, networks.critics.layers, networks.discriminator.layers)
    ]
    outputs = 2 * shape.action_size if shape.kind == "gaussian" else shape.action_size
    assert widths[0] == [seen + SKILLS, 8, 5, outputs]
    assert widths[1] == [seen + SKILLS + shape.action_size, 8, 5, 1]
    assert widths[2] == [seen, 8, 5, SKILLS]
    assert all(len(leaf) == 2 for leaf in jax.tree.leaves(networks.critics))


def test_the_reward_of_a_skill_is_how_well_it_is_told_and_never_ends() -> None:
    member = make("gridworld-slope")["GWS"]
    shape = PolicyShape("gaussian", 2, 2, PLANE.actions)
    discriminator = random_networks(shape, SKILLS, (8, 5)).discriminator
    places = np.array([[-0.9, 0.9], [0.3, -0.7], [1.0, 1.0], [-1.0, -0.2]], np.float32)
    nothing = jnp.zeros(2)
    for place in places:
        expected = plain_log_q(discriminator, place) + math.log(SKILLS)
        assert np.ptp(expected) > 0.01
        for skill in range(SKILLS):
            task = SkillReward(discriminator, jnp.array(skill))
            reward = task.reward(member, nothing, nothing, jnp.array(place))
            assert float(reward) == pytest.approx(expected[skill], rel=1e-4, abs=1e-5)
            assert not task.ended(member, jnp.array(place))
            assert task.describe() == {"skill": skill}


def test_tasks_of_skills_are_drawn_equally_often() -> None:
    member, discriminator = make("gridworld-slope")["GWS"], random_networks(PLANE, SKILLS, (8,)).discriminator
    task = SkillTasks(discriminator)(member, key=jax.random.key(0))
    assert isinstance(task, SkillReward)
    jax.tree.map(np.testing.assert_array_equal, task.discriminator, discriminator)
    drawn = jax.vmap(lambda key: SkillTasks(discriminator)(member, key=key).skill)(
        jax.random.split(jax.random.key(1), 9000)
    )
    counts = np.bincount(drawn, minlength=SKILLS) / 9000
    np.testing.assert_allclose(counts, np.full(SKILLS, 1 / 3), atol=6 * np.sqrt(2 / 9 / 9000))


def test_the_loss_is_that_of_sac_with_the_reward_of_skills_and_a_cross_entropy() -> None:
    """Compare value and gradients. Only the cross-entropy trains the discriminator, and it trains no other network."""
    networks = random_networks(PLANE, SKILLS, (8, 5))
    targets = random_networks(PLANE, SKILLS, (8, 5), seed=1).critics
    random = np.random.default_rng(0)
    observations, reached = random.normal(size=(2, 6, 3)).astype(np.float32)
    skill, actions = jnp.array([0, 1, 2, 0, 1, 1]), jnp.array(random.uniform(-1, 1, (6, 2)), jnp.float32)
    batch = Transitions(jnp.array(observations), skill, actions, jnp.array(reached), jnp.arange(6) == 2)
    log_q = np.array([plain_log_q(networks.discriminator, one)[z] for one, z in zip(reached, skill, strict=True)])
    rewards = jnp.array(log_q + math.log(SKILLS), jnp.float32)

    def by_hand(networks: Networks) -> tuple[jax.Array, SacReport]:
        loss, report = sac_loss(networks, targets, batch, rewards, settings(), SKILLS, key=jax.random.key(2))
        logits = jax.vmap(networks.discriminator)(batch.reached)
        chances = jnp.exp(logits) / jnp.sum(jnp.exp(logits), axis=1, keepdims=True)
        return loss + jnp.mean(-jnp.log(chances[jnp.arange(6), skill])), report

    def ours(networks: Networks) -> tuple[jax.Array, SacReport]:
        return diayn_update_loss(networks, targets, batch, settings(), SKILLS, key=jax.random.key(2))

    (found, expected) = (jax.jit(jax.value_and_grad(loss, has_aux=True))(networks) for loss in (ours, by_hand))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5), found, expected)
    assert float(found[0][1].reward) == pytest.approx(np.mean(log_q) + math.log(SKILLS), rel=1e-4)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(found[1]))


def world_of(environment_class: EnvironmentClass, skills: int, horizon: int) -> World:
    actions = policy_shape(environment_class).actions
    return World(environment_class.members, environment_class.probabilities, actions, horizon, skills)


@pytest.fixture(scope="module")
def world() -> World:
    return world_of(make("gridworld-slope"), 5, 50)


@pytest.fixture(scope="module")
def learner(world: World) -> SacLearner:
    """Return an untrained learner with ten environments."""

    @jax.jit
    def make_learner(key):
        network_key, start_key = jax.random.split(key)
        networks = fresh_diayn_networks(PolicyShape("gaussian", 2, 2, world.actions), 5, (32, 32), key=network_key)
        return start_sac(networks, world, environments=10, replay=5000, key=start_key)

    return make_learner(jax.random.key(0))


@eqx.filter_jit
def epoch(
    learner: SacLearner, world: World, chosen: SacSettings, done: jax.Array, steps: int, key
) -> tuple[SacLearner, DiaynReport]:
    return train_diayn_by_updates(learner, world, chosen, done, steps=steps, key=key)


def test_networks_start_apart(learner: SacLearner) -> None:
    """The two critics must differ, because the smaller of two equal values is of no use."""
    networks = learner.state.networks
    assert not any(np.any(first == second) for first, second in (layer.weight for layer in networks.critics.layers))
    assert float(networks.log_temperature) == 0


def test_skills_come_to_be_told_apart(world: World, learner: SacLearner) -> None:
    """With five skills, chance alone gives ln 1/5 = −1.6. Each of six seeds brought the discriminability above −0.6."""
    found = []
    for number in range(12):
        learner, report = epoch(learner, world, settings(), jnp.array(500 * number), 500, jax.random.key(number))
        found.append(float(report.discriminability))
    assert found[0] == pytest.approx(-math.log(5), abs=0.3)
    assert np.mean(found[-2:]) > -math.log(5) + 0.6
    # The reward is the discriminability plus ln 5, over transitions of the replay, which are partly older.
    assert float(report.sac.reward) > 0.6
    assert int(learner.state.moments.count) == 6000


def test_discriminability_is_of_new_states_by_the_discriminator_from_before(world: World, learner: SacLearner) -> None:
    """The replay is empty before the epoch, so that afterwards it holds exactly the states of this epoch."""
    after, report = epoch(learner, world, settings(), jnp.array(0), 500, jax.random.key(0))
    reached, skills = np.asarray(after.replay.reached[:500]), np.asarray(after.replay.skill[:500])
    before = learner.state.networks.discriminator
    expected = np.mean([plain_log_q(before, one)[skill] for one, skill in zip(reached, skills, strict=True)])
    assert float(report.discriminability) == pytest.approx(expected, rel=1e-4)


def test_it_learns_by_images_and_choices() -> None:
    environment_class = make("minigrid")
    world, networks = world_of(environment_class, 2, 5), random_networks(VIEW, 2, (16,))
    learner = jax.jit(lambda key: start_sac(networks, world, environments=4, replay=40, key=key))(jax.random.key(0))
    after, report = epoch(learner, world, settings(batch=8), jnp.array(0), 40, jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after.state, report)))
    replay = jax.device_get(after.replay)
    assert (replay.observation.shape, replay.observation.dtype) == ((40, 147), np.uint8)
    assert replay.action.shape == (40, 7)
    np.testing.assert_array_equal(np.sort(replay.action, axis=1), np.eye(7)[[6] * 40])
    assert set(replay.skill.tolist()) == {0, 1}
    for before, now in zip(jax.tree.leaves(learner.state.networks), jax.tree.leaves(after.state.networks), strict=True):
        assert not np.array_equal(before, now)
