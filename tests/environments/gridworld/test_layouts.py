"""Test that the maps are those of the specification, and that invalid maps are refused."""

import math

import gridworld_oracle as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.gridworld.layouts import FOUR_ROOMS, MULTIGRID, TWO_HALLS, parse_gridworld_layout
from alphamepol.errors import InputError

pytestmark = pytest.mark.quick


def test_the_ten_maps_are_those_of_the_specification():
    assert len(MULTIGRID) == 10
    for layout, walls in zip(MULTIGRID, oracle.WALLS, strict=True):
        parsed = parse_gridworld_layout(layout)
        assert parsed.shape == (10, 10)
        np.testing.assert_array_equal(parsed, walls)


def test_the_named_maps_are_0_and_7():
    np.testing.assert_array_equal(parse_gridworld_layout(FOUR_ROOMS), oracle.WALLS[0])
    np.testing.assert_array_equal(parse_gridworld_layout(TWO_HALLS), oracle.WALLS[7])


def test_north_is_the_top_line_and_west_the_left_column():
    walls = parse_gridworld_layout("""
        #..
        ...
    """)
    np.testing.assert_array_equal(walls, [[True, False, False], [False, False, False]])


@pytest.mark.parametrize(("layout", "free_cells"), [(FOUR_ROOMS, 72), (TWO_HALLS, 73)])
def test_entropy_ceiling_is_ln_of_the_free_area(layout, free_cells):
    assert parse_gridworld_layout(layout).size - parse_gridworld_layout(layout).sum() == free_cells
    assert Gridworld(layout).entropy_ceiling == pytest.approx(math.log(free_cells * 0.04), abs=1e-6)


def test_entropy_ceilings_of_the_specification():
    assert Gridworld(FOUR_ROOMS).entropy_ceiling == pytest.approx(math.log(2.88), abs=1e-6)
    assert Gridworld(FOUR_ROOMS).entropy_ceiling == pytest.approx(1.058, abs=5e-4)
    assert Gridworld(TWO_HALLS).entropy_ceiling == pytest.approx(1.072, abs=5e-4)
    assert Gridworld("..\n..").entropy_ceiling == pytest.approx(math.log(4.0))


tables = st.integers(1, 12).flatmap(
    lambda columns: st.lists(st.lists(st.booleans(), min_size=columns, max_size=columns), min_size=1, max_size=12)
)


@given(tables.filter(lambda table: not all(map(all, table))))
@settings(deadline=None, derandomize=True)
def test_a_drawn_table_is_read_back(table):
    text = "\n".join("".join("#" if wall else "." for wall in line) for line in table)
    np.testing.assert_array_equal(parse_gridworld_layout(text), table)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the map is empty"),
        ("  \n \n", "the map is empty"),
        ("...\n..\n...", "equally long, these have 3, 2, 3 cells"),
        ("..\n.x", "unknown cell 'x'"),
        ("##\n##", "every cell is a wall"),
    ],
    ids=["empty", "blank", "ragged", "unknown character", "all wall"],
)
def test_what_is_no_map_is_refused(text, sentence):
    with pytest.raises(InputError, match=f"layout: .*{sentence}"):
        parse_gridworld_layout(text)
    with pytest.raises(InputError, match=f"layout: .*{sentence}"):
        Gridworld(text)


def test_a_map_without_a_free_start_is_refused():
    no_start = ["###......."] * 3 + [".........."] * 7
    with pytest.raises(InputError, match=r"layout: the north-west square .* is all wall"):
        Gridworld("\n".join(no_start))
    # Half of the third column lies in the start square, and nothing of the fourth.
    half_a_column = ["##........"] * 3 + [".........."] * 7
    assert Gridworld("\n".join(half_a_column)).walls.sum() == 6
