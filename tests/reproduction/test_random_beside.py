"""Test Random beside runs: it is measured only if that is cheap, and never by running a user's program."""

import dataclasses
from pathlib import Path

import pytest

from alphamepol.algorithms.alphamepol.config import PretrainConfig
from alphamepol.environments.make import make
from alphamepol.reproduction.report.random_beside import measure_random_beside
from alphamepol.reproduction.store import Stored

TINY = PretrainConfig(trajectories=4, batch=2, horizon=20, neighbours=4, hidden=(8,), seeds=2, evaluation_batches=12)


def stored(config: PretrainConfig = TINY, class_name: str = "gridworld-slope", command: str = "pretrain") -> Stored:
    members = list(make("gridworld-slope").names)
    told = {"class": class_name, "members": members, "entropy": {name: [0.0] for name in members}}
    return Stored(Path("runs/$mine"), {"command": command, "class": class_name}, config, {}, so_far=told)


def test_random_is_measured_as_the_run_was() -> None:
    found = measure_random_beside([stored()])
    assert found.evaluation.entropies.shape == (1, 2, 10)  # one policy, and at most ten mini-batches
    assert set(found.estimates["Random"]) == {"GWS", "GWN", None}
    assert "one untrained policy" in found.sentence
    assert not found.command


@pytest.mark.quick
@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 1_000_000_000},
        {"hidden": (100_000, 100_000)},
        {"hidden": (8,) * 1000},
        {"recurrent_units": 1_000_000},
        {"batch": 1_000_000},
    ],
)
def test_settings_of_others_cannot_make_it_long(change: dict) -> None:
    found = measure_random_beside([stored(dataclasses.replace(TINY, **change))])
    assert found.evaluation is None
    assert found.sentence == "Random was not measured, because that takes more than some seconds."
    assert found.command.startswith("alphamepol evaluate ")


@pytest.mark.quick
def test_no_program_of_a_user_is_run() -> None:
    found = measure_random_beside([stored(class_name="missing.py:explode")])
    assert found.evaluation is None
    assert "runs no program of a user" in found.sentence


@pytest.mark.quick
def test_random_among_the_runs_is_enough() -> None:
    found = measure_random_beside([stored(), stored(command="untrained")])
    assert found.evaluation is None
    assert found.sentence == "Random: untrained policies, from one of the runs on this page."
