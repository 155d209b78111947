"""Test that observations outside of their space are refused or told, and never changed silently."""

import math
import re

import cloudpickle
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from toys import Walk

from alphamepol.environments.gymnasium.observations import ObservationError, ObservationReader
from alphamepol.environments.gymnasium.worker import NOTHING, Particle, Recipe, Station, Worker

pytestmark = pytest.mark.quick

BYTES = Box(0, 255, (3,), np.uint8)
FLOATS = Box(-1, 1, (2,), np.float32)
NESTED = Dict({"clock": Box(0, 9, (2, 1), np.float32), "where": Tuple((Discrete(3, start=1), BYTES))})


def read(space, *observations) -> tuple[list, list[str]]:
    """Return the flat vector of the last observation, and all that was told."""
    told = []
    reader = ObservationReader(space, told.append)
    for observation in observations:
        flat = reader.flatten(observation)
        if not reader.contains(flat):
            reader.tell_outside(flat)
    assert flat.dtype == np.float32
    return flat.tolist(), told


@pytest.mark.parametrize(
    ("space", "observation", "flat"),
    [
        (BYTES, np.array([0, 7, 255], np.uint8), [0, 7, 255]),
        (FLOATS, np.array([0.5, -1], np.float32), [0.5, -1]),
        (Box(-math.inf, math.inf, (2,)), np.array([1e30, -1e30], np.float32), [np.float32(1e30), np.float32(-1e30)]),
        # A float64 holds every float32.
        (Box(-1, 1, (2,), np.float64), np.array([0.5, 0.25], np.float32), [0.5, 0.25]),
        (Box(-(2**40), 2**40, (1,), np.int64), np.array([2**40]), [2**40]),
        (Box(0.1, 0.7, (2,), np.float64), np.array([0.1, 0.7]), [np.float32(0.1), np.float32(0.7)]),
        (
            NESTED,
            {"clock": np.array([[1], [2]], np.float32), "where": (3, np.array([4, 5, 6], np.uint8))},
            [1, 2, 0, 0, 1, 4, 5, 6],
        ),
        (Discrete(2), np.True_, [0, 1]),
        (MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1]),
        (MultiBinary(2), np.array([1, 0], np.int8), [1, 0]),
        (Text(2, charset="ab"), "ab", [0, 1]),
    ],
)
def test_an_observation_of_the_space_is_flattened_and_nothing_is_told(space, observation, flat):
    assert read(space, observation) == (flat, [])


@pytest.mark.parametrize(
    ("space", "observation", "flat", "sentences"),
    [
        (
            BYTES,
            np.array([0.0, 7.0, 255.0]),
            [0, 7, 255],
            ["its observation is of type float64, but its .* type uint8"],
        ),
        (
            BYTES,
            np.array([0.2, 7.6, 254.5], np.float32),
            [0, 8, 254],
            ["its observation is of type float32", r"its observation has fractions such as 0.2, but .* it is rounded"],
        ),
        (BYTES, [1, 2, 3], [1, 2, 3], ["its observation is of type int64, but its space has type uint8"]),
        (FLOATS, np.array([0.5, -0.25]), [0.5, -0.25], ["its observation is of type float64, .* type float32"]),
        (
            FLOATS,
            np.array([0.5, -1.5], np.float32),
            [0.5, -1.5],
            [r"its observation has -1.5 at index 1, but its space has the bounds \[-1, 1\] there; it is used as it is"],
        ),
        (
            NESTED,
            {"clock": np.array([[1], [2]], np.float32), "where": (3, np.array([4.0, 5.0, 6.4]))},
            [1, 2, 0, 0, 1, 4, 5, 6],
            [r"its observation\['where'\]\[1\] is of type float64", "has fractions such as 6.4"],
        ),
    ],
)
def test_an_observation_that_needs_a_change_is_told_once(space, observation, flat, sentences):
    found, told = read(space, observation, observation, observation)
    assert found == flat
    for text, sentence in zip(told, sentences, strict=True):
        assert re.search(sentence, text)


@pytest.mark.parametrize(
    ("space", "observation", "sentence"),
    [
        (BYTES, np.array([0.0, math.nan, 0.0]), "it gave an observation with nan, but its space has type uint8"),
        (BYTES, np.array([0.0, 300.0, 0.0]), "it gave an observation with 300, but its space has type uint8"),
        (BYTES, np.array([0.0, -0.6, 0.0]), "it gave an observation with -0.6, but its space has type uint8"),
        (BYTES, np.array([0, -1, 0]), "it gave an observation with -1, but its space has type uint8"),
        (BYTES, np.array([0, 1], np.uint8), r"of shape \(2,\), but its space has shape \(3,\)"),
        (FLOATS, np.zeros((2, 1), np.float32), r"of shape \(2, 1\), but its space has shape \(2,\)"),
        (FLOATS, np.array(["a", "b"]), "it gave an observation of type <U1, but its space has type float32"),
        (Discrete(3, start=1), 0, r"it gave 0 as its observation, which is not in Discrete\(3, start=1\)"),
        (MultiDiscrete([2, 3]), np.array([2, 0]), "which is not in MultiDiscrete"),
        (MultiBinary(2), np.array([0.5, 1]), r"which is not in MultiBinary\(2\)"),
    ],
)
def test_an_observation_that_the_space_cannot_hold_is_refused(space, observation, sentence):
    with pytest.raises(ObservationError, match=sentence):
        read(space, observation)


class Bytes(Walk):
    """A walk whose observations are floats, although its space is of bytes."""

    def __init__(self, largest: float):
        super().__init__()
        self.observation_space, self.largest = Box(0, 255, (2,), np.uint8), largest

    def _observe(self):
        return np.array([self.largest, 0.0])


def test_a_worker_tells_of_each_member_once_and_refuses_with_a_sentence():
    recipe = Recipe({"a": lambda: Bytes(7.0), "b": lambda: Bytes(8.0), "c": lambda: Bytes(256.0)}, Particle())
    board = {name: np.zeros((4, 2), np.float32) for name in ("observations", "particles", "actions")}
    board |= {name: np.zeros(4, np.float32) for name in ("rewards", "over", "cut")} | {"now": np.full(1, NOTHING)}
    worker = Worker(0, cloudpickle.dumps(recipe), board)
    assert worker.carry_out("reset", [(0, 0, 0, 0), (1, 0, 1, 0)]) is None
    assert worker.carry_out("step", [0, 1]) is None
    sentence = "its observation is of type float64, but its space has type uint8"
    assert worker.unsent() == [(0, sentence, True), (1, sentence, True)]
    assert worker.carry_out("step", [0, 1]) is None
    assert worker.unsent() == []
    failure = "it gave an observation with 256, but its space has type uint8"
    assert worker.carry_out("reset", [(2, 0, 2, 0)]) == failure


def test_a_number_that_is_not_finite_is_refused_also_after_the_bounds_were_left():
    class Leaving(Walk):
        def __init__(self):
            super().__init__()
            self.observation_space, self.shown = FLOATS, 0.0

        def _observe(self):
            return np.full(2, self.shown, np.float32)

    told, env = [], Leaving()
    station = Station(env, Recipe({}, Particle()), told.append)
    station.reset(0)
    for env.shown in (2.0, 3.0):
        station.step(np.zeros(2, np.float32))
    assert len(told) == 1
    env.shown = math.inf
    with pytest.raises(ArithmeticError, match=r"not finite \(inf at index 0\), after reset\(seed=0\) and 3 steps"):
        station.step(np.zeros(2, np.float32))
