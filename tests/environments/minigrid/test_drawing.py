"""Test that pictures of our MiniGrid equal Farama's, pixel for pixel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import minigrid_oracle as oracle
import numpy as np
import pytest
from minigrid.core.world_object import Ball, Box, Door, Goal, Key, Lava, Wall

from alphamepol.environments.minigrid.drawing import draw_minigrid
from alphamepol.environments.minigrid.map import ADVERSE, COLOURS, EASY, GOAL, LAVA
from alphamepol.environments.minigrid.minigrid import MiniGrid
from alphamepol.environments.minigrid.rules import DONE, FORWARD, LEFT, RIGHT, TOGGLE

KEY_OF_NO_USE = jax.random.key(0)
SIZE = (18, 18)

reset = jax.jit(lambda member: member.reset(key=KEY_OF_NO_USE))
step = jax.jit(lambda member, state, action: member.step(state, action, key=KEY_OF_NO_USE))


def assert_same_picture(member, state, farama, tile):
    ours = draw_minigrid(member.size, state, tile)
    assert ours.dtype == np.uint8
    np.testing.assert_array_equal(ours, farama.get_frame(highlight=True, tile_size=tile))


def walk_side_by_side(member, farama, actions, tile, every=1):
    """Compare the pictures after every `every` actions and at the end of each episode.

    Return the codes of the things that ended episodes, such as GOAL.
    """
    farama.reset(seed=0)
    state = reset(member)
    assert_same_picture(member, state, farama, tile)
    ends = set()
    for count, action in enumerate(actions.tolist(), start=1):
        terminated = farama.step(action)[2]
        state = step(member, state, action)
        if terminated or count % every == 0:
            assert_same_picture(member, state, farama, tile)
        if terminated:
            column, row = state.position
            ends.add(int(state.cells[row, column]) & 15)
            farama.reset(seed=0)
            state = reset(member)
    return ends


def mostly_forward(rng, steps):
    return rng.choice(7, steps, p=[0.16, 0.16, 0.38, 0.08, 0.04, 0.14, 0.04])


@pytest.mark.parametrize("goal", [None, (2, 1), (1, 14)])
def test_easy_looks_like_faramas(goal):
    member = MiniGrid(EASY, size=SIZE)
    member = member if goal is None else member.with_goal(jnp.array(goal))
    walk_side_by_side(member, oracle.easy(goal), mostly_forward(np.random.default_rng(0), 200), tile=8, every=5)


@pytest.mark.parametrize("goal", [None, (6, 8), (1, 6)])
def test_adverse_looks_like_faramas(goal):
    """The picture has the size of the map, though the map is padded with walls. The door is opened and closed."""
    member = MiniGrid(ADVERSE, backward=True, size=SIZE)
    member = member if goal is None else member.with_goal(jnp.array(goal))
    # The agent, which first faces east, walks backward to the door in the corner and through it. Random actions follow.
    to_the_door = [RIGHT, *[FORWARD] * 7, RIGHT, TOGGLE, TOGGLE, DONE, TOGGLE, *[FORWARD] * 3, LEFT]
    actions = np.concatenate([to_the_door, mostly_forward(np.random.default_rng(1), 120)])
    ends = walk_side_by_side(member, oracle.adverse(goal), actions, tile=8, every=3)
    assert ends == ({GOAL} if goal == (1, 6) else set())


def test_pictures_at_the_usual_size():
    actions = mostly_forward(np.random.default_rng(2), 30)
    walk_side_by_side(MiniGrid(EASY, size=SIZE), oracle.easy(), actions, tile=32, every=6)
    member = MiniGrid(ADVERSE, backward=True, size=SIZE).with_goal(jnp.array((4, 1)))
    walk_side_by_side(member, oracle.adverse((4, 1)), actions, tile=32, every=6)


def test_random_maps_look_like_faramas():
    rng = np.random.default_rng(3)
    ends = set()
    for _ in range(40):
        layout, farama = oracle.random_layout(rng)
        member = MiniGrid(layout, legend=oracle.LEGEND, backward=farama.backward, size=SIZE)
        ends |= walk_side_by_side(member, farama, mostly_forward(rng, 100), tile=5, every=5)
    assert ends == {GOAL, LAVA}


MAKERS = {
    "wall": Wall,
    "goal": Goal,
    "key": Key,
    "ball": Ball,
    "box": Box,
    "open door": lambda colour: Door(colour, is_open=True),
    "closed door": Door,
    "locked door": lambda colour: Door(colour, is_locked=True),
}


def every_thing() -> tuple[MiniGrid, oracle.Farama, list[tuple[int, int]]]:
    """Return a map with each thing in each colour and lava, as our member and as Farama's, and its inner cells."""
    makers = {f"{colour} {thing}": (make, colour) for thing, make in MAKERS.items() for colour in COLOURS}
    symbols = dict(zip(makers, "abcdefghijklmnopqrstuwxyzABCDEFGHIJKLMNOPQRSTUVW", strict=True))
    rows = ["".join(symbols[f"{colour} {thing}"] for colour in COLOURS) for thing in MAKERS]
    rows = ["########", *(f"#{row}#" for row in rows), "#~.>...#", "########"]
    cells = {(c, r): cell for r, row in enumerate(rows) for c, cell in enumerate(row)}
    things = {symbol: lambda name=name: makers[name][0](makers[name][1]) for name, symbol in symbols.items()}
    things |= {"~": Lava, "#": Wall}
    farama = oracle.Farama((8, 11), (3, 9), 0, {at: things[cell] for at, cell in cells.items() if cell in things})
    legend = {symbol: name for name, symbol in symbols.items()} | {"~": "lava"}
    inner = [(c, r) for c, r in cells if 0 < c < 7 and 0 < r < 10]
    return MiniGrid("\n".join(rows), legend=legend, size=SIZE), farama, inner


@pytest.mark.parametrize(("tile", "every"), [(2, 1), (6, 1), (32, 12)])
def test_every_thing_in_every_colour(tile, every):
    """The agent is put on the things and faces all directions, even on cells that it could not walk to."""
    member, farama, cells = every_thing()
    farama.reset(seed=0)
    state = reset(member)
    for number, (column, row) in enumerate(cells[::every]):
        for direction in [number % 4] if every > 1 else range(4):
            farama.agent_pos, farama.agent_dir = np.array((column, row)), direction
            where = jnp.array((column, row)), jnp.array(direction)
            state = eqx.tree_at(lambda state: (state.position, state.direction), state, where)
            assert_same_picture(member, state, farama, tile)


def test_drawing_twice_gives_the_same_picture():
    """Tiles are cached between pictures; a change of a picture must not change them."""
    member = MiniGrid(ADVERSE, backward=True)
    before = draw_minigrid(member.size, reset(member), 8)
    kept = before.copy()
    before[:] = 0
    np.testing.assert_array_equal(draw_minigrid(member.size, reset(member), 8), kept)
