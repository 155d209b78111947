"""Test which Gymnasium environments can form a class, and with which messages others are refused."""

import inspect
import threading
from functools import partial
from operator import itemgetter

import gymnasium
import numpy as np
import pytest
from toys import Corridor, Walk

from alphamepol.environments.gymnasium.gymnasium_class import describe_for_gymnasium_class, gymnasium_class
from alphamepol.environments.gymnasium.worker import Particle
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


def distance(info):
    return info["distance"]


def both(observation, info):
    return [observation[0], info["distance"]]


def turned(info, observation, scale=1.0):
    return [info["distance"] * scale, observation[0]]


@pytest.mark.parametrize(
    ("entropy_on", "particle"),
    [
        (None, [3.0, 4.0]),
        ([1], [4.0]),
        (slice(0, 1), [3.0]),
        (lambda observation: observation * 2, [6.0, 8.0]),
        (lambda observation: observation[0], [3.0]),
        (distance, [5.0]),
        (both, [3.0, 5.0]),
        (turned, [5.0, 3.0]),
        (itemgetter(1), [4.0]),
        (1, [4.0]),
        (-1, [4.0]),
        (np.array([True, False]), [3.0]),
    ],
)
def test_the_entropy_can_be_on_any_part(entropy_on, particle):
    observation = np.array([3.0, 4.0], np.float32)
    found = Particle(entropy_on)(observation, observation, {"distance": 5.0})
    np.testing.assert_allclose(found, particle)
    assert gymnasium_class({"walk": Walk}, entropy_on=entropy_on)[0].feature_size == len(particle)


class Strange(Walk):
    """A walk with actions that no policy here can take."""

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.MultiDiscrete([2, 3])


class Wordy(Walk):
    """A walk with observations that are not numbers."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(3))


class Stuck(Walk):
    """A walk that cannot be stepped."""

    def step(self, action):
        raise ValueError("no")


LOCK = threading.Lock()


class Short(Walk):
    """A walk whose observations have fewer numbers than its space says."""

    def _observe(self):
        return super()._observe()[:1]


def unmakeable():
    raise OSError("no licence")


@pytest.mark.parametrize(
    ("members", "more", "sentence"),
    [
        ({}, {}, "members: none was given; give a dictionary with at least one"),
        ([Walk], {}, "members: none was given; give a dictionary with at least one"),
        ({"a": Short}, {}, r"'a' cannot be stepped \(ValueError: it gave an observation of 1 numbers, its space has 2"),
        ({"a": 3}, {}, "members: 'a' is 3; give a Gymnasium id, or a function"),
        ({"a": "Nonsense-v0"}, {}, r"members: 'a' cannot be made \(NameNotFound"),
        ({"a": unmakeable}, {}, r"members: 'a' cannot be made \(OSError: no licence\)"),
        ({"a": dict}, {}, "members: 'a' made dict, which is no Gymnasium environment"),
        ({"a": Strange}, {}, r"members: 'a' has the action space MultiDiscrete.*only Box and Discrete"),
        ({"a": Wordy}, {}, r"members: 'a' has observations Sequence.*which Gymnasium cannot flatten"),
        ({"a": Stuck}, {}, r"members: 'a' cannot be stepped \(ValueError: no\)"),
        ({"a": Walk, "b": Corridor}, {}, "members: 'b' and 'a' differ in observation_space: Dict.* and Box"),
        ({"a": Walk, "b": partial(Walk, unit=2.0)}, {}, "members: 'b' and 'a' differ in action_space: .*a wrapper can"),
        ({"a": Walk}, {"probabilities": [0.5]}, "probabilities: 0.5 sum to 0.5"),
        ({"a": Walk}, {"entropy_on": []}, "entropy_on: it selects nothing"),
        ({"a": Walk}, {"entropy_on": [7]}, r"entropy_on: in 'a' entropy_on failed \(IndexError"),
        ({"a": Walk}, {"entropy_on": lambda info: info["nothing"]}, r"entropy_on: in 'a' entropy_on failed \(KeyError"),
        (
            {"a": lambda: (LOCK, Walk())[1]},
            {},
            r"members: they cannot be sent to worker processes \(TypeError: cannot pickle",
        ),
        (
            {"a": Walk},
            {"entropy_names": ["x"]},
            "entropy_names: x was given; a particle has 2 features, and",
        ),
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


def test_descriptions_are_the_same_in_every_process():
    things = {
        "partial": partial(both, scale=2.0),
        "object": Walk(),
        "list": [1, None, np.arange(2)],
        "lambda": lambda: 0,
    }
    described = describe_for_gymnasium_class(things)
    assert " at 0x" not in described
    assert "both" in described
    assert described != describe_for_gymnasium_class(things | {"partial": partial(both, scale=3.0)})
