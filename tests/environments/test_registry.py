"""Test that the named classes are those of the specification, and that functions in files can name classes."""

import sys

import equinox as eqx
import gridworld_oracle as oracle
import numpy as np
import pytest

from alphamepol.environments.make import make
from alphamepol.environments.registry import registered_class_names
from alphamepol.errors import InputError


@pytest.mark.parametrize(
    ("name", "members", "probabilities"),
    [
        ("gridworld-slope", ("GWS", "GWN"), (0.8, 0.2)),
        ("multigrid", ("MG0", "MG1", "MG2", "MG3", "MG4", "MG5", "MG6", "MG7", "MG8", "MG9"), (0.1,) * 10),
        ("gridworld-counterexample", ("four-rooms", "two-halls"), (0.8, 0.2)),
        ("minigrid", ("EasyG", "AdvG"), (0.8, 0.2)),
        ("minigrid-counterexample", ("Unlock", "ObstructedMaze"), (0.8, 0.2)),
    ],
)
def test_names_and_probabilities(name, members, probabilities):
    environment_class = make(name)
    assert environment_class.name == name
    assert environment_class.names == members
    assert environment_class.probabilities == pytest.approx(probabilities)


@pytest.mark.parametrize("facts", oracle.MEMBERS, ids=lambda facts: facts.name)
def test_members_have_the_map_and_the_slope_of_the_specification(facts):
    member = make(facts.class_name)[facts.name]
    np.testing.assert_array_equal(member.walls, facts.walls)
    np.testing.assert_array_equal(member.slope_direction, facts.slope_direction)
    assert float(member.slope_mean) == pytest.approx(facts.slope_mean)


def test_every_class_is_in_the_specification():
    others = {"ant-stairs", "ant-stairs-implicitfast", "minigrid", "minigrid-counterexample"}
    others |= {"generated-rooms", "generated-mazes", "generated-minigrid"}
    assert set(registered_class_names()) == {facts.class_name for facts in oracle.MEMBERS} | others | {
        "gridworld-slope-everywhere"
    }


def test_the_slope_everywhere_is_the_same_but_for_where_it_acts():
    usual, everywhere = make("gridworld-slope"), make("gridworld-slope-everywhere")
    assert (usual.names, usual.probabilities) == (everywhere.names, everywhere.probabilities)
    for name in usual.names:
        assert (float(usual[name].slope_above), float(everywhere[name].slope_above)) == (0.0, -1.0)
        same = eqx.tree_at(lambda member: member.slope_above, everywhere[name], usual[name].slope_above)
        assert eqx.tree_equal(same, usual[name])


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"class: 'gridworld-slop' is not known.*did you mean 'gridworld-slope'\?"):
        make("gridworld-slop")
    with pytest.raises(InputError, match=r"class: 'multi-grid' is not known.*did you mean 'multigrid'\?"):
        make("multi-grid")


def test_an_unknown_name_like_no_other_is_refused_with_all_names():
    with pytest.raises(
        InputError, match=r"only gridworld-slope, .*, multigrid, .*; name one of your own as FILE.py:FUNC"
    ):
        make("zzz")


MINE = """
import alphamepol as am

def rooms():
    return am.EnvironmentClass({"calm": am.Gridworld("....")}, name="rooms")

def nothing():
    return None

def breaks():
    return {}["x"]

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a working folder with Python files. Their modules are forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    for name, content in {"my_classes": MINE, "broken": "oops", "json": MINE}.items():
        (tmp_path / f"{name}.py").write_text(content)


@pytest.mark.usefixtures("folder")
def test_a_function_in_a_file_names_the_class_it_returns():
    made = make("my_classes.py:rooms")
    assert (made.name, made.names) == ("my_classes.py:rooms", ("calm",))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.py:rooms", r"there is no file nowhere.py"),
        ("my_classes.py:houses", r"has no function houses"),
        ("my_classes.py:number", r"has no function number"),
        ("my_classes.py:breaks", r"my_classes.py:breaks failed \(KeyError: 'x'; my_classes.py, line 11\)"),
        ("my_classes.py:nothing", r"returned NoneType; it must return a class of environments"),
        ("my_classes:rooms", r"a class of your own is named as FILE.py:FUNCTION"),
        ("broken.py:rooms", r"broken.py cannot be imported \(NameError: name 'oops' is not defined\)"),
        ("json.py:rooms", r"json.py has the name of another module"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_file_that_gives_no_class_is_refused(name, sentence):
    with pytest.raises(InputError, match=sentence):
        make(name)
