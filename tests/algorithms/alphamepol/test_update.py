"""Compare one epoch of αMEPOL with slow, plain code in float64 NumPy and with finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import digamma, gammaln

from alphamepol import GaussianPolicy, nearest_neighbours
from alphamepol.algorithms.alphamepol.estimates import (
    estimate_entropies_and_kl,
    estimate_with_gradient,
    on_policy_gradient,
    tail_gradient,
)
from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities, score_sum_of_log_probabilities
from alphamepol.algorithms.alphamepol.update import (
    MAX_TRIES,
    Learner,
    OffPolicySettings,
    OnPolicySettings,
    improve_off_policy,
    improve_on_policy,
    tail_of_entropies,
)
from alphamepol.estimation.entropy import particle_entropy
from alphamepol.sampling.trajectories import Trajectories

pytestmark = pytest.mark.quick

MINIBATCHES, BATCH, TIME, K, TAIL = 6, 2, 15, 4, 2


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def make_samples(seed: int = 0, ended: bool = False):
    """Return a policy, trajectories and neighbours. The particles of each mini-batch spread wider than those before."""
    random = np.random.default_rng(seed)
    shape = (MINIBATCHES, BATCH, TIME, 2)
    spread = np.linspace(0.5, 1.5, MINIBATCHES)[:, None, None, None]
    valid = np.ones(shape[:-1], bool)
    if ended:
        valid[1, 0, 9:] = valid[4, 1, 5:] = False
    particles = spread * random.standard_normal(shape)
    trajectories = Trajectories(
        perceived=jnp.asarray(random.uniform(-1, 1, shape)),
        actions=jnp.asarray(0.3 * random.standard_normal(shape)),
        particles=jnp.asarray(particles),
        valid=jnp.asarray(valid),
        members=jnp.zeros(MINIBATCHES, int),
    )
    sets = particles.reshape(MINIBATCHES, BATCH * TIME, 2)
    neighbourhood = nearest_neighbours(sets, K, valid.reshape(MINIBATCHES, -1))
    policy = GaussianPolicy(2, 2, (5,), -1.0, key=jax.random.key(seed))
    return policy, trajectories, neighbourhood


def plain_entropies(policy, behaviour, trajectories, neighbourhood) -> np.ndarray:
    """Return the entropies of (E4) and (E5), computed in loops."""
    result = []
    radii, indices, valid, lasting, perceived, actions = (
        np.asarray(part)
        for part in (
            *(neighbourhood.radii, neighbourhood.indices, neighbourhood.valid),
            *(trajectories.valid, trajectories.perceived, trajectories.actions),
        )
    )
    for i in range(MINIBATCHES):
        weights = []
        for b in range(BATCH):
            product = 1.0
            for t in range(TIME):
                o, a = perceived[i, b, t], actions[i, b, t]
                product *= np.exp(plain_log_prob(policy, o, a) - plain_log_prob(behaviour, o, a))
                weights.append(product * float(lasting[i, b, t]))
        w = np.array(weights) / np.sum(weights)
        total = 0.0
        for t in np.flatnonzero(valid[i]):
            mass = w[indices[i, t]].sum()
            volume = np.exp(np.log(np.pi) + 2 * np.log(radii[i, t]) - gammaln(2))
            total -= mass / K * np.log(mass / volume)
        result.append(total + np.log(K) - digamma(K))
    return np.array(result)


def plain_log_prob(policy, observation, action) -> float:
    hidden = np.asarray(observation)
    for layer in policy.layers[:-1]:
        hidden = np.maximum(np.asarray(layer.weight) @ hidden + np.asarray(layer.bias), 0)
    mean = np.asarray(policy.layers[-1].weight) @ hidden + np.asarray(policy.layers[-1].bias)
    std = np.exp(np.asarray(policy.log_std))
    return np.sum(-0.5 * ((np.asarray(action) - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def changed(policy: GaussianPolicy, seed: int, scale: float) -> GaussianPolicy:
    flat, restore = ravel_pytree(policy)
    return restore(flat + scale * np.random.default_rng(seed).standard_normal(flat.size))


@pytest.mark.parametrize("ended", [False, True])
def test_entropies_of_another_policy_against_loops(ended: bool) -> None:
    policy, trajectories, neighbourhood = make_samples(ended=ended)
    other = changed(policy, 1, 0.05)
    samples = trajectories.perceived, trajectories.actions
    log_ratios = log_probabilities(other, *samples) - log_probabilities(policy, *samples)
    entropies, kl = estimate_entropies_and_kl(log_ratios, trajectories, neighbourhood)
    np.testing.assert_allclose(entropies, plain_entropies(other, policy, trajectories, neighbourhood), rtol=1e-10)
    assert kl > 0
    same, no_kl = estimate_entropies_and_kl(jnp.zeros_like(log_ratios), trajectories, neighbourhood)
    np.testing.assert_allclose(same, jax.vmap(particle_entropy)(neighbourhood), rtol=1e-10)
    assert no_kl == pytest.approx(0.0, abs=1e-12)


def test_steps_are_those_of_a_plain_rendition() -> None:
    """Each plain iteration selects the tail again, takes the gradient by finite differences, and computes Adam's step.

    Some trajectories end early here. In test_pytorch_rendition.py no trajectory does.
    """
    policy, trajectories, neighbourhood = make_samples(ended=True)
    rate, iterations = 1e-2, 2
    flat, restore = ravel_pytree(policy)
    theta, first, second = np.asarray(flat, np.float64), np.zeros(flat.size), np.zeros(flat.size)

    def objective(theta, tail) -> float:
        return plain_entropies(restore(jnp.asarray(theta)), policy, trajectories, neighbourhood)[tail].mean()

    for step in range(1, iterations + 1):
        tail = np.argsort(plain_entropies(restore(jnp.asarray(theta)), policy, trajectories, neighbourhood))[:TAIL]
        gradient = np.array(
            [
                (objective(theta + 1e-5 * unit, tail) - objective(theta - 1e-5 * unit, tail)) / 2e-5
                for unit in np.eye(flat.size)
            ]
        )
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        theta = theta + rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)

    learner, report = run(policy, trajectories, neighbourhood, rate=rate, iterations=iterations)
    np.testing.assert_allclose(ravel_pytree(learner.policy)[0], theta, atol=1e-6)
    assert int(report.iterations) == iterations
    assert int(report.backtracks) == 0
    assert int(learner.moments.count) == iterations
    after = np.sort(plain_entropies(learner.policy, policy, trajectories, neighbourhood))[:TAIL].mean()
    assert report.objective_after == pytest.approx(after, abs=1e-8)


def test_report_is_of_the_sampling_policy() -> None:
    policy, trajectories, neighbourhood = make_samples()
    _, report = run(policy, trajectories, neighbourhood)
    entropies = np.asarray(jax.vmap(particle_entropy)(neighbourhood))
    np.testing.assert_allclose(report.entropies, entropies)
    assert np.flatnonzero(report.tail).tolist() == sorted(np.argsort(entropies)[:TAIL].tolist())
    assert report.objective == pytest.approx(np.sort(entropies)[:TAIL].mean())
    assert report.objective_after > report.objective


def test_mepol_learns_from_random_subsets_of_the_minibatches() -> None:
    """Every gradient is the mean over one of the 15 pairs of the 6 mini-batches, and all pairs occur."""
    policy, trajectories, neighbourhood = make_samples()

    @jax.jit
    def first_gradient(learner, rate, key):
        settings = OffPolicySettings(rate, jnp.array(15.0), MINIBATCHES, max_iterations=1, subset_size=2)
        learner, report = improve_off_policy(learner, trajectories, neighbourhood, settings, key=key)
        return ravel_pytree(learner.moments.mu)[0] / 0.1, report

    each = gradients_of_each(policy, trajectories, neighbourhood)
    pairs = {(i, j): (each[i] + each[j]) / 2 for i in range(MINIBATCHES) for j in range(i)}
    came_up = set()
    for seed in range(100):
        gradient, report = first_gradient(Learner.start(policy), jnp.array(1e-3), jax.random.key(seed))
        came_up |= {pair for pair, expected in pairs.items() if np.allclose(gradient, expected, rtol=1e-8, atol=1e-12)}
    assert came_up == set(pairs)
    assert np.all(report.tail)  # the report is about all mini-batches
    entropies = jax.vmap(particle_entropy)(neighbourhood)
    assert float(report.objective) == pytest.approx(float(jnp.mean(entropies)))


def test_each_iteration_draws_a_subset_of_its_own() -> None:
    policy, trajectories, neighbourhood = make_samples()
    rates = jnp.array(1e-12), jnp.array(15.0)  # so small that policy and gradients stay the same
    settings = OffPolicySettings(*rates, MINIBATCHES, max_iterations=40, subset_size=1)
    learner, _ = improve_off_policy(Learner.start(policy), trajectories, neighbourhood, settings, key=jax.random.key(0))
    mixed = np.asarray(ravel_pytree(learner.moments.mu)[0])
    for alone in gradients_of_each(policy, trajectories, neighbourhood):  # `mixed` has none of these directions
        assert mixed @ alone / np.linalg.norm(mixed) / np.linalg.norm(alone) < 0.99


def gradients_of_each(policy, trajectories, neighbourhood) -> np.ndarray:
    """Return the gradient of each mini-batch by itself. Adam's first moment is a tenth of the first gradient."""

    @jax.jit
    def of_one(one):
        one = jax.tree.map(lambda leaf: leaf[None], one)
        learner, _ = improve_off_policy(Learner.start(policy), *one, off_policy(1e-3, tail_size=1, iterations=1))
        return ravel_pytree(learner.moments.mu)[0] / 0.1

    samples = trajectories, neighbourhood
    return np.stack([of_one(jax.tree.map(lambda leaf, i=i: leaf[i], samples)) for i in range(MINIBATCHES)])


def off_policy(
    rate: float, trust_region: float = 15.0, tail_size: int = TAIL, iterations: int = 5
) -> OffPolicySettings:
    bounds = jnp.array(rate), jnp.array(trust_region)
    return OffPolicySettings(*bounds, tail_size, max_iterations=iterations, subset_size=tail_size)


def run(policy, trajectories, neighbourhood, rate: float = 1e-2, trust_region: float = 15.0, iterations: int = 5):
    settings = off_policy(rate, trust_region, iterations=iterations)
    return improve_off_policy(Learner.start(policy), trajectories, neighbourhood, settings)


def test_a_step_outside_the_trust_region_is_halved_until_inside_and_ends_the_epoch() -> None:
    policy, trajectories, neighbourhood = make_samples()
    _, free = run(policy, trajectories, neighbourhood, rate=0.5, iterations=1)
    bound = float(free.kl) / 20
    learner, report = run(policy, trajectories, neighbourhood, rate=0.5, trust_region=bound)
    assert 0 < float(report.kl) <= bound
    assert 0 < int(report.backtracks) < MAX_TRIES
    assert int(report.iterations) == 1
    assert int(learner.moments.count) == 1
    # The accepted step is the same as a single step with the halved rate.
    halved, _ = run(policy, trajectories, neighbourhood, rate=0.5 * 0.5 ** int(report.backtracks), iterations=1)
    np.testing.assert_allclose(ravel_pytree(learner.policy)[0], ravel_pytree(halved.policy)[0], rtol=1e-12)


def test_steps_before_the_one_that_leaves_are_kept() -> None:
    policy, trajectories, neighbourhood = make_samples()
    kls = [float(run(policy, trajectories, neighbourhood, rate=1e-3, iterations=n)[1].kl) for n in (3, 4)]
    assert kls[0] < kls[1]
    bound = (kls[0] + kls[1]) / 2
    _, report = run(policy, trajectories, neighbourhood, rate=1e-3, trust_region=bound, iterations=20)
    assert int(report.iterations) == 4
    assert int(report.backtracks) >= 1


def test_nothing_changes_when_no_step_stays_inside() -> None:
    policy, trajectories, neighbourhood = make_samples()
    learner, report = run(policy, trajectories, neighbourhood, rate=1e3, trust_region=1e-12)
    np.testing.assert_array_equal(ravel_pytree(learner.policy)[0], ravel_pytree(policy)[0])
    assert int(learner.moments.count) == 0
    assert (int(report.iterations), int(report.backtracks)) == (0, MAX_TRIES)
    assert float(report.kl) == 0.0


def test_the_tail_of_members_has_the_lowest_means() -> None:
    entropies = jnp.array([0.0, 9.0, 3.0, 4.0, 1.0, 8.0])  # the means of pairs are 4.5, 3.5 and 4.5
    assert tail_of_entropies(entropies, 2).tolist() == [0, 4]
    assert tail_of_entropies(entropies, 2, ranked_together=2).tolist() == [2, 3]
    assert tail_of_entropies(entropies, 3, ranked_together=3).tolist() == [0, 1, 2]


def test_risk_over_members_learns_from_all_minibatches_of_the_worst_members() -> None:
    policy, trajectories, neighbourhood = make_samples()
    swapped = np.array([0, 5, 2, 3, 1, 4])  # the two lowest entropies are in different pairs
    trajectories, neighbourhood = jax.tree.map(lambda leaf: leaf[swapped], (trajectories, neighbourhood))
    rates = jnp.array(1e-2), jnp.array(15.0)
    settings = OffPolicySettings(*rates, 2, max_iterations=1, subset_size=2, ranked_together=2)
    learner, report = improve_off_policy(Learner.start(policy), trajectories, neighbourhood, settings)
    means = np.asarray(report.entropies).reshape(3, 2).mean(axis=1)
    worst = int(np.argmin(means))
    assert sorted(np.argsort(report.entropies)[:2].tolist()) == [0, 4]  # risk over mini-batches would learn from these
    assert np.flatnonzero(report.tail).tolist() == [2 * worst, 2 * worst + 1]
    assert float(report.objective) == pytest.approx(means[worst])
    gradients = gradients_of_each(policy, trajectories, neighbourhood)
    expected = gradients[[2 * worst, 2 * worst + 1]].mean(axis=0)
    np.testing.assert_allclose(ravel_pytree(learner.moments.mu)[0] / 0.1, expected, rtol=1e-6, atol=1e-9)


def test_the_bias_of_the_risk_over_members_is_that_of_the_docs() -> None:
    """Compare the formula of docs/method.md with draws of members and mini-batches."""
    rng = np.random.default_rng(0)
    members, tau, sigma = 200_000, 1.0, 2.0
    expected = tau * rng.standard_normal(members)
    for m in (1, 4):
        means = expected + sigma / m**0.5 * rng.standard_normal(members)
        tail = np.sort(means)[: members // 5].mean() - np.sort(expected)[: members // 5].mean()
        assert tail == pytest.approx(-1.40 * ((tau**2 + sigma**2 / m) ** 0.5 - tau), rel=0.03)


def test_a_tail_of_everything_is_mepol() -> None:
    policy, trajectories, neighbourhood = make_samples()
    settings = off_policy(1e-2, tail_size=MINIBATCHES, iterations=2)
    _, report = improve_off_policy(Learner.start(policy), trajectories, neighbourhood, settings)
    assert report.tail.all()
    assert report.objective == pytest.approx(float(report.entropies.mean()))


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("rows", [1, 2 * BATCH * TIME, 1000])
def test_judging_and_differentiating_in_one_pass(ended: bool, rows: int, monkeypatch) -> None:
    """The results are those of two separate passes, with groups of one, two or all mini-batches."""
    policy, trajectories, neighbourhood = make_samples(ended=ended)
    other = changed(policy, 1, 0.05)
    samples = trajectories.perceived, trajectories.actions
    before = log_probabilities(policy, *samples)
    log_ratios = log_probabilities(other, *samples) - before
    entropies, kl = estimate_entropies_and_kl(log_ratios, trajectories, neighbourhood)
    gradient = tail_gradient(other, log_ratios, trajectories, neighbourhood, jnp.arange(MINIBATCHES))

    monkeypatch.setattr("alphamepol.algorithms.alphamepol.estimates.mapped_rows_per_product", lambda: rows)
    judged = estimate_with_gradient(other, trajectories, neighbourhood, before)
    np.testing.assert_allclose(judged.log_ratios, log_ratios, atol=1e-12)
    np.testing.assert_allclose(judged.entropies, entropies, rtol=1e-12)
    assert judged.kl == pytest.approx(float(kl), rel=1e-12)
    np.testing.assert_allclose(ravel_pytree(judged.gradient)[0], ravel_pytree(gradient)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.parametrize("ended", [True, False])
def test_on_policy_gradient_against_finite_differences(baseline: bool, ended: bool) -> None:
    policy, trajectories, neighbourhood = make_samples(ended=ended)
    entropies = jax.vmap(particle_entropy)(neighbourhood)
    order = np.argsort(entropies)[:TAIL]
    worth = np.asarray(entropies)[order] - (0.0 if baseline else float(entropies[order[-1]]))
    flat, restore = ravel_pytree(policy)

    def surrogate(theta) -> float:
        log_probs = log_probabilities(restore(theta), trajectories.perceived, trajectories.actions)
        sums = np.sum(np.where(trajectories.valid, log_probs, 0.0), axis=(1, 2))
        return float(np.mean(worth * sums[order]))

    gradient = on_policy_gradient(policy, trajectories, entropies, tail_size=TAIL, baseline=baseline)
    expected = [(surrogate(flat + 1e-5 * unit) - surrogate(flat - 1e-5 * unit)) / 2e-5 for unit in jnp.eye(flat.size)]
    np.testing.assert_allclose(ravel_pytree(gradient)[0], expected, rtol=1e-5, atol=1e-6)
    assert np.abs(expected).max() > 0.1


def test_on_policy_step_goes_along_its_gradient() -> None:
    policy, trajectories, neighbourhood = make_samples()
    settings = OnPolicySettings(jnp.array(1e-3), TAIL, baseline=False)
    learner, report = improve_on_policy(Learner.start(policy), trajectories, neighbourhood, settings)
    entropies = jax.vmap(particle_entropy)(neighbourhood)
    gradient = on_policy_gradient(policy, trajectories, entropies, tail_size=TAIL, baseline=False)
    # The first Adam step changes every parameter by the rate, in the direction of the gradient's sign.
    change = ravel_pytree(learner.policy)[0] - ravel_pytree(policy)[0]
    np.testing.assert_allclose(change, 1e-3 * np.sign(ravel_pytree(gradient)[0]), atol=1e-5)
    assert (int(report.iterations), int(report.backtracks)) == (1, 0)


def test_score_sum_does_not_depend_on_how_trajectories_are_cut_into_pieces(monkeypatch) -> None:
    policy, trajectories, _ = make_samples()
    coefficients = jnp.asarray(np.random.default_rng(0).standard_normal((MINIBATCHES, BATCH, TIME)))
    results = []
    for piece in (TIME, 5 * TIME + 1, 100 * TIME):  # the second does not divide the 12 trajectories evenly
        monkeypatch.setattr(
            "alphamepol.algorithms.alphamepol.log_probabilities.mapped_rows_per_product", lambda _, most=piece: most
        )
        gradient = score_sum_of_log_probabilities(policy, trajectories.perceived, trajectories.actions, coefficients)
        results.append(ravel_pytree(gradient)[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-10)
    np.testing.assert_allclose(results[0], results[2], rtol=1e-10)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("update", ["off-policy", "on-policy"])
def test_the_effective_share_of_samples_against_loops(update: str, ended: bool) -> None:
    policy, trajectories, neighbourhood = make_samples(ended=ended)
    samples = Learner.start(policy), trajectories, neighbourhood
    if update == "off-policy":
        improved, report = improve_off_policy(*samples, off_policy(0.05, trust_region=100.0, iterations=3))
    else:
        improved, report = improve_on_policy(*samples, OnPolicySettings(jnp.array(0.05), TAIL, baseline=True))
    perceived, actions, valid = (
        np.asarray(part) for part in (trajectories.perceived, trajectories.actions, trajectories.valid)
    )
    for i in range(MINIBATCHES):
        weights = []
        for b in range(BATCH):
            product = 1.0
            for t in np.flatnonzero(valid[i, b]):
                o, a = perceived[i, b, t], actions[i, b, t]
                product *= np.exp(plain_log_prob(improved.policy, o, a) - plain_log_prob(policy, o, a))
                weights.append(product)
        share = np.sum(weights) ** 2 / np.sum(np.square(weights)) / len(weights)
        assert report.effective_shares[i] == pytest.approx(share, rel=1e-8)
        assert share < 0.99
