"""Test heat-maps and replays in a page: their data are those of the evaluations."""

import base64
import json
import re

import numpy as np
import pytest

from alphamepol.environments.make import make
from alphamepol.measuring.exploration import Evaluation
from alphamepol.measuring.visits import VisitMap
from alphamepol.pages.places import PlacedMethod, class_maps_of_places, html_heat_maps, html_replays

pytestmark = pytest.mark.quick


def evaluation(shares=None, trails=None, extent=(0.0, 4.0, 0.0, 2.0), members=("east", "</script>")) -> Evaluation:
    entropies = np.zeros((1, len(members), 3))
    return Evaluation(
        class_name="mine.py:worlds",
        members=members,
        probabilities=(0.5,) * len(members),
        alpha=1.0,
        seeds=(0,),
        ceilings=(np.inf,) * len(members),
        entropies=entropies,
        trajectory_entropies=entropies,
        visits=None if shares is None else VisitMap(shares, extent),
        trails=trails,
        place_names=("angle", "speed"),
    )


def data_of(made: str) -> dict:
    assert made.count("</script>") == 1  # names do not end the data
    (found,) = re.findall(r'<script type="application/json">(.*)</script>', made)
    return json.loads(found)


def test_heat_maps_are_those_of_the_evaluations() -> None:
    shares = np.zeros((1, 2, 2, 4))
    shares[0, 0, 1, 3], shares[0, 0, 0, 0] = 0.9, 0.1
    shares[0, 1, 0, 0] = 1.0
    methods = [
        PlacedMethod("Random", evaluation(shares)),
        PlacedMethod("low", evaluation(shares), alpha=0.2, note="one policy"),
        PlacedMethod("high", evaluation(shares), alpha=1.0),
        PlacedMethod("nowhere", evaluation()),
    ]
    data = data_of(html_heat_maps(methods, ()))
    assert [one["label"] for one in data["methods"]] == ["high", "low", "Random"]  # along the slider, then the others
    assert data["start"] == 1
    assert data["methods"][1]["note"] == "one policy"
    assert data["axes"] == ["angle", "speed"]
    assert data["members"][0]["extent"] == [0, 4, 0, 2]
    levels = np.frombuffer(base64.b64decode(data["methods"][0]["shares"][0]), np.uint8).reshape(2, 4)
    assert (levels > 0).tolist() == (shares[0, 0] > 0).tolist()
    back = data["least"] * (data["most"] / data["least"]) ** ((levels[levels > 0] - 1) / 254)
    assert back == pytest.approx(shares[0, 0][shares[0, 0] > 0], rel=0.03)
    assert html_heat_maps(methods[3:], ()) == ""


def test_replays_of_a_class_without_a_map_cover_the_places_of_all_methods() -> None:
    trails = np.full((2, 4, 3, 2), np.nan)
    trails[:, :, 0], trails[:, :, 1] = (0.0, 0.0), (4.0, 2.0)
    shares = np.full((1, 2, 1, 1), 1.0)
    wide = evaluation(shares, 2 * trails, extent=(0.0, 8.0, 0.0, 4.0))
    data = data_of(html_replays([PlacedMethod("a", evaluation(shares, trails)), PlacedMethod("b", wide)], ()))
    assert data["members"][1]["extent"] == [0, 8, 0, 4]
    assert data["panels"][0]["trails"] == [[0, 0, 500, 500]] * 3  # three trajectories, without steps after the end
    assert data["panels"][2]["trails"][0] == [0, 0, 1000, 1000]
    assert data["steps"] == 3
    alone = data_of(html_replays([PlacedMethod("a", evaluation(None, trails))], ()))
    assert alone["panels"][0]["trails"][0] == pytest.approx([37, 37, 963, 963], abs=1)
    still = data_of(html_replays([PlacedMethod("a", evaluation(None, 0 * trails))], ()))
    assert still["panels"][0]["trails"][0] == [500, 500, 500, 500]
    assert html_replays([PlacedMethod("a", evaluation())], ()) == ""


def test_rows_of_a_grid_count_downward() -> None:
    """In MiniGrid the first row is in the north, so y grows southward."""
    grid = make("minigrid")
    trails = np.zeros((2, 1, 2, 2))
    trails[:, :, 1] = (16.5, 16.5)  # near the south-east corner of the grid
    seen = evaluation(trails=trails, members=grid.names)
    data = data_of(html_replays([PlacedMethod("a", seen)], class_maps_of_places(grid)))
    (x, y), (east, south) = np.array(data["panels"][0]["trails"][0]).reshape(2, 2).tolist()
    assert (x < 100, y > 900) == (True, True)
    assert (east > 900, south < 100) == (True, True)
    kinds = {patch[-1] for patch in data["members"][1]["patches"]}
    assert {"wall", "door", "goal"} >= kinds > {"wall"}
