"""Test soft actor-critic: its loss against plain NumPy, its update against Optax, and that it finds a goal."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sac_cases import random_networks, settings

from alphamepol import EnvironmentClass
from alphamepol.algorithms.diayn.sac import (
    Networks,
    SacLearner,
    SacReport,
    SacSettings,
    SacState,
    interact_in_sac,
    sac_loss,
    sample_sac_choices,
    start_sac,
    train_sac,
    update_sac,
)
from alphamepol.algorithms.diayn.update import fresh_diayn_networks
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.gridworld.layouts import FOUR_ROOMS
from alphamepol.policies.memory import ActionRange
from alphamepol.policies.networks import Network
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import SquashedPolicy
from alphamepol.policies.shape import PolicyShape, policy_shape
from alphamepol.sampling.stream import Transitions, World, begin_stream_episode, step_stream

ROWS, SKILLS = 6, 2
LOSS_KEY = jax.random.key(7)
GOAL = jnp.array([-0.3, 0.3])
"""The goal is in the room in which episodes start, in the corner that is farthest from the start."""


class Case(NamedTuple):
    """The inputs of a loss."""

    networks: Networks
    targets: Network
    batch: Transitions
    rewards: jax.Array
    settings: SacSettings


class Judged(NamedTuple):
    """The value of a loss, its report and its gradients."""

    loss: jax.Array
    report: SacReport
    by_networks: Networks
    """The gradient by the networks."""
    by_targets: Network


TRACES = []


@eqx.filter_jit
def judge(case: Case) -> Judged:
    TRACES.append(1)

    def loss(networks: Networks, targets: Network):
        return sac_loss(networks, targets, case.batch, case.rewards, case.settings, SKILLS, key=LOSS_KEY)

    differentiate = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    (value, report), gradients = differentiate(case.networks, case.targets)
    return Judged(value, report, *gradients)


def case_of(kind: str) -> Case:
    """Return a few made-up transitions. The targets differ from the critics, and the temperature is not 1."""
    actions = ActionRange(3) if kind == "categorical" else ActionRange(0, (-0.2, -3.0), (0.6, 1.0))
    shape = PolicyShape(kind, 3, actions.size, actions)
    networks, others = (random_networks(shape, SKILLS, (8, 5), seed) for seed in (0, 1))
    networks = eqx.tree_at(lambda networks: networks.log_temperature, networks, jnp.array(-0.7))
    random = np.random.default_rng(2)
    taken = random.uniform(-1, 1, (ROWS, 2)) if kind == "gaussian" else np.eye(3)[random.integers(0, 3, ROWS)]
    observation, reached = jnp.array(random.normal(size=(2, ROWS, 3)), jnp.float32)
    skill, ended = jnp.array([0, 1, 1, 0, 1, 0]), jnp.array([False, True, False, False, True, False])
    batch = Transitions(observation, skill, jnp.array(taken, jnp.float32), reached, ended)
    rewards = jnp.array(random.normal(size=ROWS), jnp.float32)
    return Case(networks, others.critics, batch, rewards, settings(discount=0.9))


@pytest.fixture(scope="module", params=["categorical", "gaussian"])
def case(request) -> Case:
    return case_of(request.param)


def in_float64(tree) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, float) if np.issubdtype(leaf.dtype, np.floating) else leaf, tree)


def run(layers, inputs: np.ndarray) -> np.ndarray:
    """Return the outputs of a ReLU network."""
    for layer in layers[:-1]:
        inputs = np.maximum(layer.weight @ inputs + layer.bias, 0)
    return layers[-1].weight @ inputs + layers[-1].bias


def worst(critics: Network, inputs: np.ndarray, action: np.ndarray) -> float:
    """Return the smaller of the values that the two critics give to an action."""
    return min(every(critics, inputs, action))


def every(critics: Network, inputs: np.ndarray, action: np.ndarray) -> list[float]:
    of_critic = [jax.tree.map(lambda leaf, i=i: leaf[i], critics) for i in range(2)]
    return [float(run(critic.layers, np.concatenate([inputs, action]))[0]) for critic in of_critic]


def normal_of(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and ln σ of the two components. ln σ is between −5 and 2."""
    return outputs[:2], -1.5 + 3.5 * np.tanh(outputs[2:])


@jax.jit
def draw(actor: SquashedPolicy, inputs: jax.Array, key) -> jax.Array:
    """Return the actions that the loss draws for these rows with this key."""
    choices = jax.vmap(lambda one, key: sample_sac_choices(actor.head(actor.network(one)), key=key))
    return choices(inputs, jax.random.split(key, len(inputs))).actions[:, 0]


class PlainSac:
    """The losses (S1) to (S3), computed row by row in float64.

    Parts that must not be differentiated use the fixed networks `base`. So differences of `loss` give its gradient.
    """

    def __init__(self, case: Case):
        self.base, self.targets, batch, self.rewards, numbers = in_float64(tuple(case))
        self.discount, self.target_entropy = float(numbers.discount), float(numbers.target_entropy)
        told = np.eye(SKILLS)[np.asarray(batch.skill)]
        self.inputs, self.reached = (np.hstack([part, told]) for part in (batch.observation, batch.reached))
        self.actions, self.ended = batch.action, np.asarray(batch.ended)
        keys = jax.random.split(LOSS_KEY)
        self.noise, self.next_noise = (
            self._noise_of(case.networks.actor, inputs, key)
            for inputs, key in zip((self.inputs, self.reached), keys, strict=True)
        )
        self.temperature = np.exp(float(self.base.log_temperature))
        self.aims = self.rewards + self.discount * np.where(
            self.ended, 0.0, self._values(self.base.actor, self.targets, self.reached, self.next_noise)[0]
        )

    def _noise_of(self, actor: Policy, inputs: np.ndarray, key) -> list[np.ndarray | None]:
        """Return the standard normal noise of each row's action; None for a categorical actor, which draws nothing."""
        if not isinstance(actor, SquashedPolicy):
            return [None] * ROWS
        actions = draw(actor, jnp.array(inputs, jnp.float32), key)
        noise = []
        for one, action in zip(inputs, np.asarray(actions, float), strict=True):
            mean, log_std = normal_of(run(in_float64(actor).layers, one))
            noise.append((np.arctanh(action) - mean) / np.exp(log_std))
        return noise

    def _values(self, actor, critics, inputs, noise) -> tuple[np.ndarray, np.ndarray]:
        values, entropies = zip(
            *(self._value(actor, critics, *row) for row in zip(inputs, noise, strict=True)), strict=True
        )
        return np.array(values), np.array(entropies)

    def _value(self, actor, critics, inputs: np.ndarray, noise: np.ndarray | None) -> tuple[float, float]:
        """Return the soft value of one row, and the entropy that is a part of it."""
        outputs = run(actor.layers, inputs)
        if noise is None:
            probabilities = np.exp(outputs) / np.exp(outputs).sum()
            entropy = -np.sum(probabilities * np.log(probabilities))
            worths = [worst(critics, inputs, action) for action in np.eye(len(outputs))]
            return probabilities @ worths + self.temperature * entropy, entropy
        mean, log_std = normal_of(outputs)
        action = np.tanh(mean + np.exp(log_std) * noise)
        log_prob = np.sum(-0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2))
        return worst(critics, inputs, action) - self.temperature * log_prob, -log_prob

    def critic_loss(self, critics) -> float:
        errors = [every(critics, *row) for row in zip(self.inputs, self.actions, strict=True)] - self.aims[:, None]
        return 0.5 * np.mean(np.sum(errors**2, axis=1))

    def entropy(self) -> float:
        return np.mean(self._values(self.base.actor, self.base.critics, self.inputs, self.noise)[1])

    def loss(self, networks) -> float:
        value = np.mean(self._values(networks.actor, self.base.critics, self.inputs, self.noise)[0])
        surplus = self.entropy() - self.target_entropy
        return self.critic_loss(networks.critics) - value + float(networks.log_temperature) * surplus


def test_the_loss_is_the_plain_one(case: Case) -> None:
    plain, judged = PlainSac(case), judge(case)
    assert float(judged.report.critic_loss) == pytest.approx(plain.critic_loss(plain.base.critics), rel=1e-4)
    assert float(judged.report.entropy) == pytest.approx(plain.entropy(), rel=1e-3)
    assert float(judged.report.temperature) == pytest.approx(np.exp(-0.7))
    assert float(judged.report.reward) == pytest.approx(plain.rewards.mean(), rel=1e-5)
    assert float(judged.loss) == pytest.approx(plain.loss(plain.base), rel=1e-4)


def test_nothing_follows_what_has_ended(case: Case) -> None:
    """The discount does not matter if every transition ends its episode."""
    over = case._replace(batch=eqx.tree_at(lambda batch: batch.ended, case.batch, jnp.ones(ROWS, bool)))
    shortsighted = case._replace(settings=settings(discount=0.0))
    losses = [float(judge(one).report.critic_loss) for one in (over, shortsighted, case)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[2] != pytest.approx(losses[1], rel=1e-2)


def test_the_gradients_are_those_of_each_part_by_its_own_parameters(case: Case) -> None:
    """Compare the gradients with finite differences along random directions.

    The critics have the gradient of their errors, the actor that of its value, and the temperature that of the surplus
    of entropy.
    """
    plain, gradient = PlainSac(case), in_float64(judge(case).by_networks)
    random = np.random.default_rng(0)
    nothing = jax.tree.map(np.zeros_like, gradient)
    for part in ("actor", "critics", "log_temperature"):
        for _ in range(3):
            direction = eqx.tree_at(
                lambda networks, part=part: getattr(networks, part),
                nothing,
                jax.tree.map(lambda leaf: random.normal(size=np.shape(leaf)), getattr(gradient, part)),
            )
            ahead, behind = (
                plain.loss(jax.tree.map(lambda leaf, way, h=h: leaf + h * way, plain.base, direction))
                for h in (1e-5, -1e-5)
            )
            products = jax.tree.map(lambda one, other: np.sum(one * other), gradient, direction)
            assert sum(jax.tree.leaves(products)) == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-5)
    surplus = plain.entropy() - plain.target_entropy
    assert float(gradient.log_temperature) == pytest.approx(surplus, rel=1e-3)


def test_targets_and_discriminator_have_no_gradient(case: Case) -> None:
    judged = judge(case)
    for part in (judged.by_targets, judged.by_networks.discriminator):
        assert all(not np.any(leaf) for leaf in jax.tree.leaves(part))
    for part in (judged.by_networks.actor, judged.by_networks.critics, judged.by_networks.log_temperature):
        assert all(np.any(leaf) for leaf in jax.tree.leaves(part))


def test_settings_are_traced(case: Case) -> None:
    """A sweep over settings that only scale something compiles once."""
    judge(case)
    before = len(TRACES)
    sweep = [settings(discount=0.5), settings(discount=0.8), settings(target_entropy=3.0)]
    assert len({float(judge(case._replace(settings=chosen)).loss) for chosen in sweep}) == 3
    assert len(TRACES) == before


def test_an_update_is_optax_adam_on_everything_then_the_targets_follow() -> None:
    networks, targets, batch = case_of("categorical")[:3]
    chosen, optimiser = settings(learning_rate=0.02, target_rate=0.3), optax.adam(0.02)

    def loss(networks, targets, batch, key):
        """Return an arbitrary loss. Its gradient by every parameter differs from key to key."""
        shift = jax.random.normal(key) + jnp.mean(batch.action)
        value = sum(jnp.sum(jnp.sin(leaf + shift)) for leaf in jax.tree.leaves(networks))
        return value, SacReport(*jnp.stack([shift] * 4))

    @jax.jit
    def three_updates(networks, targets):
        def both(carry, key):
            ours, networks, targets, moments = carry
            ours, report = update_sac(ours, batch, loss, chosen, key=key)
            changes, moments = optimiser.update(jax.grad(loss, has_aux=True)(networks, targets, batch, key)[0], moments)
            networks = optax.apply_updates(networks, changes)
            targets = jax.tree.map(lambda old, new: 0.7 * old + 0.3 * new, targets, networks.critics)
            return (ours, networks, targets, moments), report.reward

        ours = SacState(networks, targets, optax.scale_by_adam().init(networks))
        start = ours, networks, targets, optimiser.init(networks)
        return jax.lax.scan(both, start, jax.random.split(LOSS_KEY, 3))

    (ours, *expected, _), shifts = three_updates(networks, targets)
    assert len({float(shift) for shift in shifts}) == 3
    found = [ours.networks, ours.targets]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), found, expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves((networks, targets)), strict=True):
        assert np.all(one != other)


@pytest.fixture(scope="module")
def world() -> World:
    """Return a world of four rooms without a slope, with one skill."""
    environment_class = EnvironmentClass({"level": Gridworld(FOUR_ROOMS)})
    shape = policy_shape(environment_class)
    return World(environment_class.members, environment_class.probabilities, shape.actions, 50, 1)


@pytest.fixture(scope="module")
def untrained(world: World) -> SacLearner:
    """Return an untrained learner with ten environments and room for 5000 transitions."""

    @jax.jit
    def make(key):
        network_key, start_key = jax.random.split(key)
        networks = fresh_diayn_networks(PolicyShape("gaussian", 2, 2, world.actions), 1, (64, 64), key=network_key)
        return start_sac(networks, world, environments=10, replay=5000, key=start_key)

    return make(jax.random.key(0))


def smaller(learner: SacLearner) -> SacLearner:
    """Return the learner with only four environments and room for 16 transitions."""
    episodes, replay = (
        jax.tree.map(lambda leaf, size=size: leaf[:size], part)
        for part, size in ((learner.episodes, 4), (learner.replay, 16))
    )
    return SacLearner(learner.state, episodes, replay)


def test_a_learner_starts_with_nothing_in_its_replay(untrained: SacLearner) -> None:
    assert all(len(leaf) == 5000 and not leaf.any() for leaf in jax.tree.leaves(untrained.replay))
    jax.tree.map(np.testing.assert_array_equal, untrained.state.targets, untrained.state.networks.critics)
    assert len(np.unique(untrained.episodes.state, axis=0)) == 10
    # The first episodes, of 50 steps, have different ages, so that they end one after the other.
    assert untrained.episodes.age.tolist() == list(range(0, 50, 5))
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], untrained.state.targets.layers[0].weight) for i in (0, 1))
    assert not np.any(first == second)


def test_the_replay_keeps_the_last_transitions(world: World, untrained: SacLearner) -> None:
    """With four environments and room for 16 transitions, the 17th transition replaces the first."""
    learner, go = smaller(untrained), eqx.filter_jit(interact_in_sac)
    all_seen = [np.zeros((0, 2), np.float32)]
    for done in range(0, 40, 4):
        learner, seen = go(learner, world, jnp.array(done), key=jax.random.key(done))
        np.testing.assert_array_equal(learner.episodes.state, seen.reached)
        all_seen.append(np.asarray(seen.reached))
        for place, row in enumerate(np.asarray(learner.replay.reached)):
            kept = np.concatenate(all_seen)[place::16]
            np.testing.assert_array_equal(row, kept[-1] if len(kept) else 0)
        # All parts of a transition are kept in the same row.
        kept = jax.tree.map(lambda leaf, place=done % 16: leaf[place : place + 4], learner.replay)
        jax.tree.map(np.testing.assert_array_equal, kept, seen)
    assert len(np.unique(np.concatenate(all_seen), axis=0)) == 40
    np.testing.assert_array_equal(learner.episodes.age, untrained.episodes.age[:4] + 10)


def probe(networks: Networks, targets: Network, batch: Transitions, key) -> tuple[jax.Array, SacReport]:
    """Return a loss from which nothing is learned, and a report on the batch that was given."""
    places = jnp.sort(batch.reached[:, 0])
    different = 1.0 + jnp.sum(places[1:] != places[:-1])
    unfilled = jnp.any(jnp.isnan(batch.observation)).astype(float)
    return 0.0 * networks.log_temperature, SacReport(unfilled, different, jnp.mean(places), jnp.zeros(()))


def test_updates_draw_from_all_that_the_replay_has_and_from_nothing_else(world: World, untrained: SacLearner) -> None:
    """Rows that are not yet filled hold NaN. There are so many draws that they miss none of the filled rows."""
    learner = smaller(untrained)
    observations = jnp.full_like(learner.replay.observation, jnp.nan)
    learner = eqx.tree_at(lambda learner: learner.replay.observation, learner, observations)
    go = eqx.filter_jit(partial(train_sac, loss=probe, settings=settings(batch=4096), steps=4))
    for done in range(0, 24, 4):
        learner, _, (unfilled, different, mean, _) = go(learner, world, done=jnp.array(done), key=jax.random.key(done))
        filled = learner.replay.reached[: done + 4, 0]
        assert len(filled) == min(done + 4, 16)
        assert float(unfilled) == 0
        assert float(different) == len(filled)
        assert float(mean) == pytest.approx(float(filled.mean()), abs=6 * float(filled.std()) / np.sqrt(4 * 4096))


@eqx.filter_jit
def seek_goal(learner: SacLearner, world: World, done: jax.Array, key) -> tuple[SacLearner, Transitions, SacReport]:
    """Train for 500 steps. The reward is minus the distance to the goal."""

    def loss(networks, targets, batch, key):
        rewards = -jnp.linalg.norm(batch.reached - GOAL, axis=-1)
        return sac_loss(networks, targets, batch, rewards, settings(), key=key)

    return train_sac(learner, world, loss, settings(), done, steps=500, key=key)


def test_same_key_same_bits_other_key_other_bits(world: World, untrained: SacLearner) -> None:
    first, again, other = (seek_goal(untrained, world, jnp.array(0), jax.random.key(i)) for i in (1, 1, 2))
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(again)))
    assert not np.array_equal(first[1].action, other[1].action)
    actors = (jax.tree.leaves(learner.state.networks.actor) for learner, _, _ in (first, other))
    assert not any(map(np.array_equal, *actors))


def test_there_are_as_many_updates_as_steps_and_all_steps_are_returned(world: World, untrained: SacLearner) -> None:
    learner, seen, report = seek_goal(untrained, world, jnp.array(0), jax.random.key(1))
    assert int(learner.state.moments.count) == 500
    # The replay was empty, so that it now holds the steps in the order in which they are returned.
    jax.tree.map(lambda kept, one: np.testing.assert_array_equal(kept[:500], one), learner.replay, seen)
    assert all(not leaf[500:].any() for leaf in jax.tree.leaves(learner.replay))
    assert len(np.unique(seen.observation, axis=0)) > 450
    assert all(np.isfinite(number) for number in report)


@eqx.filter_jit
def distance(actor: Policy, world: World) -> jax.Array:
    """Return the mean distance from the goal over the second half of 40 episodes."""

    def walk(key):
        begin_key, steps_key = jax.random.split(key)

        def advance(episode, key):
            episode, seen = step_stream(world, actor, episode, key=key)
            return episode, jnp.linalg.norm(seen.reached - GOAL)

        keys = jax.random.split(steps_key, world.horizon)
        return jax.lax.scan(advance, begin_stream_episode(world, key=begin_key), keys)[1]

    return jnp.mean(jax.vmap(walk)(jax.random.split(jax.random.key(5), 40))[:, world.horizon // 2 :])


def test_it_finds_a_goal(world: World, untrained: SacLearner) -> None:
    """Train for 5000 steps. Without learning, the distance is 0.5 or more; each of six seeds brought it below 0.06."""
    learner = untrained
    for turn in range(10):
        learner, _, report = seek_goal(learner, world, jnp.array(500 * turn), jax.random.key(turn))
    assert float(distance(untrained.state.networks.actor, world)) > 0.4
    assert float(distance(learner.state.networks.actor, world)) < 0.15
    assert float(report.reward) > -0.3
