"""Test the heat-maps and trajectories of the page, and that no program runs because a file names it."""

import json
from typing import Any

import numpy as np
import pytest
from browsers import wait_for

from alphamepol.measuring.evaluation_files import load_evaluation
from alphamepol.measuring.visits import VisitMap
from alphamepol.runs.folder import RunFolder
from alphamepol.watching import places as places_module
from alphamepol.watching.followed_run import FollowedRun
from alphamepol.watching.places import places_of_evaluation, places_of_panels
from alphamepol.watching.sampled_places import panels_of_run, sample_places
from alphamepol.watching.shown_places import ShownPlaces, is_same_program, picture_of_evaluation


def test_shares_and_trails_are_those_of_the_evaluation(finished_run) -> None:
    evaluation = load_evaluation(RunFolder(finished_run).evaluation)
    found = picture_of_evaluation(FollowedRun(finished_run, "slope"))
    assert found is not None
    assert [panel["title"] for panel in found["panels"]] == ["GWS", "GWN"]
    assert (found["names"], found["source"], found["left_out"]) == (["x", "y"], "evaluation", 0)
    assert evaluation.visits is not None
    assert evaluation.trails is not None
    for number, panel in enumerate(found["panels"]):
        shares = np.array(panel["shares"]) / 1e6
        np.testing.assert_allclose(shares, evaluation.visits.shares[:, number].mean(axis=0), atol=1e-6)
        trail = np.array(panel["trails"][0]).reshape(-1, 2)
        np.testing.assert_allclose(trail, evaluation.trails[number, 0], rtol=1e-3, atol=1e-6)
        assert panel["map"]["extent"] == [-1, 1, -1, 1]
        assert {patch[0] for patch in panel["map"]["patches"]} == {"wall"}
    json.dumps(found, allow_nan=False)


def test_long_trails_are_thinned_and_ended_ones_are_cut() -> None:
    trails = np.full((1, 7, 1200, 2), np.nan)
    trails[0, :, :700] = np.arange(700)[:, None]
    visits = VisitMap(np.ones((1, 2, 2)) / 4, (0.0, 1.0, 0.0, 1.0))
    found = places_of_panels(["a"], [None], visits, trails, ("x", "y"))
    (panel,) = found["panels"]
    assert (found["stride"], found["steps"]) == (3, 1200)
    assert len(panel["trails"]) == places_module.TRAILS
    assert panel["trails"][0][::2] == list(range(0, 700, 3))


@pytest.mark.parametrize("extent", [[1, 1, 0, 1], [0, 1, 0], "abcd", [0, 1, None, 2]])
def test_a_map_that_somebody_has_edited_is_left_out(extent: Any, finished_run) -> None:
    folder = RunFolder(finished_run)
    record = folder.read_class_record()
    assert record is not None
    record["maps"][0]["extent"] = extent
    found = places_of_evaluation(load_evaluation(folder.evaluation), record)
    assert found is not None
    assert [panel["map"] is None for panel in found["panels"]] == [True, False]


def test_the_newest_policy_is_sampled(finished_run) -> None:
    found = sample_places(finished_run)
    assert isinstance(found, dict)
    assert [panel["title"] for panel in found["panels"]] == ["GWS", "GWN"]
    assert found["steps"] == 20
    assert len(found["panels"][0]["trails"]) == places_module.TRAILS
    for panel in found["panels"]:
        assert np.sum(panel["shares"]) == pytest.approx(1e6, rel=1e-3)
    assert sample_places(finished_run) == found


def test_panels_of_each_kind_of_run() -> None:
    members = [f"m{number}" for number in range(30)]
    shown = panels_of_run({}, ["best-seed-3", "seed-3", "seed-4"], members)
    assert {panel.policy for panel in shown} == {"seed-3"}
    assert [panel.title for panel in shown] == members[: places_module.MOST_PANELS]

    skills = [f"seed-{seed}-skill-{skill}" for seed in (0, 1) for skill in range(8)]
    shown = panels_of_run({}, skills, members)
    assert [panel.policy for panel in shown] == [f"seed-0-skill-{skill}" for skill in range(5)] * 2
    assert shown[5].title == "skill 0 in m1"

    tasks = [[0.5, -0.5], [3, 4], {"normal": [1.0, 0.0], "offset": 2.0}]
    described = {"member": "m2", "tasks": tasks, "config": {"goal_radius": 0.1}}
    policies = [f"task-{task}-seed-{seed}" for task in range(3) for seed in (0, 1)]
    shown = panels_of_run(described, policies, members)
    # The agent sees the goal of the second task, which is a cell, so that its policy cannot act without the task.
    assert [(panel.policy, panel.member, panel.goal) for panel in shown] == [
        ("task-0-seed-0", 2, (0.5, -0.5, 0.1)),
        ("task-2-seed-0", 2, None),
    ]


def test_no_program_runs_because_a_config_names_it(run_copy, tmp_path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "own_class_of_page.py"
    program.write_text(f"import alphamepol\nopen({str(ran)!r}, 'w')\ndef made(): return alphamepol.make('multigrid')\n")
    (run_copy / "summary.json").unlink()
    config = json.loads((run_copy / "config.json").read_text())
    (run_copy / "config.json").write_text(json.dumps({**config, "class": f"{program}:made"}))
    run = FollowedRun(run_copy, "slope")
    run.advance(10.0)
    places = ShownPlaces()
    try:
        wait_for(lambda: not places.newest(run)["coming"])
        shown = places.newest(run)
    finally:
        places.close()
    assert "is a program of your own" in shown["sentence"]
    assert shown["picture"] is None
    assert not ran.exists()


def test_a_program_is_recognised_by_its_file_and_function() -> None:
    assert is_same_program("there/own.py:make", "/here/own.py:make")
    assert not is_same_program("own.py:make", "own.py:other")
    assert not is_same_program("own.py:make", None)
