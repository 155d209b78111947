"""Test how workers are chosen: by a number, or on a Ray cluster."""

import cloudpickle
import numpy as np
import pytest
from toys import Walk

import alphamepol as am
from alphamepol.cli.stepping import SteppingOptions
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.environments.gymnasium import crew
from alphamepol.environments.gymnasium.crew import Crew, read_crew
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.gymnasium.pickled_recipe import pickle_recipe
from alphamepol.environments.gymnasium.worker import Particle, Recipe
from alphamepol.environments.host import Board, HostClass, remark_about_class
from alphamepol.environments.make import make_class
from alphamepol.errors import InputError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("given", "read"),
    [(None, Crew()), (3, Crew(3)), ("3", Crew(3)), ("ray", Crew(None, True)), ("ray:64", Crew(64, True))],
)
def test_workers_are_a_number_of_processes_or_of_actors(given, read):
    assert read_crew(given) == read


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (0, "workers: 0 was given; it must be at least 1"),
        ("ray:0", "workers: ray:0 was given; it must be at least 1"),
        ("ray:99999999999", "workers: ray:99999999999 was given; it must be at most 4096"),
        ("ray:", "workers: 'ray:' was given; it must be a number, ray, or ray:NUMBER such as ray:64"),
        ("dask", "workers: 'dask' was given; it must be a number, ray, or ray:NUMBER such as ray:64"),
        ("3:4", "workers: '3:4' was given; it must be"),
        (True, "workers: True was given; it must be"),
    ],
)
def test_other_workers_are_refused(given, sentence):
    with pytest.raises(InputError) as refused:
        read_crew(given)
    assert str(refused.value).startswith(sentence)


def test_ray_has_to_be_installed(monkeypatch):
    monkeypatch.setattr(crew, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"install it with pip install 'alphamepol\[ray\]'"):
        read_crew("ray")


def test_an_address_for_clients_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(InputError, match="RAY_ADDRESS: an address with ray:// is for clients"):
        read_crew("ray")


def test_the_option_for_an_address_needs_ray(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "before")
    assert SteppingOptions(workers="ray:2", ray_address="head:6379").given_workers() == "ray:2"
    assert crew.ray_address() == "head:6379"
    for workers in (None, "4"):
        with pytest.raises(InputError, match="ray-address: head:6379 was given; it is only for --workers ray"):
            SteppingOptions(workers=workers, ray_address="head:6379").given_workers()


def test_only_gymnasium_classes_have_workers_to_choose():
    sentence = "workers: 2 was given; only classes of Gymnasium environments have workers"
    with pytest.raises(InputError, match=sentence):
        make_class("gridworld-slope", workers=2)
    walks = gymnasium_class({"walk": Walk})
    members = {"walk": walks["walk"]}

    with pytest.raises(InputError, match=sentence):
        make_class(HostClass(members, OwnFleet()), workers=2)


class OwnFleet:
    """A fleet of a user's own."""

    def board(self, trajectories: int) -> Board: ...
    def reset(self, board: Board, stations, members, seeds) -> None: ...
    def step(self, board: Board, stations, actions) -> None: ...
    def close(self) -> None: ...


def test_other_workers_leave_everything_else_of_a_class(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    walks = gymnasium_class({"a": Walk, "b": Walk}, [0.7, 0.3], name="walks", workers=1)
    other = make_class(walks, workers="ray:5")
    assert (other.names, other.probabilities, other.name) == (walks.names, walks.probabilities, "walks")
    assert other.fingerprint == walks.fingerprint
    assert remark_about_class(walks) == ""
    assert remark_about_class(other) == (
        "The workers are actors of a Ray cluster on this machine, 5 of them. They take about ten seconds to start."
    )


def walk_of(number: int) -> Walk:
    return Walk((number % 7 / 10, 0.0))


def test_all_members_of_a_generated_class_have_the_chosen_workers():
    made = make_class(am.generated_class(walk_of, shown=2, kind="gymnasium"), workers="ray:5")
    for one in (made, class_of_shown_members(made, "seen:3")):
        assert "5 of them" in one.fleet.remark


def test_functions_of_the_user_travel_by_value():
    """A machine of the cluster does not have the file `toys.py`."""
    recipe = Recipe({"walk": Walk}, Particle(lambda observation: np.abs(observation)))
    assert b"np_random" not in pickle_recipe(recipe)
    assert b"np_random" in pickle_recipe(recipe, by_value=True)
    assert cloudpickle.list_registry_pickle_by_value() == set()
