"""The places where policies go, as a page draws them: a heat-map and a few trajectories in each panel."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from alphamepol.environments.maps import Map
from alphamepol.files.json_files import value_has_type
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.visits import VisitMap

MOST_PANELS = 10
"""The most panels of a run."""
TRAILS = 5
"""The number of trajectories of a panel."""
MOST_STEPS = 500
"""The most places of a drawn trajectory. Of a longer one, every second place is drawn, or every third, and so on."""
MOST_CELLS = 100 * 100
"""The most cells of a heat-map that is drawn."""


def places_of_evaluation(evaluation: Evaluation, record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the places that the final policies of a run visit, ready for JSON; None if places are not in a plane.

    `record` is the content of class.json, which has the maps of the members. It may be missing, or be of another class.
    """
    visits, trails = evaluation.visits, evaluation.trails
    if visits is None or trails is None:
        return None
    known = record is not None and tuple(record["members"]) == evaluation.members
    maps = record["maps"] if record is not None and known else [None] * len(evaluation.members)
    shares = visits.shares.mean(axis=0)
    names = evaluation.place_names or ("x", "y")
    return places_of_panels(evaluation.members, maps, VisitMap(shares, visits.extent), trails, names)


def places_of_panels(
    titles: Sequence[str],
    maps: Sequence[Mapping[str, Any] | None],
    visits: VisitMap,
    trails: Float[np.ndarray, "panels batch time 2"],
    names: Sequence[str],
) -> dict[str, Any]:
    """Return panels with a map, a heat-map and trajectories each, ready for JSON.

    **Arguments**

    - `titles`: the title of each panel, e.g. the name of a member.
    - `maps`: the map of each panel, as class.json has it; None for a panel without a map.
    - `visits`: the share of time in each cell, by panel.
    - `trails`: the trajectories of each panel. Steps after an early end are NaN.
    - `names`: the names of the two coordinates.
    """
    stride = 1 + (trails.shape[2] - 1) // MOST_STEPS
    small = visits.shares[0].size <= MOST_CELLS
    panels = []
    for number, title in list(enumerate(titles))[:MOST_PANELS]:
        ways = [way[np.isfinite(way).all(axis=-1)][::stride] for way in trails[number, :TRAILS].astype(float)]
        panels.append(
            {
                "title": name_as_text(title, WIDTH),
                "map": _drawn_map(maps[number]),
                # Parts per million are enough for colours, and short.
                "shares": (1e6 * visits.shares[number]).round().astype(int).tolist() if small else None,
                "trails": [[float(f"{value:.4g}") for value in way.ravel()] for way in ways],
            }
        )
    return {
        "names": [name_as_text(name, WIDTH) for name in names],
        "extent": list(map(float, visits.extent)),
        "panels": panels,
        "left_out": max(0, len(titles) - MOST_PANELS),
        "stride": stride,
        "steps": trails.shape[2],
    }


def map_as_recorded(ground: Map | None) -> dict[str, Any] | None:
    """Return a map as class.json has it."""
    return ground and dataclasses.asdict(ground)


def _drawn_map(ground: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the extent and the patches of a map; None if it is not a map, because somebody has edited the file."""
    numbers = list[float | int]
    if ground is None or not _is_extent(extent := list(ground.get("extent", ()))):
        return None
    patches = []
    for patch in ground.get("patches", ()):
        sides = [*patch["corner"], *patch["size"]]
        if value_has_type(sides, numbers) and len(sides) == 4 and value_has_type(patch["kind"], str):
            patches.append([patch["kind"], *sides])
    return {"extent": extent, "patches": patches}


def _is_extent(extent: list[Any]) -> bool:
    """Tell if these are four numbers: two that differ in x, and two that differ in y."""
    if not (value_has_type(extent, list[float | int]) and len(extent) == 4):
        return False
    west, east, south, north = extent
    return west != east and south != north
