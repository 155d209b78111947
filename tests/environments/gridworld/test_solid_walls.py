"""Test gridworlds whose walls are tested along the whole step: nobody passes through a wall."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamepol.environments.gridworld.gridworld import Gridworld, gridworld_segment_meets_wall
from alphamepol.environments.gridworld.layouts import parse_gridworld_layout
from alphamepol.errors import InputError


def closed_wall(cells: int, row: int) -> str:
    """Return a map with a wall of one row of cells from the west to the east."""
    lines = ["." * cells for _ in range(cells)]
    lines[row] = "#" * cells
    return "\n".join(lines)


DIAGONAL = "\n".join("." * i + "#" + "." * (15 - i) for i in reversed(range(16)))
"""A closed wall of cells that touch at their corners only. It separates the north-west from the south-east."""


@jax.jit
def ends(member: Gridworld, keys):
    """Return all positions of walks with random actions."""

    def walk(key):
        def act(position, key):
            action_key, step_key = jax.random.split(key)
            action = jax.random.uniform(action_key, (2,), minval=-0.3, maxval=0.3)
            position = member.step(position, action, key=step_key)
            return position, position

        start = member.reset(key=key)
        return jax.lax.scan(act, start, jax.random.split(key, 400))[1]

    return jax.vmap(walk)(keys)


def behind(layout: str, positions: np.ndarray) -> np.ndarray:
    """Return which positions lie behind the wall, as seen from the north-west."""
    if layout == DIAGONAL:
        return positions[..., 0] - positions[..., 1] > 0
    lines = layout.split()
    south = 1 - 2 * next(i for i, line in enumerate(lines) if "." not in line) / len(lines)
    return positions[..., 1] < south


@pytest.mark.parametrize("slope", [None, "south", "south-east"])
@pytest.mark.parametrize("layout", [closed_wall(8, 4), closed_wall(12, 5), closed_wall(40, 15), DIAGONAL])
def test_nobody_is_behind_a_closed_wall(layout: str, slope: str | None) -> None:
    keys = jax.random.split(jax.random.key(0), 16 if len(layout) > 1000 else 80)  # many cells take long
    solid = np.asarray(ends(Gridworld(layout, slope=slope, solid=True), keys))
    assert np.abs(solid).max() <= 1
    assert not behind(layout, solid).any()
    # The walls of the paper's gridworlds are jumped if they are thin, or if a slope makes the steps longer.
    if layout not in (closed_wall(8, 4), closed_wall(12, 5)) or (slope and layout == closed_wall(12, 5)):
        assert behind(layout, np.asarray(ends(Gridworld(layout, slope=slope), keys))).any()


def test_the_agent_still_explores_the_free_part() -> None:
    keys = jax.random.split(jax.random.key(1), 200)
    solid, usual = (np.asarray(ends(Gridworld("..\n..", solid=one), keys)) for one in (True, False))
    np.testing.assert_array_equal(solid, usual)  # without walls, the two rules are the same
    positions = np.asarray(ends(Gridworld(closed_wall(12, 9), solid=True), keys)).reshape(-1, 2)
    counts, *_ = np.histogram2d(*positions.T, bins=12, range=[[-1, 1], [-1, 1]])
    assert (counts[:, 3:] > 0).all()  # all cells north of the wall
    assert not counts[:, :2].any()


LAYOUT = """
    ..#...
    ..#.#.
    ......
    .##.#.
    ...#..
    .#....
"""
PLACES = st.floats(-1, 1, width=32)


@settings(deadline=None, max_examples=300)
@given(PLACES, PLACES, PLACES, PLACES)
def test_the_line_is_that_of_many_points_on_it(x, y, end_x, end_y) -> None:
    """Compare with thousands of points on the line, in float64. Lines that nearly touch a wall are not compared."""
    walls = parse_gridworld_layout(LAYOUT)
    start, end = np.array([x, y]), np.array([end_x, end_y])
    points = start + np.linspace(0, 1, 4001)[:, None] * (end - start)

    def in_wall(margin: float) -> bool:
        """Tell whether a point is in a wall that is larger by a margin on each side, or smaller if it is negative."""
        rows, columns = np.nonzero(walls)
        west, north = columns / 3 - 1 - margin, 1 - rows / 3 + margin
        east, south = west + 1 / 3 + 2 * margin, north - 1 / 3 - 2 * margin
        px, py = points[:, :1], points[:, 1:]
        return bool(((px > west) & (px < east) & (py > south) & (py < north)).any())

    found = bool(gridworld_segment_meets_wall(jnp.asarray(walls), jnp.asarray(start, float), jnp.asarray(end, float)))
    if in_wall(-1e-3):
        assert found
    if not in_wall(1e-3):
        assert not found


def test_a_point_on_the_edge_of_a_wall_can_leave_it() -> None:
    walls = jnp.asarray(parse_gridworld_layout(".#"))
    edge = jnp.array([0.0, 0.5])
    assert not gridworld_segment_meets_wall(walls, edge, jnp.array([-0.1, 0.5]))
    assert not gridworld_segment_meets_wall(walls, edge, jnp.array([-0.1, 0.3]))
    assert gridworld_segment_meets_wall(walls, edge, jnp.array([0.1, 0.5]))


def test_solid_and_other_gridworlds_are_no_class() -> None:
    from alphamepol.environments.environment_class import EnvironmentClass

    with pytest.raises(InputError, match="differ in structure"):
        EnvironmentClass({"one": Gridworld(".."), "other": Gridworld("..", solid=True)})
