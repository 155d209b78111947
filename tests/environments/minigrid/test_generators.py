"""Test MiniGrids that are drawn at random: every room can be reached, and all kinds of passages occur."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import label

from alphamepol.environments.make import make
from alphamepol.environments.minigrid.generators import draw_minigrid_rooms
from alphamepol.environments.minigrid.map import BALL, CLOSED, DOOR, KEY, LOCKED, NOTHING, WALL

COUNT = 300


@pytest.fixture(scope="module")
def grids():
    return jax.device_get(jax.jit(jax.vmap(draw_minigrid_rooms))(jax.random.split(jax.random.key(2), COUNT)))


def test_all_cells_are_connected_if_doors_open(grids) -> None:
    for cells, start in zip(grids.cells, grids.start, strict=True):
        assert label(cells & 15 != WALL)[1] == 1
        assert cells[start[1], start[0]] == NOTHING
        border = np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
        assert (border & 15 == WALL).all()


def test_the_keys_of_locked_doors_can_be_reached_without_them(grids) -> None:
    found = 0
    for cells, start in zip(grids.cells, grids.start, strict=True):
        kinds, colours, states = cells & 15, cells >> 4 & 7, cells >> 7
        locked = (kinds == DOOR) & (states == LOCKED)
        parts = label((kinds != WALL) & ~locked)[0]
        reached = parts == parts[start[1], start[0]]
        keys = set(colours[(kinds == KEY) & reached].tolist())
        assert set(colours[locked].tolist()) <= keys
        found += int(locked.sum())
    assert found > COUNT / 2


def test_grids_differ_in_everything(grids) -> None:
    kinds, states = grids.cells & 15, grids.cells >> 7
    assert len({cells.tobytes() for cells in grids.cells}) == COUNT
    assert {(kinds[kinds == DOOR] == DOOR).all() and state for state in np.unique(states[kinds == DOOR]).tolist()} == {
        CLOSED,
        LOCKED,
    }
    assert ((kinds == BALL).sum(axis=(1, 2)) == 4).all()
    assert 0.4 < grids.backward.mean() < 0.6
    assert set(grids.heading.tolist()) == {0, 1, 2, 3}
    # The walls between rooms have gaps, too: cells 5 and 10 of a row or column are on such a wall.
    assert (grids.cells[:, [5, 10], :] == NOTHING).any()
    rooms = {tuple(((start - 1) // 5).tolist()) for start in grids.start}
    assert len(rooms) == 9


def test_members_are_a_class_with_cells() -> None:
    grids = make("generated-minigrid")
    one = grids["unseen 0"]
    assert one.map.cells == (16, 16)
    state = one.reset(key=jax.random.key(0))
    reached = one.step(state, jnp.array(0), key=jax.random.key(0))
    assert int(reached.direction) == (int(state.direction) - 1) % 4
    assert one.goals == ()
