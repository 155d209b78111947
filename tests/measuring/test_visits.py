"""Test that maps of visits with different extents become comparable, and that places have names."""

import numpy as np
import pytest

from alphamepol import make
from alphamepol.measuring.visits import VisitMap, names_of_visited_places, visit_maps_with_common_extent

pytestmark = pytest.mark.quick


def test_maps_are_laid_onto_one_that_covers_all_of_them() -> None:
    wide = VisitMap(np.full((1, 2, 2), 0.25), (-2.0, 2.0, 0.0, 4.0))
    narrow = VisitMap(np.array([[[0.0, 1.0], [0.0, 0.0]]]), (-1.0, 0.0, 3.0, 5.0))
    maps = visit_maps_with_common_extent({"wide": wide, "narrow": narrow})
    assert {one.extent for one in maps.values()} == {(-2.0, 2.0, 0.0, 5.0)}
    # Rows are 0.1 high and columns 0.08 wide. The one visited cell of the narrow map is [−0.5, 0] × [3, 4].
    middles = -2 + 0.08 * (np.arange(50) + 0.5), 0.1 * (np.arange(50) + 0.5)
    shares = maps["narrow"].shares[0]
    assert shares.sum() == pytest.approx(1.0)
    assert (shares @ middles[0]).sum() == pytest.approx(-0.25, abs=0.01)
    assert (shares.T @ middles[1]).sum() == pytest.approx(3.5)
    np.testing.assert_allclose(maps["wide"].shares[0, :40], 1 / 2000)
    np.testing.assert_allclose(maps["wide"].shares[0, 40:], 0.0, atol=1e-12)


def test_maps_of_one_extent_stay_as_they_are() -> None:
    maps = {name: VisitMap(np.ones((1, 1, 1)), (0.0, 1.0, 0.0, 1.0)) for name in "ab"}
    assert visit_maps_with_common_extent(maps) == maps


@pytest.mark.parametrize(("name", "names"), [("gridworld-slope", ("x", "y")), ("minigrid", ("column", "row"))])
def test_places_have_names(name: str, names: tuple[str, str]) -> None:
    assert names_of_visited_places(make(name)[0]) == names
