"""Heat-maps and replays in a page: where agents went, drawn by `places.js` from the data of evaluations."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphamepol.environments.maps import Map
from alphamepol.figures.heat_maps import heat_map_caption
from alphamepol.files.names import name_as_text
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.visits import VisitMap, visit_maps_with_common_extent
from alphamepol.pages.html import Html, html_widget

TRAILS = 3
"""The number of trajectories that a replay shows for a method in a member."""
SHOWN = 3
"""The number of methods that a replay shows before the reader chooses."""
LEAST = 1e-5
"""The smallest share of time that heat-maps tell apart from smaller ones."""
MOST_MEMBERS = 20
"""The most members whose places a page shows."""
NAME_WIDTH = 40
SIDE = 1000
"""The length of a panel's sides in its own coordinates."""


@dataclass(frozen=True)
class PlacedMethod:
    """A method whose places a page shows."""

    label: str
    evaluation: Evaluation
    alpha: float | None = None
    """The percentile α, if the method is one of those between which a slider chooses."""
    note: str = ""
    """A remark below the panels, e.g. that the map shows one policy."""


Extent = tuple[float, float, float, float]


def html_heat_maps(methods: Sequence[PlacedMethod], maps: Sequence[Map | None]) -> Html:
    """Return heat-maps of one method at a time. A slider chooses α, and buttons choose all other methods.

    The page begins with the first of the methods with an α below 1, beside the method with the largest α if there are
    at most two members. `maps` has the map of each member, where it is known. The result is empty if no method has
    visits.
    """
    shown = [method for method in methods if method.evaluation.visits is not None]
    if not shown:
        return Html()
    given = next((method for method in shown if method.alpha is not None and method.alpha < 1), shown[0])
    shown.sort(key=lambda method: 0.0 if method.alpha is None else -method.alpha)
    seen = {str(i): _mean_of_visits(method.evaluation) for i, method in enumerate(shown)}
    visits = list(visit_maps_with_common_extent(seen).values())
    largest = max(float(one.shares.max()) for one in visits)
    extent = visits[0].extent
    rows, columns = visits[0].shares.shape[-2:]
    members = range(min(MOST_MEMBERS, len(shown[0].evaluation.members)))
    data = {
        **_places_ground(shown[0].evaluation, maps, [extent] * len(members)),
        "rows": rows,
        "columns": columns,
        "extent": list(extent),
        "least": LEAST,
        "most": largest,
        "start": shown.index(given),
        "methods": [
            {
                "label": name_as_text(method.label, NAME_WIDTH),
                "alpha": method.alpha,
                "note": method.note,
                "captions": [heat_map_caption(method.evaluation, i) for i in members],
                "shares": [_shares_as_text(one.shares[i], largest) for i in members],
            }
            for method, one in zip(shown, visits, strict=True)
        ],
    }
    return html_widget("maps", data)


def html_replays(methods: Sequence[PlacedMethod], maps: Sequence[Map | None]) -> Html:
    """Return a replay of a few trajectories of each method in each member. Empty if no method has trails."""
    trails = [(method, one) for method in methods if (one := method.evaluation.trails) is not None]
    first_shown = [method.label for method, _ in trails[:SHOWN]]
    trails.sort(key=lambda pair: 0.0 if pair[0].alpha is None else -pair[0].alpha)
    if not trails:
        return Html()
    first = trails[0][0].evaluation
    members = range(min(MOST_MEMBERS, len(first.members)))
    seen = [method.evaluation.visits.extent for method, _ in trails if method.evaluation.visits is not None]
    extents = [_joint_extent(seen or [_extent_of_trails([one[i] for _, one in trails])]) for i in members]
    ground = _places_ground(first, maps, extents)
    extents = [member["extent"] for member in ground["members"]]  # those of the maps, where they are known
    panels = [
        {"method": number, "member": i, "trails": [_trail_in_panel(way, extents[i]) for way in one[i, :TRAILS]]}
        for number, (_, one) in enumerate(trails)
        for i in members
    ]
    data = {
        **ground,
        "methods": [name_as_text(method.label, NAME_WIDTH) for method, _ in trails],
        "shown": [i for i, (method, _) in enumerate(trails) if method.label in first_shown],
        "steps": max(one.shape[2] for _, one in trails),
        "panels": [panel for panel in panels if any(panel["trails"])],
    }
    return html_widget("replay", data)


def _mean_of_visits(evaluation: Evaluation) -> VisitMap:
    """Return the share of time over all seeds."""
    assert evaluation.visits is not None
    return VisitMap(evaluation.visits.shares.mean(axis=0), evaluation.visits.extent)


def _places_ground(evaluation: Evaluation, maps: Sequence[Map | None], extents: Sequence[Extent]) -> dict[str, Any]:
    """Return the panels without what happened there: names, walls, and the ends of the axes."""
    members = []
    for i, extent in enumerate(extents):
        ground = maps[i] if i < len(maps) else None
        west, east, south, north = ends = extent if ground is None else ground.extent
        walls = [
            [*_place_in_panel(patch.corner, ends), *_size_in_panel(patch.size, ends), patch.kind]
            for patch in (() if ground is None else ground.patches)
        ]
        members.append(
            {
                "name": name_as_text(evaluation.members[i], NAME_WIDTH),
                "extent": ends,
                "height": 1.0 if ground is None else round(abs((north - south) / (east - west)), 4),
                "patches": walls,
            }
        )
    names = evaluation.place_names if len(evaluation.place_names) == 2 else ("x", "y")
    return {"members": members, "axes": [name_as_text(name, NAME_WIDTH) for name in names]}


def _place_in_panel(place: tuple[float, float], extent: Extent) -> list[int]:
    west, east, south, north = extent
    return [round(SIDE * (place[0] - west) / (east - west)), round(SIDE * (place[1] - south) / (north - south))]


def _size_in_panel(size: tuple[float, float], extent: Extent) -> list[int]:
    west, east, south, north = extent
    return [round(SIDE * size[0] / (east - west)), round(SIDE * size[1] / (north - south))]


def _trail_in_panel(way: np.ndarray, extent: Extent) -> list[int]:
    """Return x and y of every step of a trajectory, one after the other; the steps after an early end are left out."""
    west, east, south, north = extent
    steps = way[np.isfinite(way).all(axis=1)]
    scaled = SIDE * (steps - (west, south)) / (east - west, north - south)
    return np.clip(scaled.round(), -SIDE, 2 * SIDE).astype(int).ravel().tolist()


def _joint_extent(extents: Sequence[Extent]) -> Extent:
    """Return the smallest extent that holds all of these."""
    west, east, south, north = np.array(extents, float).T
    upward = south[0] < north[0]  # rows of a grid count downward
    ends = (south.min(), north.max()) if upward else (south.max(), north.min())
    return float(west.min()), float(east.max()), float(ends[0]), float(ends[1])


def _extent_of_trails(trails: Sequence[np.ndarray]) -> Extent:
    """Return the region that the trails of a member cover; it has some width even if no agent moves."""
    places = np.concatenate([one.reshape(-1, 2) for one in trails])
    places = places[np.isfinite(places).all(axis=1)]
    if not len(places):
        return -1.0, 1.0, -1.0, 1.0
    low, high = places.min(axis=0), places.max(axis=0)
    room = np.maximum(0.04 * (high - low), 1e-3)
    (west, south), (east, north) = (low - room).tolist(), (high + room).tolist()
    return west, east, south, north


def _shares_as_text(shares: np.ndarray, largest: float) -> str:
    """Return shares of time as base64 of a byte a cell: 0 for no visit, and 1 to 255 on a log scale."""
    with np.errstate(divide="ignore"):
        levels = np.log(shares / LEAST) / np.log(max(largest, 2 * LEAST) / LEAST)
    levels = np.where(shares > 0, 1 + np.clip(levels, 0, 1) * 254, 0)
    return base64.b64encode(levels.round().astype(np.uint8).tobytes()).decode()


def class_maps_of_places(environment_class: Any) -> Sequence[Map | None]:
    """Return the map of each member of a class; None for a member without a map."""
    return [environment_class[i].map for i in range(min(MOST_MEMBERS, len(environment_class)))]
