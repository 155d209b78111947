"""A measure of how winding a map is."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra


def gridworld_detour(walls: np.ndarray) -> float:
    """Return how winding a map is: the longest of all shortest ways, over the straight line between its ends.

    Ways go from cell to cell, along sides and across corners between free cells. Both lengths are in cells.
    """
    free = np.argwhere(~walls)
    numbers = np.full(walls.shape, -1)
    numbers[tuple(free.T)] = np.arange(len(free))
    ends: list[tuple[int, int, float]] = []
    for row, column in free.tolist():
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            other = row + down, column + right
            if not (0 <= other[0] < walls.shape[0] and 0 <= other[1] < walls.shape[1]) or walls[other]:
                continue
            if down and right and (walls[row, other[1]] or walls[other[0], column]):
                continue  # a corner of a wall is in between
            ends.append((int(numbers[row, column]), int(numbers[other]), float(np.hypot(down, right))))
    if not ends:
        return 1.0
    start, end, length = (np.array(part) for part in zip(*ends, strict=True))
    graph = coo_array((length, (start.astype(int), end.astype(int))), shape=(len(free), len(free))).tocsr()
    ways = dijkstra(graph, directed=False)
    one, other = np.unravel_index(np.argmax(np.where(np.isfinite(ways), ways, -1)), ways.shape)
    return float(ways[one, other] / np.linalg.norm(free[one] - free[other]))
