"""Test distances and bounds that are measured on samples against chains that can be enumerated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chains import Chain, Exact, chain_class, distance, parting, random_chain

import alphamepol as am
from alphamepol.algorithms.alphamepol.baseline import measure_baseline_trade_off
from alphamepol.algorithms.alphamepol.log_probabilities import log_probabilities
from alphamepol.estimation.member_distances import Cells, entropy_of_distance_cells, total_variation_distance
from alphamepol.estimation.risk import risk_tail_count
from alphamepol.measuring import dynamics as dynamics_module
from alphamepol.measuring.bounds import measure_bounds
from alphamepol.measuring.dynamics import COMPARED, measure_dynamics, members_for_dynamics
from alphamepol.policies.policy_kinds import CategoricalPolicy
from alphamepol.sampling.sampler import collect_with_sampler

STATES, HORIZON = 5, 12
CELLS = Cells(edges=(np.arange(1.0, STATES),))


@pytest.fixture(scope="module")
def policy():
    """Return a policy whose choice depends on the state."""
    made = CategoricalPolicy(1, 2, hidden=(8,), key=jax.random.key(2))
    return eqx.tree_at(lambda policy: policy.layers[-1].weight, made, 4 * made.layers[-1].weight)


def enumerated(policy, count, seed=0):
    random = np.random.default_rng(seed)
    chooses = np.array(
        [float(jax.nn.softmax(policy.distribution(jnp.array([float(s)])).logits)[1]) for s in range(STATES)]
    )
    first = random_chain(random, STATES)
    start = random.dirichlet(np.ones(STATES))
    others = [random_chain(random, STATES, near=first, share=share) for share in np.linspace(0.2, 1, count - 1)]
    return [Exact(transition, start, chooses) for transition in (first, *others)]


@pytest.fixture(scope="module")
def sampled(policy):
    """Return three enumerated chains, and the bounds that are measured on samples of them."""
    exact = enumerated(policy, 3)
    exact[2] = exact[2]._replace(start=np.eye(STATES)[4])
    chains = chain_class(exact, spread=True)
    members = jnp.arange(3)[None]
    policies = jax.tree.map(lambda leaf: leaf[None], policy)
    found = collect_with_sampler(
        policies, chains, members, batch=2000, horizon=HORIZON, keys=jax.random.split(jax.random.key(0), 1)
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("TRAJECTORIES", 500), ("STATES", 400), ("DRAWS", 64)):
            patch.setattr(dynamics_module, name, size)
        dynamics = measure_dynamics(policy, chains, HORIZON, None, None, key=jax.random.key(1))
    particles, valid = (list(np.asarray(part[0])) for part in (found.particles, found.valid))
    return exact, measure_bounds(particles, valid, chains.names, dynamics, CELLS)


def test_state_distributions_are_those_enumerated(sampled):
    exact, found = sampled
    distributions = [one.reached(HORIZON) for one in exact]
    for i in range(3):
        assert found.cell_entropies[i] == pytest.approx(entropy_of_distance_cells(distributions[i]), abs=0.01)
        for j in range(3):
            truth = total_variation_distance(distributions[i], distributions[j])
            assert found.variation_high[i, j] == pytest.approx(truth, abs=0.012)
            assert found.variation_low[i, j] == pytest.approx(truth, abs=0.012)
    assert found.diameter == pytest.approx((np.max(found.variation_low), np.max(found.variation_high)), abs=0.01)
    assert found.smallest == pytest.approx(np.min(distributions), abs=0.003)
    assert found.cells == STATES
    assert not found.ends


def test_steps_and_starts_are_those_enumerated(sampled):
    exact, found = sampled
    for i in range(3):
        for j in range(3):
            one, other = exact[i], exact[j]
            differ = (one.weights() * parting(one.transition, other.transition)).sum(axis=0)
            assert found.dynamics.steps_differ[i, j] == pytest.approx(one.acted_in(HORIZON) @ differ, abs=0.03)
            assert found.dynamics.starts_differ[i, j] == pytest.approx(parting(one.start, other.start), abs=0.07)
            assert found.dynamics.starts_distance[i, j] == pytest.approx(distance(one.start, other.start), abs=0.25)
            far = distance(one.transition, other.transition)
            # A rare action may be missing in the samples. The largest mean of finitely many draws is too large.
            met = max(np.max(far * (some.weights() * some.acted_in(HORIZON) > 0.01)) for some in exact)
            assert met - 0.15 <= found.dynamics.steps_distance[i, j] <= far.max() + 0.4


@pytest.mark.parametrize("seed", range(4))
def test_the_measured_bounds_hold_where_they_say_something(policy, seed):
    """The chains differ in few steps, forget quickly, and have a short horizon, so that no bound is vacuous."""
    random = np.random.default_rng(seed)
    chooses = enumerated(policy, 2)[0].chooses
    forgets = np.tile(random.dirichlet(np.ones(STATES)), (2, STATES, 1))
    transition = 0.1 * random_chain(random, STATES) + 0.9 * forgets
    start = random.dirichlet(np.ones(STATES))
    exact = [
        Exact(one, start, chooses) for one in (transition, random_chain(random, STATES, near=transition, share=0.03))
    ]
    chains, horizon = chain_class(exact, spread=False), 5
    policies = jax.tree.map(lambda leaf: leaf[None], policy)
    found = collect_with_sampler(
        policies,
        chains,
        jnp.arange(2)[None],
        batch=1500,
        horizon=horizon,
        keys=jax.random.split(jax.random.key(seed), 1),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("TRAJECTORIES", 1000), ("STATES", 100), ("DRAWS", 1000)):
            patch.setattr(dynamics_module, name, size)
        dynamics = measure_dynamics(policy, chains, horizon, None, None, key=jax.random.key(seed))
    particles, valid = (list(np.asarray(part[0])) for part in (found.particles, found.valid))
    cells = Cells(edges=(np.arange(0.5, STATES - 1),))
    measured = measure_bounds(particles, valid, chains.names, dynamics, cells)
    reached = [one.reached(horizon) for one in exact]
    truth = total_variation_distance(*reached)
    low, high = measured.diameter
    assert low - 0.015 <= truth <= high + 0.005
    differ = (exact[0].weights() * parting(*(one.transition for one in exact))).sum(axis=0)
    assert truth <= measured.one_step_bound < 1
    expected = [one.acted_in(horizon) @ differ for one in exact]
    assert measured.one_step_bound == pytest.approx(horizon * max(expected), rel=0.25)
    assert measured.dynamics.lipschitz < 1
    assert distance(*reached) <= measured.wasserstein_bound < STATES - 1
    gap = abs(entropy_of_distance_cells(reached[0]) - entropy_of_distance_cells(reached[1]))
    assert gap <= measured.entropy_gap_bound
    assert gap <= measured.sharp_entropy_gap_bound < np.log(STATES)


class Shown(Chain):
    """A chain whose observations count the states from the other end if `turned` is true."""

    turned: jax.Array

    def observe(self, state):
        return jnp.where(self.turned, STATES - 1 - state.number, state.number).astype(float)[None]


def test_members_that_only_look_otherwise_differ(policy):
    exact = enumerated(policy, 2)[0]
    parts = (jnp.asarray(part, jnp.float32) for part in (exact.transition, exact.start))
    transition, start = parts
    members = {name: Shown(transition, start, True, jnp.array(turned)) for name, turned in (("a", False), ("b", True))}
    found = measure_dynamics(policy, am.EnvironmentClass(members), HORIZON, None, None, key=jax.random.key(1))
    middle = exact.acted_in(HORIZON) @ (np.einsum("as,ast->st", exact.weights(), exact.transition)[:, STATES // 2])
    # All steps differ, except those to the middle state, which looks the same from both ends.
    assert found.steps_differ[0, 1] == pytest.approx(1 - middle, abs=0.1)


def test_of_large_classes_some_members_are_compared():
    assert members_for_dynamics(3).tolist() == [0, 1, 2]
    some = members_for_dynamics(101)
    assert len(some) == COMPARED
    assert (some[0], some[-1]) == (0, 100)


def test_wasserstein_distances_are_those_enumerated(sampled):
    exact, found = sampled
    for i in range(3):
        for j in range(i):
            truth = distance(exact[i].reached(HORIZON), exact[j].reached(HORIZON))
            assert found.wasserstein[i, j] == pytest.approx(truth, abs=0.2)
    assert found.wasserstein_chance < 0.25
    assert (np.diag(found.wasserstein) == 0).all()


def test_the_lipschitz_constant_is_that_enumerated(policy):
    """The policy does not look at the state, so that near states choose the same action."""
    blind = eqx.tree_at(lambda policy: policy.layers[0].weight, policy, jnp.zeros_like(policy.layers[0].weight))
    exact = enumerated(blind, 2, seed=4)
    chains = chain_class(exact, spread=False)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("TRAJECTORIES", 50), ("STATES", 100), ("DRAWS", 2000)):
            patch.setattr(dynamics_module, name, size)
        found = measure_dynamics(blind, chains, HORIZON, None, None, key=jax.random.key(1))
    largest = 0.0
    for one in exact:
        for i in range(STATES):
            for j in range(i):
                apart = (one.weights()[:, i] * distance(one.transition[:, i], one.transition[:, j])).sum()
                largest = max(largest, apart / (i - j))
    assert found.lipschitz == pytest.approx(largest, rel=0.1)


def test_equal_members_do_not_differ(policy):
    exact = enumerated(policy, 2)
    chains = chain_class([exact[0], exact[0]], spread=True)
    found = measure_dynamics(policy, chains, HORIZON, None, None, key=jax.random.key(1))
    assert not found.steps_differ.any()
    assert not found.starts_differ.any()
    assert not found.steps_distance.any()


def test_units_divide_distances(policy):
    chains = chain_class(enumerated(policy, 2), spread=True)
    plain, scaled = (
        measure_dynamics(policy, chains, HORIZON, None, units, key=jax.random.key(1))
        for units in (None, jnp.array([4.0]))
    )
    np.testing.assert_allclose(scaled.steps_distance, plain.steps_distance / 4, rtol=1e-5)
    np.testing.assert_allclose(scaled.lipschitz, plain.lipschitz, rtol=1e-5)


def test_what_is_known_of_some_members_only(sampled):
    _, found = sampled
    part = found.dynamics.of_members(np.array([0, 2]))
    assert part.steps_differ.tolist() == found.dynamics.steps_differ[[0, 2]][:, [0, 2]].tolist()


def test_classes_on_the_host_have_no_dynamics():
    host = am.gymnasium_class({"one": "Pendulum-v1", "two": "Pendulum-v1"}, workers=1)
    policy = am.GaussianPolicy(3, 1, hidden=(4,), key=jax.random.key(0))
    assert measure_dynamics(policy, host, 5, None, None, key=jax.random.key(0)) is None
    particles = [np.random.default_rng(i).normal(size=(4, 30, 3)) for i in range(2)]
    found = measure_bounds(particles, [np.ones((4, 30), bool)] * 2, host.names, None)
    assert found.one_step_bound is None
    assert found.wasserstein_bound is None
    assert {"one_step_bound", "wasserstein_bound", "lipschitz"}.isdisjoint(found.to_dict())


def test_scores_are_those_of_the_jacobian(policy):
    """Compare f·u of the mini-batches with the full Jacobian."""
    chains = chain_class(enumerated(policy, 2), spread=True)
    members = jnp.array([[0, 1] * 6])
    policies = jax.tree.map(lambda leaf: leaf[None], policy)
    samples = collect_with_sampler(
        policies, chains, members, batch=2, horizon=6, keys=jax.random.split(jax.random.key(0), 1)
    )
    samples = jax.tree.map(lambda leaf: leaf[0], samples)
    entropies = jnp.asarray(np.random.default_rng(0).normal(size=12), jnp.float32)
    alpha, half = 0.5, 6

    def sums(policy):
        return jnp.sum(log_probabilities(policy, samples.perceived, samples.actions), axis=(-1, -2))

    jacobian = jax.jacrev(sums)(policy)
    scores = np.concatenate([np.asarray(leaf).reshape(12, -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    tail = risk_tail_count(alpha, half)
    worst = np.argsort(entropies[:half])[:tail]
    gradient = (scores[worst] * (entropies[worst] - entropies[worst[-1]])[:, None]).mean(axis=0)
    along = scores[half:] @ (gradient / np.linalg.norm(gradient))
    found = measure_baseline_trade_off(policy, samples, entropies, alpha)
    assert found.largest_score == pytest.approx(float(np.abs(along).max()), rel=1e-3)
    inside = np.isin(np.arange(half), np.argsort(entropies[half:])[:tail])
    assert found.bias == pytest.approx(abs(found.value_at_risk * float((along * inside).mean())), rel=1e-2)


def test_too_few_mini_batches_have_no_trade_off(policy):
    chains = chain_class(enumerated(policy, 2), spread=True)
    policies = jax.tree.map(lambda leaf: leaf[None], policy)
    samples = collect_with_sampler(
        policies, chains, jnp.array([[0, 1, 0]]), batch=1, horizon=4, keys=jax.random.split(jax.random.key(0), 1)
    )
    samples = jax.tree.map(lambda leaf: leaf[0], samples)
    assert measure_baseline_trade_off(policy, samples, jnp.zeros(3), 0.5) is None
