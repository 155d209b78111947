"""Test the estimates of how long runs will take."""

import dataclasses
import json

import pytest

from alphamepol import MetatrainConfig, PretrainConfig, TrpoConfig
from alphamepol.compute.devices import device_name
from alphamepol.reproduction.planned import Finetuning, GradientVariance, Metatraining, Pretraining, Untrained
from alphamepol.reproduction.run_times import Clock
from alphamepol.reproduction.store import Store
from alphamepol.settings.conversion import settings_to_dict

RUN = Pretraining("gridworld-slope", PretrainConfig(epochs=100))


def write(store: Store, name: str, planned, seconds: float, device: str) -> None:
    folder = store.runs / name
    folder.mkdir(parents=True)
    description = {"command": planned.command, "class": planned.class_name, "config": settings_to_dict(planned.config)}
    (folder / "config.json").write_text(json.dumps(description))
    explored = {"members": ["GWN"], "probabilities": [1.0], "seeds": [0], "entropy": {"GWN": [0.0]}, "mean": [0.0]}
    summary = {"class": planned.class_name, **explored, "ceiling": {"GWN": None}}
    (folder / "summary.json").write_text(json.dumps(summary | {"seconds": {"total": seconds}, "device": device}))
    store.look()


def longer(run: Pretraining, epochs: int) -> Pretraining:
    return dataclasses.replace(run, config=dataclasses.replace(run.config, epochs=epochs))


def test_more_work_takes_longer(tmp_path) -> None:
    clock = Clock(Store(tmp_path))
    assert 1 < clock.seconds(RUN) < 1e6
    assert clock.seconds(longer(RUN, 200)) > 1.5 * clock.seconds(RUN)
    neutral = dataclasses.replace(RUN, config=PretrainConfig(epochs=100, alpha=1.0))
    assert clock.seconds(neutral) > 1.5 * clock.seconds(RUN)
    others = [
        Finetuning("gridworld-slope", "GWN", TrpoConfig()),
        Metatraining("gridworld-slope", MetatrainConfig()),
        Metatraining("gridworld-slope", MetatrainConfig(method="diayn")),
        Untrained("ant-stairs", PretrainConfig()),
        GradientVariance(RUN, 50),
    ]
    assert all(1 < clock.seconds(run) < 1e7 for run in others)
    assert clock.seconds(GradientVariance(RUN, 50)) > clock.seconds(GradientVariance(RUN, 10))
    assert clock.seconds(GradientVariance(RUN, 10, (20, 40))) == clock.seconds(GradientVariance(RUN, 20))


def test_runs_that_are_done_here_correct_it(tmp_path) -> None:
    store = Store(tmp_path)
    clock = Clock(store)
    first, ratio = clock.seconds(RUN), clock.seconds(longer(RUN, 300)) / clock.seconds(RUN)
    write(store, "elsewhere", longer(RUN, 99), 1e9, "another device")
    assert clock.seconds(RUN) == pytest.approx(first)
    write(store, "here", RUN, 7.0, device_name())
    assert clock.seconds(RUN) == pytest.approx(7.0)
    assert clock.seconds(longer(RUN, 300)) == pytest.approx(7.0 * ratio)


def test_what_was_begun_takes_as_long_as_is_left(tmp_path) -> None:
    store = Store(tmp_path)
    clock = Clock(store)
    whole = clock.seconds(RUN)
    folder = store.place_of(RUN)
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"epoch": 73, "seed": 0}\n{"epoch": 74, "seed": 0}\n')
    assert clock.seconds(RUN) == pytest.approx(whole / 4)


@pytest.mark.parametrize("seconds", [{}, {"sampling": 3.0}, {"total": 0}])
def test_a_run_that_does_not_say_how_long_it_took_does_not_count(seconds: dict[str, float], tmp_path) -> None:
    store = Store(tmp_path)
    clock = Clock(store)  # another clock would measure the speed of this machine again
    before = clock.seconds(RUN)
    write(store, "edited", RUN, 7.0, device_name())
    path = store.runs / "edited/summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": seconds}))
    store.look()
    assert clock.seconds(RUN) == pytest.approx(before)
