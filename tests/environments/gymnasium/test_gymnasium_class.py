"""Test which Gymnasium environments can form a class, and with which messages others are refused."""

import inspect
import threading
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from toys import Corridor, Walk

from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.errors import InputError


def test_a_class_has_the_spaces_names_and_probabilities_that_were_given():
    made = gymnasium_class({"calm": Walk, "windy": partial(Walk, (0.1, 0.0))}, [0.8, 0.2], name="walks")
    assert (made.name, made.names, made.probabilities) == ("walks", ("calm", "windy"), (0.8, 0.2))
    assert made["windy"].observation_space == gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    assert made[0].feature_size == 2
    assert made[0].time_limit == np.inf
    assert repr(made) == "HostClass('walks', calm: 0.8, windy: 0.2)"


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"entropy_names": ("east", "north")}, ("east", "north")),
        ({}, ("observation 0", "observation 1")),
        ({"entropy_on": [-1]}, ("observation 1",)),
        ({"entropy_on": lambda observation: observation * 2}, ("feature 0", "feature 1")),
    ],
)
def test_features_have_the_names_that_were_given_or_usual_ones(more, names):
    assert gymnasium_class({"walk": Walk}, **more)[0].entropy_names == names


def test_ids_have_their_time_limit_taken_off_and_what_is_made_elsewhere_keeps_it():
    made = gymnasium_class({"id": "Pendulum-v1", "made": partial(gymnasium.make, "Pendulum-v1")})
    assert (made["id"].time_limit, made["made"].time_limit) == (np.inf, 200)
    assert gymnasium_class({"wrapped": lambda: gymnasium.wrappers.TimeLimit(Walk(), 50)})[0].time_limit == 50


def test_other_spaces_are_flattened():
    made = gymnasium_class({"corridor": Corridor})
    assert made[0].action_space == gymnasium.spaces.Discrete(2)
    assert made[0].observation_space.shape == (9,)
    assert made[0].feature_size == 9


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("members", "more", "sentence"),
    [
        ({}, {}, "members: none was given; give a dictionary with at least one"),
        ([Walk], {}, "members: none was given; give a dictionary with at least one"),
        ({"a": 3}, {}, "members: 'a' is 3; give a Gymnasium id, or a function"),
        ({"a": "Nonsense-v0"}, {}, r"members: 'a' cannot be made \(NameNotFound"),
        ({"a": Walk, "b": Corridor}, {}, "members: 'b' and 'a' differ in observation_space: Dict.* and Box"),
        ({"a": Walk, "b": partial(Walk, unit=2.0)}, {}, "members: 'b' and 'a' differ in action_space: .*a wrapper can"),
        ({"a": Walk}, {"probabilities": [0.5]}, "probabilities: 0.5 sum to 0.5"),
        ({"a": Walk}, {"entropy_on": [7]}, r"entropy_on: in 'a' entropy_on failed \(IndexError"),
        (
            {"a": lambda: (LOCK, Walk())[1]},
            {},
            r"members: they cannot be sent to worker processes \(TypeError: cannot pickle",
        ),
        ({"a": Walk}, {"entropy_names": ["x"]}, "entropy_names: x was given; a particle has 2 features, and"),
        ({"a": Walk}, {"entropy_names": "xy"}, "entropy_names: 'xy' was given; give a tuple of names"),
        ({"a": Walk}, {"workers": 0}, "workers: 0 was given; it must be at least 1"),
        ({"a": Walk}, {"copies": -1}, "copies: -1 was given; it must be at least 1"),
    ],
)
def test_what_cannot_be_is_said_at_once(members, more, sentence):
    with pytest.raises(InputError, match=sentence):
        inspect.unwrap(gymnasium_class)(members, **more)  # without the type checks, which only tests have


def test_classes_that_differ_have_different_fingerprints():
    def fingerprint(*arguments, **more):
        return gymnasium_class(*arguments, **more).fingerprint

    usual = fingerprint({"a": "Pendulum-v1"})
    assert usual == fingerprint({"a": "Pendulum-v1"})
    assert usual != fingerprint({"a": partial(gymnasium.make, "Pendulum-v1", g=5.0)})
    assert usual != fingerprint({"a": "Pendulum-v1"}, entropy_on=[0])


class FarAway(Walk):
    """A walk whose observation is in float64 and far from zero."""

    def __init__(self, offset: float):
        super().__init__()
        self.offset = np.array([0.0, offset])
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def _observe(self) -> np.ndarray:
        return self.place + self.offset


@pytest.mark.parametrize(
    ("entropy_on", "name"),
    [(None, "observation 1"), ([1], "observation 1"), (lambda observation: observation[1], "feature 0")],
)
def test_a_particle_that_rounding_spoils_is_told_for_each_member(entropy_on, name):
    members = {"near": partial(FarAway, 0.0), "far": partial(FarAway, 1e8), "farther": partial(FarAway, -1e9)}
    with pytest.warns(UserWarning, match="stored in float32") as said:
        gymnasium_class(members, entropy_on=entropy_on)
    sentences = [str(one.message) for one in said]
    assert [sentence.split(":")[0] for sentence in sentences] == ["environment far", "environment farther"]
    assert f"{name} is about 1e+08 and changed by " in sentences[0]
    assert "whose numbers are 8 apart there; let entropy_on subtract a constant" in sentences[0]


def test_a_constant_that_is_subtracted_in_float64_keeps_the_digits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gymnasium_class({"far": partial(FarAway, 1e8)}, entropy_on=lambda observation: observation - [0, 1e8])
