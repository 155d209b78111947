"""TRPO, against the exact Fisher matrix, direct sums, and what its step promises."""

import dataclasses
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from alphamepol.learning.critic import Critic, fit_critic
from alphamepol.learning.trpo import (
    TrpoSettings,
    TrpoState,
    conjugate_gradient,
    generalised_advantages,
    improve,
    natural_step,
    normalise,
)
from alphamepol.policies import CategoricalPolicy, GaussianPolicy, Policy
from alphamepol.sampling.trajectories import Episodes

IMPROVE = eqx.filter_jit(improve)
OBSERVATIONS = jax.random.uniform(jax.random.key(10), (24, 2), minval=-1.0)


def settings(**changes) -> TrpoSettings:
    numbers = {"discount": 0.99, "gae_lambda": 0.98, "max_kl": 1e-4, "damping": 0.1, "critic_rate": 1e-2} | changes
    whole = {name: value for name, value in numbers.items() if isinstance(value, int)}
    return TrpoSettings(
        **{name: jnp.array(value, jnp.float32) for name, value in numbers.items() if name not in whole}, **whole
    )


def tiny_policy(kind: str) -> Policy:
    key = jax.random.key(3)
    return GaussianPolicy(2, 2, (4,), -0.5, key=key) if kind == "gaussian" else CategoricalPolicy(2, 3, (4,), key=key)


def actions_of(policy: Policy) -> jax.Array:
    keys = jax.random.split(jax.random.key(11), len(OBSERVATIONS))
    return jax.vmap(lambda observation, key: policy.sample(observation, key=key))(OBSERVATIONS, keys)


def exact_fisher(policy: Policy) -> np.ndarray:
    """E[score scoreᵀ] over observations and actions: by quadrature if Gaussian, by enumeration if categorical."""
    parameters, as_policy = ravel_pytree(policy)

    def score(observation, action):
        return jax.grad(lambda vector: as_policy(vector).log_prob(observation, action))(parameters)

    fisher = np.zeros((parameters.size, parameters.size))
    scores_of = jax.jit(jax.vmap(score, in_axes=(None, 0)))
    for observation in OBSERVATIONS:
        if isinstance(policy, GaussianPolicy):
            nodes, weights = np.polynomial.hermite_e.hermegauss(6)
            weights = weights / weights.sum()
            mean, deviation = policy.mean(observation), jnp.exp(policy.log_std)
            cases = [
                (mean + deviation * jnp.array([nodes[i], nodes[j]]), weights[i] * weights[j])
                for i, j in product(range(6), repeat=2)
            ]
        else:
            probabilities = jax.nn.softmax(policy.distribution(observation).logits)
            cases = [(jnp.array(action), float(p)) for action, p in enumerate(probabilities)]
        scores = np.asarray(scores_of(observation, jnp.stack([action for action, _ in cases])), float)
        fisher += (scores.T * np.array([weight for _, weight in cases])) @ scores / len(OBSERVATIONS)
    return fisher


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_the_step_is_the_exact_natural_gradient(kind) -> None:
    """With enough iterations conjugate gradient is exact; the Fisher matrix is written out, and solved in float64."""
    policy = tiny_policy(kind)
    actions = actions_of(policy)
    advantages = normalise(jax.random.normal(jax.random.key(12), (len(OBSERVATIONS),)))
    parameters, as_policy = ravel_pytree(policy)

    def surrogate(vector):
        log_prob = jax.vmap(as_policy(vector).log_prob)(OBSERVATIONS, actions)
        old = jax.vmap(policy.log_prob)(OBSERVATIONS, actions)
        return jnp.mean(jnp.exp(log_prob - old) * advantages)

    gradient = np.asarray(jax.grad(surrogate)(parameters), float)
    damped = exact_fisher(policy) + 0.1 * np.eye(len(gradient))
    direction = np.linalg.solve(damped, gradient)
    max_kl = 1e-4
    expected = direction * np.sqrt(2 * max_kl / (direction @ damped @ direction))

    stepped, (kl, gained, fraction) = jax.jit(natural_step)(
        policy, OBSERVATIONS, actions, advantages, settings(max_kl=max_kl, conjugate_gradient_iterations=40)
    )
    step = np.asarray(ravel_pytree(stepped)[0] - parameters, float)
    assert float(fraction) == 1.0
    assert float(gained) > 0
    assert 0 < float(kl) < max_kl
    np.testing.assert_allclose(step, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_ten_iterations_of_conjugate_gradient_see_a_symmetric_positive_definite_matrix(kind, monkeypatch) -> None:
    """The product that TRPO hands to conjugate gradient, column by column, is the exact Fisher matrix plus damping."""
    import alphamepol.learning.trpo as trpo

    seen = {}

    def remember(fisher_product, target, iterations):
        seen["matrix"] = jax.vmap(fisher_product)(jnp.eye(target.size))
        return conjugate_gradient(fisher_product, target, iterations)

    monkeypatch.setattr(trpo, "conjugate_gradient", remember)
    policy = tiny_policy(kind)
    advantages = normalise(jnp.arange(float(len(OBSERVATIONS))))
    natural_step(policy, OBSERVATIONS, actions_of(policy), advantages, settings())
    matrix = np.asarray(seen["matrix"], float)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2).min() > 0.1 - 1e-4
    np.testing.assert_allclose(matrix, exact_fisher(policy) + 0.1 * np.eye(len(matrix)), atol=2e-4)


def test_conjugate_gradient_solves_and_returns_the_product() -> None:
    root = np.random.default_rng(0).normal(size=(12, 12))
    matrix = jnp.array(root @ root.T + np.eye(12), jnp.float32)
    target = jnp.arange(12.0)
    x, along = conjugate_gradient(lambda v: matrix @ v, target, 40)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, target), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(along, matrix @ x, rtol=1e-3, atol=1e-3)
    zero, _ = conjugate_gradient(lambda v: matrix @ v, jnp.zeros(12), 10)
    np.testing.assert_array_equal(zero, 0)


@pytest.mark.parametrize("max_kl", [1e-4, 1e-2, 0.3])
def test_an_accepted_step_keeps_the_kl_and_improves_the_surrogate(max_kl) -> None:
    """Measured anew from the two policies, for a real network."""
    policy = GaussianPolicy(2, 2, (32, 32), -1.5, key=jax.random.key(0))
    observations = jax.random.uniform(jax.random.key(1), (500, 2), minval=-1.0)
    keys = jax.random.split(jax.random.key(2), 500)
    actions = jax.vmap(lambda observation, key: policy.sample(observation, key=key))(observations, keys)
    advantages = normalise(actions[:, 0] * observations[:, 1])
    stepped, (kl, gained, fraction) = jax.jit(natural_step)(
        policy, observations, actions, advantages, settings(max_kl=max_kl)
    )
    old, new = jax.vmap(policy.distribution)(observations), jax.vmap(stepped.distribution)(observations)
    measured = float(jnp.mean(jax.vmap(lambda one, other: one.kl(other))(old, new)))
    ratios = jnp.exp(
        jax.vmap(stepped.log_prob)(observations, actions) - jax.vmap(policy.log_prob)(observations, actions)
    )
    assert 0 < measured < max_kl
    assert measured == pytest.approx(float(kl), rel=0.05, abs=1e-7)
    assert float(jnp.mean(ratios * advantages)) > 0
    assert float(jnp.mean(ratios * advantages)) == pytest.approx(float(gained), rel=0.05, abs=1e-6)
    assert np.log2(float(fraction)) in range(-9, 1)


def test_a_full_step_that_leaves_the_trust_region_is_halved_until_it_stays_inside() -> None:
    """One iteration of conjugate gradient and a huge trust region: the quadratic model is far off."""
    policy = tiny_policy("gaussian")
    actions = actions_of(policy)
    advantages = normalise(actions[:, 0])
    chosen = settings(max_kl=20.0, damping=1e-3, conjugate_gradient_iterations=1)
    stepped, (kl, gained, fraction) = natural_step(policy, OBSERVATIONS, actions, advantages, chosen)
    halvings = -np.log2(float(fraction))
    assert halvings in range(1, 10)
    assert float(kl) < 20.0
    assert float(gained) > 0
    # The step is that fraction of the full one, and twice as much would not have been acceptable.
    start, end = (ravel_pytree(one)[0] for one in (policy, stepped))
    _, as_policy = ravel_pytree(policy)
    longer = as_policy(start + 2 * (end - start))
    kls = jax.vmap(lambda one: policy.distribution(one).kl(longer.distribution(one)))(OBSERVATIONS)
    ratios = jax.vmap(longer.log_prob)(OBSERVATIONS, actions) - jax.vmap(policy.log_prob)(OBSERVATIONS, actions)
    improves = jnp.mean(jnp.exp(ratios) * advantages) > jnp.mean(advantages)
    assert not (float(jnp.mean(kls)) < 20.0 and bool(improves))


def test_a_step_that_cannot_be_accepted_is_not_taken() -> None:
    """Advantages that are not numbers stand for any failure: no try is acceptable, and the policy stays."""
    policy = tiny_policy("gaussian")
    advantages = jnp.full(len(OBSERVATIONS), jnp.nan)
    stepped, numbers = natural_step(policy, OBSERVATIONS, actions_of(policy), advantages, settings())
    assert all(map(np.array_equal, jax.tree.leaves(stepped), jax.tree.leaves(policy)))
    assert [float(number) for number in numbers] == [0, 0, 0]


def direct_advantages(rewards, ended, values, last_value, discount, gae_lambda) -> np.ndarray:
    """(T1) as a double sum, for each step over the rest of its episode."""
    steps = len(rewards)
    following = np.append(values[1:], last_value)
    advantages = np.zeros(steps)
    for t in range(steps):
        for later in range(t, steps):
            bootstrap = 0.0 if ended[later] else discount * following[later]
            surprise = rewards[later] + bootstrap - values[later]
            advantages[t] += (discount * gae_lambda) ** (later - t) * surprise
            if ended[later]:
                break
    return advantages


def test_advantages_are_the_direct_sum() -> None:
    random = np.random.default_rng(0)
    for ends in ([], [4], [0, 7, 11], [11]):
        rewards, values = random.normal(size=12), random.normal(size=12)
        ended = np.isin(np.arange(12), ends)
        expected = direct_advantages(rewards, ended, values, 1.7, 0.9, 0.8)
        ours = generalised_advantages(
            *(jnp.array(part) for part in (rewards, ended, values)), jnp.array(1.7), jnp.array(0.9), jnp.array(0.8)
        )
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_a_cut_episode_is_bootstrapped_and_an_ended_one_is_not() -> None:
    zeros, discount = jnp.zeros(3), jnp.array(0.5)

    def advantages(last_ended: bool):
        ended = jnp.array([False, False, last_ended])
        return generalised_advantages(zeros, ended, zeros, jnp.array(8.0), discount, jnp.array(1.0))

    np.testing.assert_allclose(advantages(False), [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(advantages(True), 0.0)


def episodes_with(rewards: jax.Array, policy: Policy) -> Episodes:
    observations = jax.random.uniform(jax.random.key(5), (*rewards.shape, 2), minval=-1.0)
    keys = jax.random.split(jax.random.key(6), rewards.shape)
    actions = jax.vmap(jax.vmap(lambda one, key: policy.sample(one, key=key)))(observations, keys)
    return Episodes(observations, actions, rewards, rewards > 0, observations[:, -1] + 0.1)


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_without_any_reward_nothing_is_learned_and_nothing_breaks(kind) -> None:
    policy = tiny_policy(kind)
    state = TrpoState(policy, Critic(2, (8,), key=jax.random.key(0)), jnp.array(False))
    for iteration in range(3):
        state, report = IMPROVE(
            state, episodes_with(jnp.zeros((4, 20)), policy), settings(), key=jax.random.key(iteration)
        )
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state, report)))
        assert all(map(np.array_equal, jax.tree.leaves(state.policy), jax.tree.leaves(policy)))
    assert not state.rewarded
    np.testing.assert_array_equal(normalise(jnp.full(7, 3.0)), 0.0)


def test_after_the_first_reward_the_policy_moves_and_goes_on_moving() -> None:
    policy = tiny_policy("gaussian")
    state = TrpoState(policy, Critic(2, (8,), key=jax.random.key(0)), jnp.array(False))
    rewards = jnp.zeros((4, 20)).at[1, 7].set(1.0)
    moved, report = IMPROVE(state, episodes_with(rewards, policy), settings(), key=jax.random.key(0))
    assert moved.rewarded
    assert float(report.step) > 0
    again, report = IMPROVE(moved, episodes_with(jnp.zeros((4, 20)), moved.policy), settings(), key=jax.random.key(1))
    assert again.rewarded
    assert not np.array_equal(again.policy.log_std, moved.policy.log_std)


def test_improving_is_one_program_over_tasks() -> None:
    """Mapped by `vmap`, as on an accelerator, each task gets what it would get alone."""
    policy = tiny_policy("gaussian")
    states, episodes = [], []
    for i in range(3):
        states.append(TrpoState(policy, Critic(2, (8,), key=jax.random.key(i)), jnp.array(False)))
        episodes.append(episodes_with(jnp.zeros((4, 20)).at[0, 3 * i].set(float(i)), policy))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *zip(states, episodes, strict=True))
    keys = jax.random.split(jax.random.key(9), 3)
    together, reports = jax.vmap(lambda state, samples, key: improve(state, samples, settings(), key=key))(
        *stacked, keys
    )
    for i in range(3):
        alone, report = IMPROVE(states[i], episodes[i], settings(), key=keys[i])
        for one, other in zip(jax.tree.leaves((alone, report)), jax.tree.leaves((together, reports)), strict=True):
            np.testing.assert_allclose(one, other[i], rtol=1e-3, atol=1e-5)


def test_the_return_counts_the_episodes_that_began_with_the_iteration() -> None:
    rewards = jnp.array([[0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])
    ended = jnp.array([[False, True, False, True], [False] * 4, [True, False, False, False]])
    filler = jnp.zeros((3, 4, 1))
    episodes = Episodes(filler, filler, rewards, ended, filler[:, 0])
    assert float(episodes.mean_return) == pytest.approx((1.0 + 0.5 + 0.0) / 3)


def test_the_critic_starts_orthogonal_and_learns() -> None:
    critic = Critic(2, (64, 64), key=jax.random.key(0))
    first, second, last = (np.asarray(layer.weight) for layer in critic.layers)
    np.testing.assert_allclose(first.T @ first, 2 * np.eye(2), atol=1e-5)
    np.testing.assert_allclose(second @ second.T, 2 * np.eye(64), atol=1e-5)
    np.testing.assert_allclose(last @ last.T, 1.0, atol=1e-5)
    assert all(not np.asarray(layer.bias).any() for layer in critic.layers)

    inputs = jax.random.uniform(jax.random.key(1), (1300, 2), minval=-1.0)
    targets = inputs[:, 0] * inputs[:, 1]
    fit = jax.jit(
        lambda critic, key: fit_critic(critic, inputs, targets, jnp.array(1e-2), passes=5, batch=512, key=key)
    )
    for iteration in range(10):
        critic, loss = fit(critic, jax.random.key(iteration))
    assert float(loss) < 0.01 * float(jnp.var(targets))
    error = jnp.mean((jax.vmap(critic)(inputs) - targets) ** 2)
    assert float(error) < 0.01 * float(jnp.var(targets))


def test_each_pass_of_the_critic_uses_every_row_once() -> None:
    """Rate 0, one row with an error of 1: it is in a mini-batch of 5, or in the last of 3, whose mean it then is."""
    critic = Critic(1, (4,), key=jax.random.key(0))
    inputs = jnp.arange(23.0)[:, None]
    targets = jax.vmap(critic)(inputs).at[7].add(1.0)
    losses = jax.vmap(lambda key: fit_critic(critic, inputs, targets, jnp.array(0.0), passes=1, batch=5, key=key)[1])(
        jax.random.split(jax.random.key(2), 400)
    )
    in_the_last = np.isclose(losses, 1 / 3 / 5, rtol=1e-3)
    assert np.all(in_the_last | np.isclose(losses, 1 / 5 / 5, rtol=1e-3))
    assert np.mean(in_the_last) == pytest.approx(3 / 23, abs=0.06)


def test_settings_are_traced() -> None:
    """A sweep over numbers that only scale something compiles once."""
    policy = tiny_policy("gaussian")
    actions, advantages = actions_of(policy), normalise(jnp.arange(float(len(OBSERVATIONS))))
    traces = []

    @eqx.filter_jit
    def step(chosen):
        traces.append(1)
        return natural_step(policy, OBSERVATIONS, actions, advantages, chosen)[1]

    for max_kl in (1e-4, 1e-3, 1e-2):
        step(dataclasses.replace(settings(), max_kl=jnp.array(max_kl, jnp.float32)))
    assert len(traces) == 1
