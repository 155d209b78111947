"""Test the trial of the members of a Gymnasium class, which makes and steps each of them a few times."""

import sys
import warnings
from functools import partial
from operator import itemgetter
from typing import Any

import gymnasium
import numpy as np
import pytest
from processes import wait_until_no_process_has
from toys import Walk
from troubled import Parent, Troubled, Unloadable, Unspaced

from alphamepol.environments import environment_warnings
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.gymnasium.trial import Trial, try_gymnasium_member
from alphamepol.environments.gymnasium.worker import Particle, Recipe
from alphamepol.errors import InputError
from alphamepol.files.names import describe_plainly


def tried(made: Any, entropy_on=None) -> Trial:
    """Try one member in this process. It must not give any warnings."""
    remarks = []
    trial = try_gymnasium_member("a", Recipe({"a": made}, Particle(entropy_on)), remarks)
    assert not remarks
    return trial


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
    assert tried(Walk, entropy_on).feature_size == len(particle)


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


class Short(Walk):
    """A walk whose observations have fewer numbers than its space says."""

    def _observe(self):
        return super()._observe()[:1]


def unmakeable():
    raise OSError("no licence")


@pytest.mark.parametrize(
    ("made", "entropy_on", "sentence"),
    [
        (
            Short,
            None,
            r"'a' cannot be stepped \(ObservationError: it gave an observation of shape \(1,\), but its space",
        ),
        (unmakeable, None, r"members: 'a' cannot be made \(OSError: no licence\)"),
        (sys.exit, None, r"members: 'a' cannot be made \(SystemExit\)"),
        (dict, None, "members: 'a' made dict, which is no Gymnasium environment"),
        (Strange, None, r"members: 'a' has the action space MultiDiscrete.*only Box and Discrete"),
        (Wordy, None, r"members: 'a' has observations Sequence.*which Gymnasium cannot flatten"),
        (Stuck, None, r"members: 'a' cannot be stepped \(ValueError: no\)"),
        (Walk, [], "entropy_on: it selects nothing"),
        (Walk, lambda info: info["nothing"], r"entropy_on: in 'a' entropy_on failed \(KeyError"),
        (Walk, lambda observation: sys.exit(3), r"entropy_on: in 'a' entropy_on failed \(SystemExit: 3\)"),
    ],
)
def test_a_member_that_cannot_be_used_is_refused(made, entropy_on, sentence):
    with pytest.raises(InputError, match=sentence):
        tried(made, entropy_on)


@pytest.mark.parametrize("how", ["exit", "interrupt"])
@pytest.mark.parametrize("place", ["make", "reset", "step"])
def test_a_member_that_exits_is_refused(how, place, tmp_path):
    error = {"exit": "SystemExit: 3", "interrupt": "KeyboardInterrupt"}[how]
    verb = "made" if place == "make" else "stepped"
    with pytest.raises(InputError, match=rf"members: 'a' cannot be {verb} \({error}\)"):
        tried(partial(Troubled, how, place, str(tmp_path)))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            partial(Troubled, "segfault", "step"),
            r"members: 'b' cannot be stepped; the process .* died \(signal SIGSEGV",
        ),
        (partial(Troubled, "_exit", "make"), r"members: 'b' cannot be stepped; the process .* died \(exit code 3\)"),
        (Unspaced, r"members: 'b' cannot be tried \(AttributeError"),
    ],
)
def test_a_member_that_ends_its_process_is_refused(made, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        gymnasium_class({"a": Walk, "b": partial(made, str(tmp_path))})


def test_members_that_cannot_be_loaded_are_refused(tmp_path):
    sentence = r"members: they cannot be loaded in a worker process \(SystemExit: 3\)"
    with pytest.raises(InputError, match=sentence):
        gymnasium_class({"a": Walk, "b": Unloadable("exit", str(tmp_path))})


def test_an_error_in_close_is_told_and_processes_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(environment_warnings, "SHOWN", set())
    marker = str(tmp_path)
    monkeypatch.setenv("ALPHAMEPOL_TEST_MARKER", marker)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        made = {"bad": partial(Troubled, "exit", "close", marker), "parent": partial(Parent, "fork", "session")}
        gymnasium_class(made)
    assert [str(warning.message) for warning in shown] == ["environment bad: its close() failed (SystemExit: 3)"]
    wait_until_no_process_has(marker, longest=0)


def test_descriptions_are_the_same_in_every_process():
    things = {
        "partial": partial(both, scale=2.0),
        "object": Walk(),
        "list": [1, None, np.arange(2)],
        "lambda": lambda: 0,
    }
    described = describe_plainly(things)
    assert " at 0x" not in described
    assert "both" in described
    assert described != describe_plainly(things | {"partial": partial(both, scale=3.0)})
