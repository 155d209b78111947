"""Test gridworlds that are drawn at random: every free cell can be reached, and maps are as winding as promised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from detours import gridworld_detour
from scipy.ndimage import label

from alphamepol.environments.gridworld.generators import (
    MAZE_NODES,
    draw_maze,
    draw_rooms,
    reachable_gridworld_cells,
)
from alphamepol.environments.gridworld.layouts import parse_gridworld_layout

COUNT = 300


@pytest.fixture(scope="module")
def rooms():
    return jax.device_get(jax.jit(jax.vmap(draw_rooms))(jax.random.split(jax.random.key(1), COUNT)))


@pytest.fixture(scope="module")
def mazes():
    return jax.device_get(jax.jit(jax.vmap(draw_maze))(jax.random.split(jax.random.key(1), COUNT)))


def parts(walls: np.ndarray) -> int:
    """Return the number of connected parts of the free cells."""
    return label(~walls)[1]


def test_all_free_cells_of_rooms_can_be_reached_from_the_start(rooms) -> None:
    assert [parts(walls) for walls in rooms.walls] == [1] * COUNT
    shares = (~rooms.walls).mean(axis=(1, 2))
    assert np.quantile(shares, 0.1) >= 0.7
    assert (~rooms.walls)[:, :3, :3].any(axis=(1, 2)).all()  # the north-west square has a free cell
    assert len({walls.tobytes() for walls in rooms.walls}) == COUNT


def test_rooms_have_slopes_in_all_directions(rooms) -> None:
    np.testing.assert_allclose(np.linalg.norm(rooms.slope_direction, axis=1), 1, rtol=1e-5)
    angles = np.arctan2(rooms.slope_direction[:, 1], rooms.slope_direction[:, 0])
    assert all(np.histogram(angles, 4, (-np.pi, np.pi))[0] > COUNT / 6)
    assert 0 <= rooms.slope_mean.min() < 0.01 < 0.09 < rooms.slope_mean.max() <= 0.1
    assert 0.4 < (rooms.slope_above == 0).mean() < 0.6
    assert rooms.solid


def test_mazes_are_trees_of_corridors(mazes) -> None:
    side = 2 * MAZE_NODES - 1
    for walls in mazes.walls:
        assert walls.shape == (side, side)
        assert not walls[::2, ::2].any()
        assert walls[1::2, 1::2].all()
        # A connected graph with one edge less than nodes is a tree: there is one way between any two places.
        assert parts(walls) == 1
        assert (~walls).sum() == 2 * MAZE_NODES**2 - 1
    assert len({walls.tobytes() for walls in mazes.walls}) > 0.99 * COUNT


def test_maps_are_as_winding_as_promised(rooms, mazes) -> None:
    for made, least in ((rooms, 1.5), (mazes, 4.0)):
        assert np.median([gridworld_detour(walls) for walls in made.walls]) >= least


def test_the_detour_of_known_maps() -> None:
    assert gridworld_detour(parse_gridworld_layout("....")) == pytest.approx(1.0)
    assert gridworld_detour(parse_gridworld_layout("..\n..")) == pytest.approx(1.0)
    # From one end of a U to the other: 2 down, 2 across and 2 up, for a straight line of 2. No corner is cut.
    assert gridworld_detour(parse_gridworld_layout(".#.\n.#.\n...")) == pytest.approx(3.0)
    assert gridworld_detour(parse_gridworld_layout(".#")) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_reachable_cells_are_those_of_the_first_part(seed: int) -> None:
    walls = np.random.default_rng(seed).random((9, 14)) < 0.4
    free = ~walls[:3, :4]
    if not free.any():
        walls[0, 0], free = False, ~walls[:3, :4]
    start = np.argwhere(free)[0]
    labels = label(~walls)[0]
    np.testing.assert_array_equal(reachable_gridworld_cells(jnp.asarray(walls)), labels == labels[tuple(start)])


def test_agents_of_a_maze_stay_in_its_corridors(mazes) -> None:
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), mazes)

    def walk(key):
        def act(position, key):
            position = one.step(position, jax.random.uniform(key, (2,), minval=-0.2, maxval=0.2), key=key)
            return position, one.is_wall(position)

        return jax.lax.scan(act, one.reset(key=key), jax.random.split(key, 300))[1]

    assert not jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(0), 50)).any()
