"""Test the gridworld against the oracle, against the statistics of the specification, and against cases by hand."""

from collections import Counter
from functools import cache

import equinox as eqx
import gridworld_oracle as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gridworld_oracle import DELTA
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamepol.environments.gridworld.gridworld import DIRECTIONS, Gridworld, turn_at_gridworld_border
from alphamepol.environments.gridworld.layouts import FOUR_ROOMS, TWO_HALLS
from alphamepol.environments.make import make
from alphamepol.errors import InputError

every_member = pytest.mark.parametrize("facts", oracle.MEMBERS, ids=lambda facts: facts.name)

build_class = cache(make)


def build(facts: oracle.Member) -> Gridworld:
    return build_class(facts.class_name)[facts.name]


def keys(count: int, seed: int = 0) -> jax.Array:
    return jax.random.split(jax.random.key(seed), count)


@eqx.filter_jit
def step_each(member, positions, actions, keys):
    return jax.vmap(lambda position, action, key: member.step(position, action, key=key))(positions, actions, keys)


@eqx.filter_jit
def step_often(member, position, action, keys):
    return jax.vmap(lambda key: member.step(position, action, key=key))(keys)


@eqx.filter_jit
def slope_often(member, position, keys):
    return jax.vmap(lambda key: member.slope(position, key=key))(keys)


@eqx.filter_jit
def reset_each(member, keys):
    return jax.vmap(lambda key: member.reset(key=key))(keys)


# ---------------------------------------------------------------- against the oracle


@jax.jit
def draws_of_step(keys, slope_mean):
    """Return the magnitude of the slope and the two lengths of the bounce that `step` draws from each key."""

    def draws(key):
        slope_key, bounce_key = jax.random.split(key)
        bound = slope_mean / (DELTA / 20)
        magnitude = slope_mean + DELTA / 20 * jax.random.truncated_normal(slope_key, -bound, bound)
        return magnitude, jax.random.uniform(bounce_key, (2,), maxval=DELTA / 2)

    magnitudes, bounces = jax.vmap(draws)(keys)
    return magnitudes, bounces


def free_positions(walls: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return free positions in float32. About a third of them are on the border, and some of these in a corner."""
    positions = rng.uniform(-1, 1, (10 * count, 2))
    on_border = rng.random(positions.shape) < 1 / 6
    positions = np.where(on_border, np.where(positions < 0, -1.0, 1.0), positions).astype(np.float32)
    return positions[~oracle.in_wall(walls, positions[:, 0], positions[:, 1])][:count]


def mixed_actions(positions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return actions from tiny ones to ones far beyond the clip, with some components 0.

    From a border, components are at most 0.19, because a full step of 0.2 would end on the edge of a cell.
    """
    actions = rng.normal(size=positions.shape) * rng.choice([0.02, 0.1, 0.2, 3.0], size=(len(positions), 1))
    actions = np.where(rng.random(actions.shape) < 0.05, 0.0, actions)
    from_border = np.any(np.abs(positions) == 1, axis=1, keepdims=True)
    return np.where(from_border, np.clip(actions, -0.19, 0.19), actions).astype(np.float32)


def test_steps_are_the_oracles():
    count = 2500
    outcomes, too_close = Counter(), 0
    for number, facts in enumerate(oracle.MEMBERS):
        rng = np.random.default_rng(number)
        positions = free_positions(facts.walls, count, rng)
        actions = mixed_actions(positions, rng)
        step_keys = keys(count, seed=number)
        reached = np.asarray(step_each(build(facts), positions, actions, step_keys))
        magnitudes, bounces = (np.asarray(draws, float) for draws in draws_of_step(step_keys, facts.slope_mean))
        for i in range(count):
            expected = oracle.step(facts, positions[i], actions[i], magnitudes[i], bounces[i])
            outcomes[expected.turns, expected.wall] += 1
            if oracle.near_an_edge(expected.tested):
                too_close += 1
            elif expected.wall == "stayed":
                assert np.array_equal(reached[i], positions[i]), (facts.name, positions[i], actions[i])
            else:
                difference = np.abs(reached[i] - expected.position).max()
                assert difference < 2e-6, (facts.name, positions[i], actions[i], reached[i], expected)
    assert too_close < 1e-3 * count * len(oracle.MEMBERS)
    # Every path through a step was taken often, so that none is left unchecked.
    for path in [(0, "none"), (1, "none"), (2, "none"), (0, "bounced"), (1, "bounced"), (0, "stayed")]:
        assert outcomes[path] > 50, (path, outcomes)


@every_member
def test_walls_are_exact_next_to_every_edge(facts):
    edges = oracle.INNER_EDGES.astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    below = np.where(edges == 0, -tiny, np.nextafter(edges, np.float32(-2)))
    above = np.where(edges == 0, tiny, np.nextafter(edges, np.float32(2)))
    coordinates = np.concatenate([edges, below, above, oracle.INNER_EDGES - 0.1, [-1.0, 0.9, 1.0]]).astype(np.float32)
    positions = np.stack(np.meshgrid(coordinates, coordinates), axis=-1).reshape(-1, 2)
    found = jax.vmap(build(facts).is_wall)(jnp.asarray(positions))
    np.testing.assert_array_equal(found, oracle.in_wall(facts.walls, positions[:, 0], positions[:, 1]))


coordinate = st.integers(-100, 100).map(lambda hundredths: hundredths / 100) | st.floats(-1, 1, width=32)
component = st.integers(-40, 40).map(lambda hundredths: hundredths / 100) | st.floats(-0.375, 0.375, width=32)
# If a component is nearly 0, rounding decides to which side the border turns the displacement.
displacements = st.tuples(component, component).filter(lambda parts: all(p == 0 or abs(p) > 1e-6 for p in parts))
turn_at_border_jitted = jax.jit(lambda position, displacement: turn_at_gridworld_border(position, displacement)[-1])


@given(st.tuples(coordinate, coordinate), displacements)
@settings(deadline=None, derandomize=True, max_examples=1000)
def test_border_turns_as_the_oracle_says(position, displacement):
    position, displacement = np.array(position, np.float32), np.array(displacement, np.float32)
    reached = np.asarray(turn_at_border_jitted(position, displacement), float)
    expected, _ = oracle.turn_at_border(position, displacement)
    np.testing.assert_allclose(reached, expected, atol=1e-6)
    assert np.all(np.abs(reached) <= 1)
    # Turning keeps the length of the path, so that no step leads further than the displacement.
    assert np.linalg.norm(reached - position) <= np.linalg.norm(displacement) + 1e-6


# ---------------------------------------------------------------- never in a wall, never outside


def everyone() -> Gridworld:
    """All members stacked along a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(build, oracle.MEMBERS))


def assert_in_free_space(positions: np.ndarray) -> None:
    """`positions` has one leading axis over the members."""
    assert np.all(np.isfinite(positions))
    assert np.all(np.abs(positions) <= 1)
    for facts, of_member in zip(oracle.MEMBERS, np.asarray(positions, np.float64), strict=True):
        in_wall = oracle.in_wall(facts.walls, of_member[..., 0], of_member[..., 1])
        assert not in_wall.any(), (facts.name, of_member[in_wall][:5])


def test_a_million_steps_stay_in_free_space():
    compass = [(east, north) for east in (-1, 0, 1) for north in (-1, 0, 1)]
    drives = [(pull * east, pull * north) for pull in (0.1, 50.0) for east, north in compass]
    drive, noise = (jnp.asarray(a) for a in _pairs(drives, [0.001, 0.05, 0.2, 10.0]))
    agents, repeats, horizon = len(noise), 5, 210
    assert len(oracle.MEMBERS) * agents * repeats * horizon > 1_000_000

    def walk(member, drive, noise, key):
        def one_step(position, key):
            action_key, step_key = jax.random.split(key)
            position = member.step(position, drive + noise * jax.random.normal(action_key, (2,)), key=step_key)
            return position, position

        start_key, walk_key = jax.random.split(key)
        return jax.lax.scan(one_step, member.reset(key=start_key), jax.random.split(walk_key, horizon))[1]

    over_agents = jax.vmap(jax.vmap(walk, (None, 0, 0, 0)), (None, None, None, 0))
    over_members = eqx.filter_jit(jax.vmap(over_agents, (0, None, None, 0)))
    walk_keys = jax.random.split(jax.random.key(7), (len(oracle.MEMBERS), repeats, agents))
    positions = np.asarray(over_members(everyone(), drive, noise, walk_keys))
    assert positions.shape == (len(oracle.MEMBERS), repeats, agents, horizon, 2)
    assert_in_free_space(positions)
    # The walks went to the border and into the corners.
    for_corner = np.abs(positions).min(axis=-1) > 0.9
    assert for_corner.mean() > 0.01
    assert np.mean(np.any(np.abs(positions) == 1, axis=-1)) > 0.001


def _pairs(first, second) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(one, other) for one in first for other in second]
    return np.array([one for one, _ in pairs], np.float32), np.array([other for _, other in pairs], np.float32)


def test_steps_aimed_at_cell_edges_stay_in_free_space():
    """Targets and bounces are within a rounding error of an edge, where a step could miss a wall."""
    count = 4000
    rng = np.random.default_rng(0)
    positions, actions, step_keys = [], [], []
    for number, facts in enumerate(oracle.MEMBERS):
        member_keys = keys(count, seed=100 + number)
        magnitudes, bounces = (np.asarray(draws) for draws in draws_of_step(member_keys, facts.slope_mean))
        edge = rng.choice(oracle.INNER_EDGES, (count, 2))
        reach = rng.uniform(-0.1, 0.1, (count, 2))
        aimed_at_target = edge - reach
        slope = magnitudes[:, None] * np.array(facts.slope_direction) * (aimed_at_target[:, 1:] >= facts.slope_above)
        aimed_by_bounce = edge + np.sign(reach) * bounces
        first_half = np.arange(count)[:, None] < count // 2
        start = np.where(first_half, aimed_at_target, aimed_by_bounce).astype(np.float32)
        blocked = oracle.in_wall(facts.walls, start[:, 0], start[:, 1])[:, None]
        start = np.where(blocked, start[~blocked[:, 0]][0], start)
        positions.append(start)
        actions.append(np.where(first_half, reach - slope, np.sign(reach)).astype(np.float32))
        step_keys.append(member_keys)
    reached = eqx.filter_jit(eqx.filter_vmap(step_each))(
        everyone(), np.stack(positions), np.stack(actions), jnp.stack(step_keys)
    )
    assert_in_free_space(np.asarray(reached))
    # The steps were aimed well: many ended closer to an edge than the spacing of float32 numbers there.
    distance = np.abs(np.asarray(reached, float)[..., None] - oracle.INNER_EDGES).min(axis=-1)
    assert np.sum(distance < 6e-8) > 1000


# ---------------------------------------------------------------- slope


@every_member
def test_slope_has_the_mean_deviation_and_direction_of_the_table(facts):
    slopes = np.asarray(slope_often(build(facts), jnp.array([0.3, 0.3]), keys(40_000)), float)
    if facts.slope_direction == oracle.LEVEL:
        assert np.all(slopes == 0)
        return
    magnitudes = np.abs(slopes).max(axis=1)
    # There is one draw for both axes.
    np.testing.assert_array_equal(slopes, magnitudes[:, None] * np.array(facts.slope_direction))
    assert magnitudes.mean() == pytest.approx(facts.slope_mean, abs=5 * 0.01 / np.sqrt(40_000))
    assert magnitudes.std() == pytest.approx(DELTA / 20, rel=0.02)
    assert magnitudes.min() >= 0
    assert magnitudes.max() <= 2 * facts.slope_mean


def test_slope_means_worked_out():
    means = {facts.name: float(build(facts).slope_mean) for facts in oracle.MEMBERS if facts.slope_mean}
    assert means == pytest.approx(
        {"GWS": 0.1, "GWN": 0.1, "MG0": 0.0769231} | dict.fromkeys(["MG1", "MG2", "MG3", "MG5", "MG6", "MG9"], 0.0625),
        abs=1e-6,
    )


@every_member
@pytest.mark.parametrize("y", [-1.0, -0.5, -1e-6, 0.0, 1e-6, 1.0])
def test_where_the_slope_acts(facts, y):
    acts = np.any(np.asarray(slope_often(build(facts), jnp.array([0.0, y]), keys(100))) != 0, axis=1)
    north_half_only = facts.name in ("GWS", "GWN", "MG0")
    level = facts.name in ("MG4", "MG7", "MG8", "four-rooms", "two-halls")
    assert np.all(acts == (not level and (y >= 0 or not north_half_only)))


def test_a_slope_is_truncated_to_twice_its_mean():
    mean = DELTA / 20  # one standard deviation, so that the truncation has an effect
    slopes = slope_often(Gridworld("..\n..", slope="north", slope_mean=mean), jnp.zeros(2), keys(20_000))
    magnitudes = np.asarray(slopes[:, 1], float)
    assert 0 <= magnitudes.min() < 0.001
    assert 0.019 < magnitudes.max() <= np.float32(2 * mean)
    expected = scipy.stats.truncnorm(-1, 1, loc=mean, scale=DELTA / 20)
    assert scipy.stats.kstest(magnitudes, expected.cdf).pvalue > 0.001
    assert magnitudes.std() == pytest.approx(expected.std(), rel=0.02)


@pytest.mark.parametrize("slope", DIRECTIONS)
def test_a_slope_points_where_its_name_says(slope):
    east = ("east" in slope) - ("west" in slope)
    north = ("north" in slope) - ("south" in slope)
    member = Gridworld("..\n..", slope=slope, slope_mean=0.1)
    moves = step_often(member, jnp.zeros(2), jnp.zeros(2), keys(100))
    np.testing.assert_array_equal(np.sign(moves), np.tile([east, north], (100, 1)))


def test_an_unknown_slope_is_refused():
    with pytest.raises(InputError, match="slope: 'up' is no direction; choose from north, south"):
        Gridworld("..\n..", slope="up")


@pytest.mark.parametrize("mean", [-0.1, float("nan"), float("inf")])
def test_an_impossible_slope_mean_is_refused(mean):
    with pytest.raises(InputError, match=r"slope_mean: .* must be finite and at least 0"):
        Gridworld("..\n..", slope="north", slope_mean=mean)


# ---------------------------------------------------------------- start


@every_member
def test_start_is_uniform_over_the_free_north_west_square(facts):
    starts = np.asarray(reset_each(build(facts), keys(50_000)), float)
    assert np.all((starts[:, 0] >= -1) & (starts[:, 0] <= -0.5))
    assert np.all((starts[:, 1] >= 0.5) & (starts[:, 1] <= 1))
    assert not oracle.in_wall(facts.walls, starts[:, 0], starts[:, 1]).any()
    # Cells of width 0.05 lie either in a wall or in free space.
    counts, west_to_east, south_to_north = np.histogram2d(*starts.T, bins=10, range=[(-1.0, -0.5), (0.5, 1.0)])
    x, y = np.meshgrid(west_to_east[:-1] + 0.025, south_to_north[:-1] + 0.025, indexing="ij")
    free = ~oracle.in_wall(facts.walls, x, y)
    assert scipy.stats.chisquare(counts[free]).pvalue > 0.001
    assert counts[free].sum() > 0.999 * len(starts)  # a start on an edge may be counted in the cell of the wall


def test_some_members_have_walls_in_the_start_square():
    corner = [facts.name for facts in oracle.MEMBERS if facts.walls[:3, :3].any()]
    assert corner == ["MG3", "MG4", "MG5", "MG9"]


def test_start_in_a_narrow_part_of_the_square():
    """In the start square, only half of the third column is free."""
    layout = "\n".join(["##........"] * 3 + [".........."] * 7)
    starts = np.asarray(reset_each(Gridworld(layout), keys(2000)))
    assert np.all((starts[:, 0] > -0.6) & (starts[:, 0] <= -0.5))
    assert scipy.stats.kstest(starts[:, 1], scipy.stats.uniform(0.5, 0.5).cdf).pvalue > 0.001


# ---------------------------------------------------------------- collisions worked by hand


@pytest.mark.parametrize(
    ("position", "displacement", "reached"),
    [
        # Half of the displacement reaches the border. In the other half, the magnitudes of x and y are swapped.
        ((0.9, 0.0), (0.2, 0.1), (0.95, 0.15)),
        ((-0.9, 0.0), (-0.2, -0.1), (-0.95, -0.15)),
        ((0.0, 0.9), (-0.05, 0.2), (-0.125, 0.975)),
        ((0.0, -0.9), (0.1, -0.2), (0.15, -0.95)),
        # The east border turns the displacement at (1, 0.97), with (-0.02, 0.1) left after the turn. Then the north
        # border turns it at (0.994, 1), with (-0.07, -0.014) left.
        ((0.9, 0.95), (0.2, 0.04), (0.924, 0.986)),
        ((-0.9, -0.95), (-0.2, -0.04), (-0.924, -0.986)),
        # A displacement into a corner comes back the same way.
        ((0.9, 0.9), (0.2, 0.2), (0.9, 0.9)),
        ((-1.0, 1.0), (-0.2, 0.2), (-0.8, 0.8)),
        ((1.0, 1.0), (0.1, 0.05), (0.9, 0.95)),
        # These displacements start on the border: one goes outward, one along the border, and one inward.
        ((1.0, 0.0), (0.1, 0.05), (0.95, 0.1)),
        ((1.0, 0.0), (0.0, -0.2), (1.0, -0.2)),
        ((1.0, 0.0), (-0.1, 0.05), (0.9, 0.05)),
        # The border does not turn these: one is far from it, one ends exactly on it, and one is 0.
        ((0.3, -0.3), (0.2, -0.2), (0.5, -0.5)),
        ((0.5, 0.0), (0.5, 0.0), (1.0, 0.0)),
        ((0.5, 0.5), (0.0, 0.0), (0.5, 0.5)),
    ],
)
def test_border_by_hand(position, displacement, reached):
    np.testing.assert_allclose(
        turn_at_gridworld_border(jnp.array(position), jnp.array(displacement))[-1], reached, atol=1e-6
    )
    np.testing.assert_allclose(oracle.turn_at_border(position, displacement)[0], reached, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_straight_into_a_border_slides_along_it(axis, side):
    position, displacement = np.zeros(2, np.float32), np.zeros(2, np.float32)
    position[axis], displacement[axis] = 0.9 * side, 0.2 * side
    reached = np.asarray(turn_at_gridworld_border(jnp.asarray(position), jnp.asarray(displacement))[-1])
    assert reached[axis] == side
    assert abs(reached[1 - axis]) == pytest.approx(0.1, abs=1e-6)


def test_actions_are_clipped():
    member = Gridworld("..\n..")
    for action, move in [((5.0, -7.0), (0.2, -0.2)), ((0.3, 0.1), (0.2, 0.1)), ((float("inf"), 0.0), (0.2, 0.0))]:
        reached = member.step(jnp.zeros(2), jnp.array(action), key=jax.random.key(0))
        np.testing.assert_allclose(reached, move, atol=1e-6)


def test_the_slope_is_added_after_the_clip():
    member = Gridworld("..\n..", slope="east", slope_mean=0.1)
    reached = np.asarray(step_often(member, jnp.zeros(2), jnp.array([9.0, 0.0]), keys(1000)))
    assert reached[:, 0].mean() == pytest.approx(0.3, abs=0.002)


def test_a_wall_bounces_back_by_up_to_half_a_step():
    """A wall of four rooms covers x from −0.2 to 0.2 and y above 0.6."""
    member = Gridworld(FOUR_ROOMS)
    reached = np.asarray(step_often(member, jnp.array([-0.25, 0.8]), jnp.array([0.1, -0.05]), keys(4000)), float)
    west, north = -0.25 - reached[:, 0], reached[:, 1] - 0.8
    for back in (west, north):
        assert scipy.stats.kstest(back, scipy.stats.uniform(0, DELTA / 2).cdf).pvalue > 0.001
    assert abs(np.corrcoef(west, north)[0, 1]) < 0.05  # one draw per axis


def test_a_wall_does_not_bounce_along_an_axis_without_displacement():
    reached = np.asarray(step_often(Gridworld(FOUR_ROOMS), jnp.array([-0.25, 0.8]), jnp.array([0.1, 0.0]), keys(1000)))
    assert np.all(reached[:, 1] == np.float32(0.8))
    assert np.all(reached[:, 0] < -0.25)


def test_a_bounce_starts_from_the_old_position_also_after_a_border():
    """The north border turns (−0.25, 0.95) + (0.1, 0.2) into the wall at (−0.075, 0.925)."""
    position = jnp.array([-0.25, 0.95])
    turned = turn_at_gridworld_border(position, jnp.array([0.1, 0.2]))[-1]
    np.testing.assert_allclose(turned, [-0.075, 0.925], atol=1e-6)
    reached = np.asarray(step_often(Gridworld(FOUR_ROOMS), position, jnp.array([0.1, 0.2]), keys(1000)), float)
    assert np.all((reached >= [-0.3501, 0.8499]) & (reached <= [-0.25, 0.9501]))
    np.testing.assert_allclose(reached.mean(axis=0), [-0.3, 0.9], atol=0.005)


def test_a_bounce_into_a_wall_leaves_the_agent_where_it_was():
    """The gap of two halls reaches from x = 0 to 0.2. From x = 0.05, half of the bounces end in the wall west of it."""
    position = jnp.array([0.05, 0.1])
    reached = np.asarray(step_often(Gridworld(TWO_HALLS), position, jnp.array([0.2, 0.0]), keys(4000)))
    stayed = np.all(reached == np.asarray(position), axis=1)
    assert stayed.mean() == pytest.approx(0.5, abs=0.04)
    moved = reached[~stayed]
    assert np.all((moved[:, 0] >= 0) & (moved[:, 0] < 0.05) & (moved[:, 1] == np.float32(0.1)))


def test_a_bounce_out_of_the_square_is_clipped():
    """From 0.02 below the north border, four bounces of five would leave the square."""
    reached = np.asarray(
        step_often(Gridworld(FOUR_ROOMS), jnp.array([-0.25, 0.98]), jnp.array([0.1, -0.05]), keys(4000))
    )
    clipped = reached[:, 1] == 1.0
    assert clipped.mean() == pytest.approx(0.8, abs=0.03)
    assert np.all((reached[~clipped, 1] >= 0.98) & (reached[~clipped, 1] < 1.0))


def test_walls_are_tested_at_the_end_of_a_step_only():
    """The corner of a wall that ends at (−0.2, 0.6) lies between these two free points."""
    reached = Gridworld(FOUR_ROOMS).step(jnp.array([-0.22, 0.7]), jnp.array([0.2, -0.15]), key=jax.random.key(0))
    np.testing.assert_allclose(reached, [-0.02, 0.55], atol=1e-6)


# ---------------------------------------------------------------- the rest of the interface


def test_observation_and_particle_are_the_position_and_nothing_ends():
    member = Gridworld(FOUR_ROOMS)
    state = jnp.array([0.3, 0.4])
    np.testing.assert_array_equal(member.observe(state), state)
    np.testing.assert_array_equal(member.features(state), state)
    assert not member.ended(state)


def test_spaces():
    member = Gridworld(FOUR_ROOMS)
    np.testing.assert_array_equal([member.observation_space.low, member.observation_space.high], [[-1, -1], [1, 1]])
    np.testing.assert_allclose([member.action_space.low, member.action_space.high], [[-0.2, -0.2], [0.2, 0.2]])


def test_same_key_same_step():
    member, position, action = build(oracle.MEMBERS[0]), jnp.array([-0.7, 0.7]), jnp.array([0.1, 0.1])
    first, again, other = (member.step(position, action, key=jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
