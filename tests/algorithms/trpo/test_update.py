"""Test TRPO against the exact Fisher matrix, direct sums, and the properties that its step must have."""

import dataclasses
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from alphamepol.algorithms.advantages import generalised_advantages, normalise_advantages
from alphamepol.algorithms.trpo.critic import Critic, fit_critic
from alphamepol.algorithms.trpo.update import TrpoSettings, TrpoState, improve_by_trpo, natural_step_of_trpo
from alphamepol.algorithms.trust_region import TrustRegion, trust_region_conjugate_gradient
from alphamepol.policies.distributions import Distribution
from alphamepol.policies.memory import ActionRange, Memory
from alphamepol.policies.networks import feed_network
from alphamepol.policies.policy import Policy
from alphamepol.policies.policy_kinds import CategoricalPolicy, GaussianPolicy
from alphamepol.sampling.trajectories import Episodes

IMPROVE = eqx.filter_jit(improve_by_trpo)
ROWS = 12
KINDS = ["gaussian", "categorical", "recurrent gaussian"]


def region(max_kl: float = 1e-4, damping: float = 0.1, iterations: int = 10) -> TrustRegion:
    return TrustRegion(jnp.array(max_kl, jnp.float32), jnp.array(damping, jnp.float32), iterations)


def settings() -> TrpoSettings:
    return TrpoSettings(*(jnp.array(value, jnp.float32) for value in (0.99, 0.98, 1e-2)), region())


def tiny_policy(kind: str) -> Policy:
    key = jax.random.key(3)
    if kind == "categorical":
        return CategoricalPolicy(2, 3, (4,), key=key)
    if kind == "gaussian":
        return GaussianPolicy(2, 2, (4,), -0.5, key=key)
    memory = Memory(1, ActionRange(0, (-1.0, -1.0), (1.0, 1.0)), 3, key=jax.random.key(4))
    return GaussianPolicy(1, 2, (4,), -0.5, memory, key=key)


def samples_of(policy: Policy, rewards: jax.Array | None = None) -> Episodes:
    """Return steps of a policy with random inputs. Each reward ends an episode; by default there are two rewards."""
    rewards = jnp.zeros((3, ROWS // 3)).at[0, 2].set(1.0).at[2, 0].set(1.0) if rewards is None else rewards
    perceived = jax.random.uniform(jax.random.key(5), (*rewards.shape, policy.perceived_size), minval=-1.0)
    empty = Episodes(perceived, jnp.zeros(rewards.shape), rewards, rewards > 0, perceived[:, -1] + 0.1)
    keys = jax.random.split(jax.random.key(6), rewards.shape)
    rows = jax.jit(rows_of)(policy, empty)
    actions = jax.vmap(lambda one, key: one.sample(key=key))(rows, keys.ravel())
    return dataclasses.replace(empty, actions=actions.reshape(*rewards.shape, *actions.shape[1:]))


def rows_of(policy: Policy, episodes: Episodes) -> Distribution:
    """Return the distributions of all actions, computed step by step, as one distribution with a leading axis."""
    found = []
    for perceived, ended in zip(episodes.perceived, episodes.ended, strict=True):
        hidden = jnp.zeros(0 if policy.memory is None else policy.memory.units)
        for t, inputs in enumerate(perceived):
            if policy.memory is not None:
                hidden = policy.memory.listen(inputs, hidden)
            found.append(policy.head(feed_network(policy.layers, jnp.concatenate([inputs, hidden]))))
            hidden = jnp.where(ended[t], 0.0, hidden)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


def log_probs_of(policy: Policy, episodes: Episodes) -> jax.Array:
    actions = episodes.actions.reshape(-1, *episodes.actions.shape[2:])
    return jax.vmap(lambda one, action: one.log_prob(action))(jax.jit(rows_of)(policy, episodes), actions)


def exact_fisher(policy: Policy, episodes: Episodes) -> np.ndarray:
    """Return E[score scoreᵀ] over steps and actions: by quadrature if Gaussian, by enumeration if categorical."""
    parameters, as_policy = ravel_pytree(policy)
    rows = jax.jit(rows_of)(policy, episodes)
    if isinstance(policy, GaussianPolicy):
        nodes, weights = np.polynomial.hermite_e.hermegauss(6)
        weights = weights / weights.sum()
        # Every step has the same standardised actions.
        cases = [(jnp.array([nodes[i], nodes[j]]), weights[i] * weights[j]) for i, j in product(range(6), repeat=2)]
        of_case = [(rows.mean + jnp.exp(rows.log_std) * noise, np.full(ROWS, weight)) for noise, weight in cases]
    else:
        probabilities = np.asarray(jax.nn.softmax(rows.logits), float)
        of_case = [(jnp.full(ROWS, action), probabilities[:, action]) for action in range(probabilities.shape[1])]
    scores_of = jax.jit(
        jax.jacobian(
            lambda vector, actions: jax.vmap(lambda one, action: one.log_prob(action))(
                rows_of(as_policy(vector), episodes), actions
            )
        )
    )
    fisher = np.zeros((parameters.size, parameters.size))
    for actions, weights in of_case:
        scores = np.asarray(scores_of(parameters, actions), float)
        fisher += (scores.T * weights) @ scores / ROWS
    return fisher


@pytest.mark.parametrize("kind", KINDS)
def test_the_step_is_the_exact_natural_gradient(kind) -> None:
    """Conjugate gradient is exact with enough iterations. The expected step uses the whole Fisher matrix in float64."""
    policy = tiny_policy(kind)
    episodes = samples_of(policy)
    advantages = normalise_advantages(jax.random.normal(jax.random.key(12), (ROWS,)))
    parameters, as_policy = ravel_pytree(policy)
    old = log_probs_of(policy, episodes)

    def surrogate(vector):
        return jnp.mean(jnp.exp(log_probs_of(as_policy(vector), episodes) - old) * advantages)

    gradient = np.asarray(jax.grad(surrogate)(parameters), float)
    damped = exact_fisher(policy, episodes) + 0.1 * np.eye(len(gradient))
    direction = np.linalg.solve(damped, gradient)
    max_kl = 1e-4
    expected = direction * np.sqrt(2 * max_kl / (direction @ damped @ direction))

    stepped, (kl, gained, fraction) = jax.jit(natural_step_of_trpo)(
        policy, episodes, advantages, region(max_kl, iterations=40)
    )
    step = np.asarray(ravel_pytree(stepped)[0] - parameters, float)
    assert float(fraction) == 1.0
    assert float(gained) > 0
    assert 0 < float(kl) < max_kl
    np.testing.assert_allclose(step, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_ten_iterations_of_conjugate_gradient_see_a_symmetric_positive_definite_matrix(kind, monkeypatch) -> None:
    """The product that TRPO gives to conjugate gradient is, column by column, the exact Fisher matrix plus damping."""
    import alphamepol.algorithms.trust_region as trust_region

    seen = {}

    def remember(fisher_product, target, iterations):
        seen["matrix"] = jax.vmap(fisher_product)(jnp.eye(target.size))
        return trust_region_conjugate_gradient(fisher_product, target, iterations)

    monkeypatch.setattr(trust_region, "trust_region_conjugate_gradient", remember)
    policy = tiny_policy(kind)
    episodes = samples_of(policy)
    natural_step_of_trpo(policy, episodes, normalise_advantages(jnp.arange(float(ROWS))), region())
    matrix = np.asarray(seen["matrix"], float)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2).min() > 0.1 - 1e-4
    np.testing.assert_allclose(matrix, exact_fisher(policy, episodes) + 0.1 * np.eye(len(matrix)), atol=2e-4)


def test_conjugate_gradient_solves_and_returns_the_product() -> None:
    root = np.random.default_rng(0).normal(size=(12, 12))
    matrix = jnp.array(root @ root.T + np.eye(12), jnp.float32)
    target = jnp.arange(12.0)
    x, along = trust_region_conjugate_gradient(lambda v: matrix @ v, target, 40)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, target), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(along, matrix @ x, rtol=1e-3, atol=1e-3)
    zero, _ = trust_region_conjugate_gradient(lambda v: matrix @ v, jnp.zeros(12), 10)
    np.testing.assert_array_equal(zero, 0)


@pytest.mark.parametrize("max_kl", [1e-4, 1e-2, 0.3])
def test_an_accepted_step_keeps_the_kl_and_improves_the_surrogate(max_kl) -> None:
    """The test computes the KL and the surrogate again from the two policies, for a network of realistic size."""
    policy = GaussianPolicy(2, 2, (32, 32), -1.5, key=jax.random.key(0))
    observations = jax.random.uniform(jax.random.key(1), (500, 2), minval=-1.0)
    keys = jax.random.split(jax.random.key(2), 500)
    old = jax.vmap(policy.distribution)(observations)
    actions = jax.vmap(lambda one, key: one.sample(key=key))(old, keys)
    advantages = normalise_advantages(actions[:, 0] * observations[:, 1])
    nothing = jnp.zeros((1, 500))
    episodes = Episodes(observations[None], actions[None], nothing, nothing > 0, observations[-1:])
    stepped, (kl, gained, fraction) = jax.jit(natural_step_of_trpo)(policy, episodes, advantages, region(max_kl))
    new = jax.vmap(stepped.distribution)(observations)
    measured = float(jnp.mean(jax.vmap(lambda one, other: one.kl(other))(old, new)))
    old_log_probs, new_log_probs = (jax.vmap(lambda one, a: one.log_prob(a))(rows, actions) for rows in (old, new))
    ratios = jnp.exp(new_log_probs - old_log_probs)
    assert 0 < measured < max_kl
    assert measured == pytest.approx(float(kl), rel=0.05, abs=1e-7)
    assert float(jnp.mean(ratios * advantages)) > 0
    assert float(jnp.mean(ratios * advantages)) == pytest.approx(float(gained), rel=0.05, abs=1e-6)
    assert np.log2(float(fraction)) in range(-9, 1)


def test_a_full_step_that_leaves_the_trust_region_is_halved_until_it_stays_inside() -> None:
    """With one iteration of conjugate gradient and a huge trust region, the quadratic model is far off."""
    policy = tiny_policy("gaussian")
    episodes = samples_of(policy)
    advantages = -normalise_advantages(episodes.actions[..., 0].ravel())
    chosen = region(20.0, 1e-3, iterations=1)
    stepped, (kl, gained, fraction) = natural_step_of_trpo(policy, episodes, advantages, chosen)
    halvings = -np.log2(float(fraction))
    assert halvings in range(1, 10)
    assert float(kl) < 20.0
    assert float(gained) > 0
    # The step is this fraction of the full step. A step twice as long would not have been acceptable.
    start, end = (ravel_pytree(one)[0] for one in (policy, stepped))
    _, as_policy = ravel_pytree(policy)
    longer = as_policy(start + 2 * (end - start))
    kls = jax.vmap(lambda one, other: one.kl(other))(rows_of(policy, episodes), rows_of(longer, episodes))
    ratios = log_probs_of(longer, episodes) - log_probs_of(policy, episodes)
    improves = jnp.mean(jnp.exp(ratios) * advantages) > jnp.mean(advantages)
    assert not (float(jnp.mean(kls)) < 20.0 and bool(improves))


def test_a_step_that_cannot_be_accepted_is_not_taken() -> None:
    """Advantages of NaN stand for any failure. No try is acceptable then, and the policy stays as it is."""
    policy = tiny_policy("gaussian")
    stepped, numbers = natural_step_of_trpo(policy, samples_of(policy), jnp.full(ROWS, jnp.nan), region())
    assert all(map(np.array_equal, jax.tree.leaves(stepped), jax.tree.leaves(policy)))
    assert [float(number) for number in numbers] == [0, 0, 0]


def direct_advantages(rewards, ended, values, last_value, discount, gae_lambda) -> np.ndarray:
    """Return (T1) as a double sum: for each step, a sum over the rest of its episode."""
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


@pytest.mark.parametrize("kind", KINDS)
def test_without_any_reward_nothing_is_learned_and_nothing_breaks(kind) -> None:
    policy = tiny_policy(kind)
    critic = Critic(policy.perceived_size, (8,), key=jax.random.key(0))
    state = TrpoState(policy, critic, jnp.array(False))
    for iteration in range(3):
        state, report = IMPROVE(state, samples_of(policy, jnp.zeros((3, 5))), settings(), key=jax.random.key(iteration))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state, report)))
        assert all(map(np.array_equal, jax.tree.leaves(state.policy), jax.tree.leaves(policy)))
    assert not state.rewarded
    np.testing.assert_array_equal(normalise_advantages(jnp.full(7, 3.0)), 0.0)


def test_after_the_first_reward_the_policy_moves_and_goes_on_moving() -> None:
    policy = tiny_policy("gaussian")
    state = TrpoState(policy, Critic(2, (8,), key=jax.random.key(0)), jnp.array(False))
    rewards = jnp.zeros((3, 5)).at[1, 3].set(1.0)
    moved, report = IMPROVE(state, samples_of(policy, rewards), settings(), key=jax.random.key(0))
    assert moved.rewarded
    assert float(report.step) > 0
    again, report = IMPROVE(moved, samples_of(moved.policy, jnp.zeros((3, 5))), settings(), key=jax.random.key(1))
    assert again.rewarded
    assert not np.array_equal(again.policy.log_std, moved.policy.log_std)


def test_improving_is_one_program_over_tasks() -> None:
    """Mapped by `vmap`, as on an accelerator, each task gets the result that it would get alone."""
    policy = tiny_policy("gaussian")
    states, episodes = [], []
    for i in range(3):
        states.append(TrpoState(policy, Critic(2, (8,), key=jax.random.key(i)), jnp.array(False)))
        episodes.append(samples_of(policy, jnp.zeros((3, 5)).at[0, i].set(float(i))))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *zip(states, episodes, strict=True))
    keys = jax.random.split(jax.random.key(9), 3)
    together, reports = jax.vmap(lambda state, samples, key: improve_by_trpo(state, samples, settings(), key=key))(
        *stacked, keys
    )
    for i in range(3):
        alone, report = IMPROVE(states[i], episodes[i], settings(), key=keys[i])
        for one, other in zip(jax.tree.leaves((alone, report)), jax.tree.leaves((together, reports)), strict=True):
            np.testing.assert_allclose(one, other[i], rtol=1e-3, atol=1e-4)


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
    """The rate is 0, and one row has an error of 1. The loss shows whether this row is in the last mini-batch.

    The last mini-batch has 3 rows; the other four have 5 rows each.
    """
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
    """A sweep over settings that only scale something compiles once."""
    policy = tiny_policy("gaussian")
    episodes, advantages = samples_of(policy), normalise_advantages(jnp.arange(float(ROWS)))
    traces = []

    @eqx.filter_jit
    def step(chosen):
        traces.append(1)
        return natural_step_of_trpo(policy, episodes, advantages, chosen)[1]

    for max_kl in (1e-4, 1e-3, 1e-2):
        step(region(max_kl))
    assert len(traces) == 1


def test_the_critic_can_be_fitted_to_discounted_returns(monkeypatch) -> None:
    policy = tiny_policy("gaussian")
    episodes = samples_of(policy)
    critic = Critic(2, (4,), key=jax.random.key(0))
    seen = []

    def keep_targets(critic, inputs, targets, rate, **more):
        seen.append(np.asarray(targets).reshape(3, -1))
        return critic, jnp.array(0.0)

    monkeypatch.setattr("alphamepol.algorithms.trpo.update.fit_critic", keep_targets)
    usual = settings()
    for one in (usual, dataclasses.replace(usual, fit_returns=True)):
        improve_by_trpo(TrpoState(policy, critic, jnp.array(False)), episodes, one, key=jax.random.key(0))
    rewards, ended = np.asarray(episodes.rewards), np.asarray(episodes.ended)
    expected = np.zeros_like(rewards)
    for row in range(3):
        later = float(critic(episodes.last_perceived[row]))  # a cut episode would have gone on
        for t in reversed(range(rewards.shape[1])):
            later = expected[row, t] = rewards[row, t] + (0.0 if ended[row, t] else 0.99 * later)
    np.testing.assert_allclose(seen[1], expected, atol=1e-6)
    assert np.abs(seen[0] - expected).max() > 1e-3


def test_the_critic_can_start_as_the_authors_start_it() -> None:
    critic = Critic(5, (64, 64), gain=1.0, biases=True, key=jax.random.key(0))
    for layer in critic.layers:
        longer = np.asarray(layer.weight if layer.weight.shape[0] >= layer.weight.shape[1] else layer.weight.T)
        np.testing.assert_allclose(longer.T @ longer, np.eye(longer.shape[1]), atol=1e-5)
        bound = 1 / np.sqrt(layer.weight.shape[1])
        assert 0 < np.abs(layer.bias).max() <= bound
    other = Critic(5, (64, 64), key=jax.random.key(0))
    np.testing.assert_allclose(other.layers[0].weight, np.sqrt(2) * critic.layers[0].weight, rtol=1e-6)
    assert not other.layers[0].bias.any()
