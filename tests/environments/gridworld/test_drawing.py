"""Test the pictures of the gridworlds: the things that are drawn, their colours and their pixels."""

from functools import cache

import gridworld_oracle as oracle
import numpy as np
import pytest

from alphamepol.environments.gridworld.drawing import (
    AGENT,
    ARROW,
    GROUND,
    SIZE,
    START,
    TRAIL_NEW,
    TRAIL_OLD,
    WALL,
    draw_gridworld_trail,
)
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.make import make

PARKED = np.array([[0.0, 0.4]], np.float32)
"""A trail of one position, at the common corner of four cells. The tests look at no pixel that it covers."""

every_member = pytest.mark.parametrize("facts", oracle.MEMBERS, ids=lambda facts: facts.name)


@cache
def picture_of(facts: oracle.Member) -> np.ndarray:
    return draw_gridworld_trail(make(facts.class_name)[facts.name], PARKED)


def colour_at(picture: np.ndarray, x: float, y: float) -> tuple[int, int, int]:
    """Return the colour at a position of the square. North is up: the first row of pixels is the northernmost one."""
    row, column = int((1 - y) / 2 * SIZE), int((x + 1) / 2 * SIZE)
    return tuple(int(part) for part in picture[row, column])


def off_centre(x: float, y: float) -> list[tuple[float, float]]:
    """Return four points of the cell around (x, y), away from the arrow in its middle and from the frame."""
    return [(x + dx, y + dy) for dx in (-0.07, 0.07) for dy in (-0.07, 0.07)]


def cell_centres() -> list[tuple[int, int, float, float]]:
    return [(row, column, -0.9 + 0.2 * column, 0.9 - 0.2 * row) for row in range(10) for column in range(10)]


def test_a_picture_is_an_array_of_pixels():
    picture = picture_of(oracle.MEMBERS[0])
    assert picture.shape == (SIZE, SIZE, 3)
    assert picture.dtype == np.uint8


@every_member
def test_walls_are_drawn_in_their_cells(facts):
    for row, column, x, y in cell_centres():
        drawn = {colour_at(picture_of(facts), *point) == WALL for point in off_centre(x, y)}
        assert drawn == {bool(facts.walls[row, column])}, (row, column)


@every_member
def test_the_free_part_of_the_start_square_is_drawn(facts):
    for row, column, x, y in cell_centres():
        if not facts.walls[row, column]:
            for east, north in off_centre(x, y):  # the edges of the start square divide some cells
                expected = START if east < -0.5 and north > 0.5 else GROUND
                assert colour_at(picture_of(facts), east, north) == expected, (east, north)


@every_member
def test_arrows_point_down_the_slope_where_it_acts(facts):
    east, north = facts.slope_direction
    reach = facts.slope_mean / 2 - 0.005  # just behind the tip of the arrow
    for row, column, x, y in cell_centres():
        if facts.walls[row, column]:
            continue
        arrow_here = facts.slope_direction != oracle.LEVEL and y >= facts.slope_above
        head = colour_at(picture_of(facts), x + reach * east, y + reach * north)
        assert (head == ARROW) == arrow_here, (x, y)
        # The head of an arrow is wide, but its tail is a thin line. Points beside the tail are not coloured.
        beside_tail = colour_at(picture_of(facts), x - reach * east + 0.015 * north, y - reach * north + 0.015 * east)
        assert beside_tail != ARROW, (x, y)


def test_an_arrow_is_as_long_as_a_step_down_the_slope():
    picture = draw_gridworld_trail(Gridworld("..\n..", slope="east", slope_mean=0.16), PARKED)
    line = picture[int((1 - 0.1) / 2 * SIZE), :, :].astype(int)  # through the arrows at y = 0.1
    coloured = np.abs(line - np.array(GROUND)).sum(axis=1) > 60
    shaft_and_tip = np.flatnonzero(coloured[200:240]) + 200  # the arrow around x = 0.1, pixel 220
    assert (shaft_and_tip.max() - shaft_and_tip.min() + 1) / (SIZE / 2) == pytest.approx(0.16 + 0.01, abs=0.015)


def test_the_agent_is_where_the_trail_ends():
    trail = np.array([[0.5, 0.5], [0.5, -0.5], [0.25, -0.9]], np.float32)
    picture = draw_gridworld_trail(Gridworld("..\n.."), trail)
    assert colour_at(picture, 0.25, -0.9) == AGENT
    assert colour_at(picture, 0.5, 0.5) != AGENT
    assert colour_at(picture, -0.25, 0.9) == GROUND
    rows, columns = np.nonzero((picture == AGENT).all(axis=-1))
    assert (rows.mean(), columns.mean()) == pytest.approx((380, 250), abs=1)


def test_the_trail_is_drawn_between_positions_the_older_the_paler():
    heights = [0.75, 0.25, -0.25, -0.75]
    always_eastward = np.array([(x, y) for y in heights for x in (0.2, 0.8)], np.float32)
    picture = draw_gridworld_trail(Gridworld("..\n.."), always_eastward).astype(int)
    distance_from_ground = []
    for y in heights:
        row, column = int((1 - y) / 2 * SIZE), int((0.4 + 1) / 2 * SIZE)
        across = picture[row - 2 : row + 3, column]
        distance_from_ground.append(np.abs(across - np.array(GROUND)).sum(axis=1).max())
    assert distance_from_ground == sorted(set(distance_from_ground))
    palest, darkest = (np.abs(colour - np.array(GROUND)).sum() for colour in (TRAIL_OLD, TRAIL_NEW))
    # A thin line may be shared by two pixels, each with half of its colour.
    assert palest / 2 <= distance_from_ground[0]
    assert darkest / 2 * 0.8 <= distance_from_ground[-1] <= darkest
    assert colour_at(picture, 0.25, 0.5) == GROUND


def test_drawing_twice_gives_the_same_picture():
    """The map is cached between pictures; a trail must not stay on it."""
    member = make("gridworld-slope")["GWS"]
    before = draw_gridworld_trail(member, PARKED)
    draw_gridworld_trail(member, np.array([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9]], np.float32))
    np.testing.assert_array_equal(draw_gridworld_trail(member, PARKED), before)


def test_members_are_not_mistaken_for_one_another():
    pictures = {picture_of(facts).tobytes() for facts in oracle.MEMBERS}
    # Only MG7 and two-halls look alike: they have the same map and no slope.
    assert len(pictures) == len(oracle.MEMBERS) - 1


def test_maps_need_not_be_square():
    picture = draw_gridworld_trail(Gridworld("...#\n...."), np.array([[0.0, -0.9]], np.float32))
    assert colour_at(picture, 0.75, 0.5) == WALL
    assert colour_at(picture, 0.25, 0.5) == GROUND
    assert colour_at(picture, 0.75, -0.5) == GROUND
