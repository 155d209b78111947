"""Test distances and bounds on chains that can be enumerated, and that the bounds hold there."""

import math

import numpy as np
import pytest
from chains import Exact, distance, parting, random_chain
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphamepol.algorithms.alphamepol.baseline import baseline_trade_off_of_scores, samples_needed_without_baseline
from alphamepol.estimation.member_distances import (
    Cells,
    StepSample,
    diameter_of_distances,
    distances_by_step_contrasts,
    entropy_of_distance_cells,
    lipschitz_constant_of_distances,
    partition_into_cells,
    shares_of_cells,
    total_variation_distance,
    variation_distance,
    wasserstein_distance,
)
from alphamepol.estimation.theoretical_bounds import (
    sharp_theoretical_gap_bound,
    theoretical_entropy_gap_bound,
    theoretical_one_step_bound,
    theoretical_wasserstein_bound,
)


@st.composite
def two_chains(draw):
    """Draw two chains with the same policy, which are more or less alike, and a horizon."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    states = draw(st.integers(2, 6))
    alike = draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]))
    chooses = random.uniform(size=states)
    first = Exact(random_chain(random, states), random.dirichlet(np.ones(states)), chooses)
    start = first.start if draw(st.booleans()) else random.dirichlet(np.ones(states))
    second = Exact(random_chain(random, states, near=first.transition, share=alike), start, chooses)
    return first, second, draw(st.integers(1, 30))


@settings(deadline=None, derandomize=True)
@given(two_chains())
def test_the_one_step_bound_holds(chains):
    first, second, horizon = chains
    apart_in_all = total_variation_distance(first.reached(horizon), second.reached(horizon))
    starts = total_variation_distance(first.start, second.start)
    for one, other in ((first, second), (second, first)):
        apart = 0.5 * np.abs(one.transition - other.transition).sum(axis=-1)
        exact = theoretical_one_step_bound(
            starts, float(one.acted_in(horizon) @ (one.weights() * apart).sum(axis=0)), horizon
        )
        assert apart_in_all <= exact + 1e-12
        joined = (one.weights() * parting(one.transition, other.transition)).sum(axis=0)
        loose = theoretical_one_step_bound(
            parting(one.start, other.start), float(one.acted_in(horizon) @ joined), horizon
        )
        assert exact <= loose + 1e-9


@settings(deadline=None, derandomize=True)
@given(two_chains())
def test_the_wasserstein_bound_holds(chains):
    first, second, horizon = chains
    far = distance(first.reached(horizon), second.reached(horizon))
    step = distance(first.transition, second.transition).max()
    states = np.arange(len(first.start))
    for one in (first, second):
        rows = one.under_policy
        apart = np.array([[distance(a, b) for b in rows] for a in rows])
        between = np.abs(states[:, None] - states)
        constant = (apart[between > 0] / between[between > 0]).max()
        bound = theoretical_wasserstein_bound(distance(first.start, second.start), step, constant, horizon)
        assert far <= bound + 1e-9


@settings(deadline=None, derandomize=True)
@given(two_chains())
def test_the_entropy_bounds_hold(chains):
    first, second, horizon = chains
    distributions = first.reached(horizon), second.reached(horizon)
    gap = abs(entropy_of_distance_cells(distributions[0]) - entropy_of_distance_cells(distributions[1]))
    apart = total_variation_distance(*distributions)
    states, smallest = len(first.start), float(np.min(distributions))
    assert gap <= theoretical_entropy_gap_bound(apart, smallest) + 1e-9
    assert gap <= sharp_theoretical_gap_bound(apart, states) + 1e-9


def test_bounds_of_known_size():
    assert theoretical_one_step_bound(0.1, 0.02, 10) == pytest.approx(0.3)
    assert theoretical_wasserstein_bound(0.0, 2.0, 0.5, 3) == pytest.approx(2 * (1 + 0.5 + 0.25))
    assert theoretical_wasserstein_bound(0.0, 2.0, 1.0, 3) == pytest.approx(6.0)
    assert theoretical_wasserstein_bound(4.0, 0.0, 0.5, 3) == pytest.approx(2.0)
    assert theoretical_wasserstein_bound(0.0, 1e-3, 3.0, 10_000) == math.inf
    assert theoretical_wasserstein_bound(0.0, 0.0, 3.0, 10_000) == 0.0
    assert theoretical_wasserstein_bound(0.0, 1e-3, math.inf, 5) == math.inf
    assert theoretical_wasserstein_bound(0.0, 0.0, math.inf, 5) == 0.0
    assert theoretical_entropy_gap_bound(0.1, 0.2) == pytest.approx(0.05 + 0.1 * math.log(5))
    assert theoretical_entropy_gap_bound(0.1, 0.0) == math.inf
    assert theoretical_entropy_gap_bound(0.0, 0.0) == 0.0


def test_the_sharp_bound_is_reached():
    """The first distribution has everything in one cell. The second moves a part evenly to all other cells."""
    for cells, moved in ((2, 0.3), (5, 0.3), (50, 0.7)):
        first = np.zeros(cells)
        first[0] = 1.0
        second = np.full(cells, moved / (cells - 1))
        second[0] = 1 - moved
        assert total_variation_distance(first, second) == pytest.approx(moved)
        assert entropy_of_distance_cells(second) == pytest.approx(sharp_theoretical_gap_bound(moved, cells))
    assert sharp_theoretical_gap_bound(1.0, 8) == pytest.approx(math.log(8))


def test_counts_give_the_variation_of_the_chains():
    """The exact variation lies between the means of the low and the high estimates from trajectories."""
    random = np.random.default_rng(3)
    first, second = random.dirichlet(np.ones(5)), random.dirichlet(np.ones(5))
    exact = total_variation_distance(first, second)
    lows, highs = [], []
    for _ in range(50):
        counts = [random.multinomial(40, one, 30).astype(float) for one in (first, second)]
        found = variation_distance(*counts)
        assert found.low <= found.high + 1e-9
        lows.append(found.low)
        highs.append(found.high)
    assert np.mean(lows) == pytest.approx(exact, abs=0.01)
    assert np.mean(highs) == pytest.approx(exact, abs=0.01)
    assert np.mean(lows) <= exact + 0.003
    assert np.mean(highs) >= exact - 0.003


def test_equal_members_vary_by_chance_alone():
    """Trajectories with ten visits to a hundred cells have very different counts, so the high estimate is large.

    The low estimate is measured on other trajectories than those that chose the cells, so it is near 0.
    """
    random = np.random.default_rng(4)
    same = np.full(100, 0.01)
    found = [
        variation_distance(*(random.multinomial(10, same, 10).astype(float) for _ in range(2))) for _ in range(200)
    ]
    assert np.mean([one.high for one in found]) > 0.4
    assert np.mean([one.low for one in found]) < 0.1


def test_one_trajectory_has_no_low_estimate():
    found = variation_distance(np.array([[3.0, 1.0]]), np.array([[1.0, 3.0]]))
    assert (found.low, found.high) == (0.0, 0.5)


@settings(deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_wasserstein_on_a_line_is_that_of_scipy(seed, count):
    first, second = np.random.default_rng(seed).normal(size=(2, count, 1))
    assert wasserstein_distance(first, second) == pytest.approx(stats.wasserstein_distance(first[:, 0], second[:, 0]))


def test_wasserstein_of_what_is_moved_is_the_way():
    points = np.random.default_rng(0).normal(size=(100, 3))
    assert wasserstein_distance(points, points + np.array([0.3, 0.0, 0.4])) == pytest.approx(0.5)


def test_lipschitz_of_a_linear_step_is_its_factor():
    points = np.random.default_rng(1).normal(size=(50, 2))
    noise = np.random.default_rng(2).normal(size=(1, 7, 2))
    assert lipschitz_constant_of_distances(points, 0.8 * points[:, None] + noise) == pytest.approx(0.8)
    assert lipschitz_constant_of_distances(np.zeros((4, 2)), np.zeros((4, 3, 2))) == 0.0  # all points are in one place


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 10])
def test_a_partition_has_about_so_many_cells_and_every_point_one(dimension):
    points = np.random.default_rng(0).normal(size=(5000, dimension))
    cells = partition_into_cells(points)
    numbers = cells.numbers(points)
    assert 200 <= cells.count <= 256
    assert numbers.min() >= 0
    assert numbers.max() < cells.count
    assert len(np.unique(numbers)) > 0.4 * cells.count


def test_cells_of_a_grid_count_row_by_row():
    cells = Cells(edges=(np.array([0.0, 1.0]), np.array([10.0])))
    points = np.array([[-5.0, 0.0], [0.0, 10.0], [0.5, -3.0], [1.0, 99.0]])
    assert cells.count == 6
    assert cells.numbers(points).tolist() == [0, 3, 2, 5]


def test_cells_around_centres_are_what_is_nearest():
    cells = Cells(centres=np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert cells.numbers(np.array([[0.4, 0.4], [0.6, 0.6]])).tolist() == [0, 1]
    assert cells.count == 2


def test_few_different_particles_have_a_cell_each():
    corners = np.eye(5)[np.arange(1000) % 5]
    cells = partition_into_cells(corners)
    assert cells.count == 5
    assert len(np.unique(cells.numbers(corners))) == 5


def test_shares_are_of_all_trajectories_together():
    assert shares_of_cells(np.array([[1.0, 1.0], [0.0, 2.0]])).tolist() == [0.25, 0.75]


@st.composite
def outcomes(draw):
    """Draw equally likely scores with mean zero, their entropies, and the size of the tail."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(4, 30))
    scores = random.normal(size=count)
    entropies = draw(st.sampled_from([-3.0, 0.0, 2.0])) + random.normal(size=count)
    return scores - scores.mean(), entropies, draw(st.integers(1, count))


@settings(deadline=None, derandomize=True)
@given(outcomes())
def test_the_bias_of_the_baseline_is_as_enumerated_and_within_its_bound(found):
    scores, entropies, tail = found
    trade = baseline_trade_off_of_scores(scores, entropies, tail)
    order = np.argsort(entropies)
    inside = np.isin(np.arange(len(order)), order[:tail])
    at_risk = np.sort(entropies)[tail - 1]
    without = (scores * (entropies - at_risk) * inside).mean()
    with_baseline = (scores * entropies * inside).mean()
    assert trade.value_at_risk == at_risk
    assert trade.bias == pytest.approx(abs(with_baseline - without), abs=1e-12)
    assert trade.bias <= trade.bias_bound + 1e-12
    assert trade.bias_bound == pytest.approx(np.abs(scores).max() * tail / len(order) * abs(at_risk))
    wanted = trade.range**2 * math.log(40) / 2
    assert trade.samples * trade.bias_bound**2 == pytest.approx(wanted) or trade.samples in (0.0, math.inf)


def test_so_many_samples_are_enough():
    """Samples with two values are the hardest case.

    The error of the mean of n* samples is larger than allowed with probability at most δ. With n*/20 samples, it is too
    large more often.
    """
    random = np.random.default_rng(0)
    for chance, accuracy in ((0.5, 0.1), (0.1, 0.05)):
        needed = samples_needed_without_baseline(0.05, 3.0, accuracy * 3.0)
        means = random.binomial(math.ceil(needed), chance, 20_000) / math.ceil(needed)
        assert (np.abs(means - chance) > accuracy).mean() <= 0.05
        fewer = math.ceil(needed / 20)
        means = random.binomial(fewer, chance, 20_000) / fewer
        assert (np.abs(means - chance) > accuracy).mean() > 0.05
    assert samples_needed_without_baseline(0.05, 0.0, 0.1) == 0.0
    assert samples_needed_without_baseline(0.05, 1.0, 0.0) == math.inf


def test_the_mean_squared_errors_cross_where_it_says():
    """With fewer samples than the crossing, the gradient with b is nearer the truth; with more, the one without b.

    The errors are simulated.
    """
    random = np.random.default_rng(5)
    # Entropies in the tail are nearly 0 and the VaR is 1, so the gradient with b varies little. Scores in the tail are
    # positive on average, which makes a bias.
    entropies = np.where(np.arange(1000) % 2 == 0, -0.1, 3.0) + random.normal(scale=0.01, size=1000)
    entropies[0] = 1.0  # the VaR
    scores = random.normal(size=1000) + np.where(np.arange(1000) % 2 == 0, 0.2, -0.2)
    tail = 500
    trade = baseline_trade_off_of_scores(scores, entropies, tail)
    assert trade.value_at_risk == 1.0
    inside = entropies <= 1.0
    samples = {True: scores * entropies * inside, False: scores * (entropies - 1.0) * inside}
    truth, gained = samples[False].mean(), samples[False].var(ddof=1) - samples[True].var(ddof=1)
    assert gained > 0
    assert trade.crossing == pytest.approx(gained / trade.bias**2, rel=0.2)  # it subtracts chance from the bias
    for count, nearer in ((round(trade.crossing / 4), True), (round(4 * trade.crossing), False)):
        drawn = random.integers(1000, size=(4000, count))
        errors = {b: np.mean((values[drawn].mean(axis=1) - truth) ** 2) for b, values in samples.items()}
        assert (errors[True] < errors[False]) == nearer


def test_a_bias_that_is_chance_alone_never_crosses():
    random = np.random.default_rng(1)
    crossings = []
    for _ in range(50):
        entropies = np.concatenate([np.full(500, -0.1), [1.0], np.full(499, 3.0)])
        crossings.append(baseline_trade_off_of_scores(random.normal(size=1000), entropies, 501).crossing)
    assert np.median(crossings) > 1000


def test_the_diameter_is_the_farthest_pair_and_of_equal_members_nothing():
    random = np.random.default_rng(0)
    same = np.full(50, 0.02)
    other = np.concatenate([np.full(25, 0.03), np.full(25, 0.01)])
    lows, highs = [], []
    for _ in range(40):
        counts = [random.multinomial(20, one, 20).astype(float) for one in [same] * 6]
        low, high = diameter_of_distances(
            [variation_distance(counts[i], counts[j]) for i in range(6) for j in range(i)]
        )
        lows.append(low)
        highs.append(high)
    assert np.mean(lows) < 0.04
    assert np.mean(highs) > 0.15
    counts = [random.multinomial(500, one, 20).astype(float) for one in [same] * 3 + [other]]
    low, high = diameter_of_distances([variation_distance(counts[i], counts[j]) for i in range(4) for j in range(i)])
    assert low == pytest.approx(0.25, abs=0.02)
    assert high == pytest.approx(0.25, abs=0.03)


def test_steps_tell_members_apart_by_what_they_do():
    """In one of three members the same action has twice the effect. The other two members are the same."""
    random = np.random.default_rng(0)

    def steps(count, factor):
        before = random.normal(size=(count, 2))
        return StepSample(before, factor * before[:, 1:] + 0.1 * random.normal(size=(count, 1)))

    factors = (1.0, 2.0, 1.0)
    found = distances_by_step_contrasts([steps(500, one) for one in factors], [steps(4000, one) for one in factors])
    assert (np.diag(found) == 0.5).all()
    assert found[0, 2] == pytest.approx(0.5, abs=0.05)
    assert found[2, 0] == pytest.approx(0.5, abs=0.05)
    for i, j in ((0, 1), (1, 0), (1, 2), (2, 1)):
        assert found[i, j] > 0.75
