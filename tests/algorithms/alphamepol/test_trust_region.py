"""Test in float32 that steps stay inside the trust region, against a KL that is computed in float64 NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol import GaussianPolicy, nearest_neighbours
from alphamepol.algorithms.alphamepol.estimates import estimate_entropies_and_kl, estimate_with_gradient
from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities
from alphamepol.algorithms.alphamepol.update import (
    MAX_TRIES,
    Learner,
    OffPolicySettings,
    improve_off_policy,
)
from alphamepol.estimation.knn import Neighbourhood
from alphamepol.sampling.trajectories import Trajectories

MINIBATCHES, BATCH, TIME, K, TAIL = 4, 2, 60, 4, 2


@functools.cache
def make_samples(
    method: str = "tree", ended: bool = False, seed: int = 0
) -> tuple[GaussianPolicy, Trajectories, Neighbourhood]:
    """Return a policy, trajectories with its actions, and neighbours."""
    random = np.random.default_rng(seed)
    shape = (MINIBATCHES, BATCH, TIME, 2)
    policy = GaussianPolicy(2, 2, (8,), -2.0, key=jax.random.key(seed))
    perceived = jnp.asarray(random.uniform(-1, 1, shape), jnp.float32)
    noise = jnp.asarray(random.standard_normal(shape), jnp.float32)
    means = policy.network_of_rows(perceived.reshape(-1, 2)).reshape(shape)
    valid = np.ones(shape[:-1], bool)
    if ended:
        valid[1, 0, 20:] = valid[3, 1, 45:] = False
    particles = np.cumsum(0.2 * random.standard_normal(shape), axis=2, dtype=np.float32)
    trajectories = Trajectories(
        perceived=perceived,
        actions=means + jnp.exp(policy.log_std) * noise,
        particles=jnp.asarray(particles),
        valid=jnp.asarray(valid),
        members=jnp.zeros(MINIBATCHES, int),
    )
    sets, inside = particles.reshape(MINIBATCHES, -1, 2), valid.reshape(MINIBATCHES, -1)
    return policy, trajectories, nearest_neighbours(sets, K, inside, method=method)


def true_log_probs(policy: GaussianPolicy, trajectories: Trajectories) -> np.ndarray:
    hidden = np.asarray(trajectories.perceived, np.float64)
    for number, layer in enumerate(policy.layers):
        hidden = np.maximum(hidden, 0) if number else hidden
        hidden = hidden @ np.asarray(layer.weight, np.float64).T + np.asarray(layer.bias, np.float64)
    log_std = np.asarray(policy.log_std, np.float64)
    standardised = (np.asarray(trajectories.actions, np.float64) - hidden) / np.exp(log_std)
    return np.sum(-0.5 * standardised**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)


def true_kl(policy, behaviour, trajectories: Trajectories, neighbourhood: Neighbourhood) -> float:
    """Return the KL (E6) in float64, computed in loops."""
    log_ratios = true_log_probs(policy, trajectories) - true_log_probs(behaviour, trajectories)
    valid = np.asarray(trajectories.valid)
    log_weights = np.where(valid, np.cumsum(log_ratios, axis=-1), -np.inf).reshape(MINIBATCHES, -1)
    found = neighbourhood.indices if neighbourhood.among is None else np.argsort(~neighbourhood.among)[..., :K]
    everything = np.logaddexp.reduce(log_weights, axis=None)
    log_masses = [
        np.logaddexp.reduce(log_weights[i][np.asarray(found[i, t])]) - everything
        for i, t in np.argwhere(valid.reshape(MINIBATCHES, -1))
    ]
    return float(np.log(K / len(log_masses)) - np.mean(log_masses))


def settings(rate: float, trust_region: float, tail_size: int = TAIL) -> OffPolicySettings:
    return OffPolicySettings(jnp.array(rate), jnp.array(trust_region), tail_size, jnp.array(3), tail_size)


improve = jax.jit(improve_off_policy)
entropies_and_kl = jax.jit(estimate_entropies_and_kl)
together_with_gradient = jax.jit(estimate_with_gradient)
log_probs = jax.jit(log_probabilities)


@pytest.mark.parametrize(
    ("method", "ended", "tail_size"),
    [("tree", False, TAIL), ("tree", True, MINIBATCHES), ("matrix", True, TAIL), ("matrix", False, MINIBATCHES)],
)
def test_the_step_stays_inside_the_trust_region_in_truth(method: str, ended: bool, tail_size: int) -> None:
    """The first try has a KL above 200. With masses that end at float32's smallest number it would be about 70."""
    policy, *samples = make_samples(method, ended)
    learner, report = improve(Learner.start(policy), *samples, settings(0.1, 100.0, tail_size))
    truth = true_kl(learner.policy, policy, *samples)
    assert report.kl == pytest.approx(truth, rel=1e-4)
    assert 10 < truth <= 100
    assert int(report.backtracks) > 0


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("method", ["tree", "matrix"])
@pytest.mark.parametrize("rate", [0.003, 0.05, 0.5])
def test_the_kl_is_right_however_far_the_policy_moves(method: str, ended: bool, rate: float) -> None:
    """The KL is computed in two ways: from the log-ratios, and together with the gradient. It is 0.05 to 740 nats."""
    policy, trajectories, neighbourhood = make_samples(method, ended)
    moved = jax.tree.map(lambda leaf: leaf + rate * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape), policy)
    truth = true_kl(moved, policy, trajectories, neighbourhood)
    before = log_probs(policy, trajectories.perceived, trajectories.actions)
    ratios = log_probs(moved, trajectories.perceived, trajectories.actions) - before
    assert entropies_and_kl(ratios, trajectories, neighbourhood)[1] == pytest.approx(truth, rel=1e-4, abs=1e-5)
    together = together_with_gradient(moved, trajectories, neighbourhood, before)
    assert together.kl == pytest.approx(truth, rel=1e-4, abs=1e-5)


def test_seeds_that_are_mapped_together_stay_inside_their_trust_regions() -> None:
    """Seed 0 moves so far that masses underflow, seed 1 hardly moves. Each has the result that it has by itself."""
    samples = [make_samples(seed=seed) for seed in (0, 1)]
    rates = 0.1, 1e-4
    of_seeds = [
        (Learner.start(policy), *others, settings(rate, 100.0))
        for (policy, *others), rate in zip(samples, rates, strict=True)
    ]
    alone = [improve(*of_seed)[1] for of_seed in of_seeds]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *of_seeds)
    learners, report = jax.jit(jax.vmap(improve_off_policy))(*stacked)
    for seed, expected in enumerate(alone):
        policy = jax.tree.map(lambda leaf, seed=seed: leaf[seed], learners.policy)
        assert report.kl[seed] == pytest.approx(float(expected.kl), rel=1e-4)
        assert report.kl[seed] == pytest.approx(true_kl(policy, *samples[seed]), rel=1e-3, abs=1e-5)
    assert int(report.backtracks[0]) > 0
    assert int(report.backtracks[1]) == 0


@pytest.mark.parametrize("tail_size", [TAIL, MINIBATCHES])
def test_a_step_that_is_never_a_number_is_reported(tail_size: int) -> None:
    policy, *samples = make_samples()
    for rate, lost in ((1e30, True), (1e3, False)):
        _, report = improve(Learner.start(policy), *samples, settings(rate, 15.0, tail_size))
        assert (int(report.iterations), int(report.backtracks)) == (0, MAX_TRIES)
        assert bool(report.lost) == lost
