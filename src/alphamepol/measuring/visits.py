"""The places that agents visit: the share of time in each part of a map, and the number of cells of a grid."""

from collections.abc import Mapping
from dataclasses import dataclass

import gymnasium
import numpy as np
from jaxtyping import Bool, Float, Int

from alphamepol.environments.cmp import HasPlace, Member

BINS = 50
"""The number of columns and of rows of a map that is not a grid of cells itself."""


@dataclass(frozen=True)
class VisitMap:
    """The share of particles in each cell of a map."""

    shares: Float[np.ndarray, "*sets rows columns"]
    """The shares. The first row is in the south, the first column in the west."""
    extent: tuple[float, float, float, float]
    """The west, east, south and north end of the map."""


def visit_map(
    places: Float[np.ndarray, "*sets particles coordinates"],
    valid: Bool[np.ndarray, "*sets particles"],
    member: Member,
) -> VisitMap | None:
    """Return the share of valid places in each cell of a map; None if places are not in a plane.

    The cells are those of the member's grid, if it has one. Otherwise they are 50 × 50 cells of equal size. These cover
    the member's map, or else the observation space if it is a bounded plane. If the places do not fit into either, the
    cells cover the region that was visited.
    """
    if places.shape[-1] != 2:
        return None
    (columns, rows), (west, east, south, north) = _visit_map_cells(places[valid], member)
    ends = [(west, east), (min(south, north), max(south, north))]
    flat = zip(places.reshape(-1, *places.shape[-2:]), valid.reshape(-1, valid.shape[-1]), strict=True)
    counts = np.stack([np.histogram2d(one[of, 0], one[of, 1], (columns, rows), ends)[0].T for one, of in flat])
    if south > north:
        counts = counts[:, ::-1]
    shares = counts / counts.sum(axis=(-1, -2), keepdims=True)
    return VisitMap(shares.reshape(*places.shape[:-2], rows, columns), (west, east, south, north))


def _visit_map_cells(
    places: Float[np.ndarray, "particles 2"], member: Member
) -> tuple[tuple[int, int], tuple[float, float, float, float]]:
    """Return the number of columns and rows of the map, and its west, east, south and north end."""
    ground, space = member.map, member.observation_space
    if ground is not None and ground.cells is not None:
        columns, rows = ground.cells
        return ground.cells, (-0.5, columns - 0.5, rows - 0.5, -0.5)
    (west, south), (east, north) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
    known = [] if ground is None else [ground.extent]
    if isinstance(space, gymnasium.spaces.Box) and space.shape == (2,) and space.is_bounded():
        (least_x, least_y), (most_x, most_y) = space.low.tolist(), space.high.tolist()
        known.append((least_x, most_x, least_y, most_y))
    for ends in known:
        slack = 0.05 * (ends[1] - ends[0])  # a body may lean over the edge
        if (
            ends[0] - slack <= west
            and east <= ends[1] + slack
            and ends[2] - slack <= south
            and north <= ends[3] + slack
        ):
            return (BINS, BINS), ends
    # A map needs some width, even if an agent never moves.
    (west, east), (south, north) = (
        (low, high) if high > low else (low - 0.5, high + 0.5) for low, high in ((west, east), (south, north))
    )
    return (BINS, BINS), (west, east, south, north)


def names_of_visited_places(member: Member) -> tuple[str, str]:
    """Return the names of the two coordinates of a place, which figures write at their axes."""
    if isinstance(member, HasPlace):
        return ("column", "row") if member.map is not None and member.map.cells is not None else ("x", "y")
    names = member.entropy_names
    return (names[0], names[1]) if len(names) == 2 else ("feature 0", "feature 1")


def visit_maps_with_common_extent(maps: Mapping[str, VisitMap]) -> dict[str, VisitMap]:
    """Return maps that all have the same extent and the same cells, so that figures can compare them.

    Maps whose extents differ are laid onto a map of 50 × 50 cells that covers all of them. The share of an old cell is
    spread evenly over its area.
    """
    extents = {visits.extent for visits in maps.values()}
    if len(extents) < 2:
        return dict(maps)
    xs, ys = np.split(np.array(list(extents), float), 2, axis=1)
    extent = float(xs.min()), float(xs.max()), float(ys.min()), float(ys.max())
    return {name: VisitMap(_visit_shares_in_extent(visits, extent), extent) for name, visits in maps.items()}


def _visit_shares_in_extent(
    visits: VisitMap, extent: tuple[float, float, float, float]
) -> Float[np.ndarray, "*sets rows columns"]:
    rows, columns = visits.shares.shape[-2:]
    down = _overlaps_of_visited_cells(visits.extent[2:], rows, extent[2:])
    across = _overlaps_of_visited_cells(visits.extent[:2], columns, extent[:2])
    return down @ visits.shares @ across.T


def _overlaps_of_visited_cells(
    old: tuple[float, float], cells: int, new: tuple[float, float]
) -> Float[np.ndarray, "bins cells"]:
    """Return the share of each old cell's length that lies in each new cell, along one axis."""
    edges, bins = np.linspace(*old, cells + 1), np.linspace(*new, BINS + 1)
    low, high = np.minimum(edges[:-1], edges[1:]), np.maximum(edges[:-1], edges[1:])
    overlaps = np.minimum(high, bins[1:, None]) - np.maximum(low, bins[:-1, None])
    return np.maximum(overlaps, 0.0) / (high - low)


def count_visited_cells(
    places: Float[np.ndarray, "*sets particles 2"], valid: Bool[np.ndarray, "*sets particles"], cells: tuple[int, int]
) -> Int[np.ndarray, "*sets"]:
    """Count the cells that were visited in each set, in a grid of `cells` columns and rows."""
    columns, rows = cells
    numbers = (places[..., 1] * columns + places[..., 0]).astype(int)
    visited = np.zeros((*valid.shape[:-1], columns * rows + 1), bool)
    np.put_along_axis(visited, np.where(valid, numbers, columns * rows), True, axis=-1)
    return visited[..., :-1].sum(axis=-1)
