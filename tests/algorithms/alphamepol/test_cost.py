"""Test the estimated cost of a run: how it grows with the settings, and when and how it is said."""

import dataclasses
from functools import partial
from pathlib import Path

import pytest
from toys import Walk

from alphamepol import PretrainConfig, estimate_pretraining_cost, gymnasium_class, make, preset, pretrain
from alphamepol.algorithms.alphamepol import cost as costs
from alphamepol.algorithms.alphamepol.cost import PretrainingCost, is_short_pretraining, learning_passes
from alphamepol.compute.devices import Memory

ROW, NEIGHBOUR = 4 * (2 + 2 + 2) + 1, 4
"""The bytes of a step in a gridworld (observation, action, particle, valid), and of a neighbour."""


@pytest.fixture
def one_second_each(monkeypatch) -> None:
    """Let every timed part of the piece take one second, and let the process hold no memory."""
    monkeypatch.setattr(costs, "_time_rounds", lambda function: (function(), 1.0))
    monkeypatch.setattr(costs, "device_memory", lambda: Memory(0, 0, None))


def test_the_piece_is_scaled_to_the_whole_run(one_second_each, tiny, monkeypatch) -> None:
    # Five mini-batches of 40 rows fit into the piece, but of four, two are the tail, as three of six are in the run.
    monkeypatch.setattr(costs, "mapped_rows_per_product", lambda pixels: 200 // costs.PIECES)
    cost = estimate_pretraining_cost("gridworld-slope", dataclasses.replace(tiny, seeds=3))
    assert cost.sampling == cost.neighbours == pytest.approx(3 * 6 / 4)
    # One iteration is timed: 1 + 1 + 3/2 passes. Three iterations take 1 + 3 (1 + 3/2) passes.
    assert cost.learning == pytest.approx(3 * 6 / 4 * 8.5 / 3.5)
    # The two members are evaluated with four mini-batches each. The estimate itself takes some time, too.
    assert cost.total > 4 * cost.epoch + 2 * 4 / 6 * (cost.sampling + cost.neighbours)


def test_memory_grows_with_seeds_and_horizon(one_second_each, tiny) -> None:
    base = dataclasses.replace(tiny, horizon=400, trajectories=40, batch=4)
    one, two, longer = (
        estimate_pretraining_cost("gridworld-slope", dataclasses.replace(base, **changed)).memory
        for changed in ({}, {"seeds": 2}, {"horizon": 800})
    )
    rows = 40 * 400
    # The samples of two epochs and the neighbours are there at once, and what the update computes comes on top.
    assert one > rows * (2 * ROW + base.neighbours * NEIGHBOUR)
    # A seed adds its own samples. The CPU works on one seed after the other, so that the rest is needed once.
    assert rows * (2 * ROW + base.neighbours * NEIGHBOUR) < two - one <= one
    assert longer == pytest.approx(2 * one, rel=0.2)


def test_passes_over_the_samples_are_counted() -> None:
    config = PretrainConfig()
    assert learning_passes(config) == pytest.approx(1 + 30 * (1 + 3 * 0.2))
    assert learning_passes(dataclasses.replace(config, alpha=1.0)) == 1 + 3 * 31
    assert learning_passes(dataclasses.replace(config, alpha=1.0), in_one_pass=False) == 1 + 30 * 4
    assert learning_passes(dataclasses.replace(config, alpha=1.0, gradient_share=0.5)) == pytest.approx(1 + 30 * 2.5)
    assert learning_passes(dataclasses.replace(config, update="on-policy")) == 6


def test_only_a_run_of_minutes_is_worth_an_estimate(tiny) -> None:
    environment_class = make("gridworld-slope")
    assert is_short_pretraining(environment_class, tiny)
    assert not is_short_pretraining(environment_class, preset("paper", "gridworld-slope"))
    # The environments of a host class may be slow.
    walks = gymnasium_class({"calm": Walk})
    longer = dataclasses.replace(tiny, epochs=100)
    assert is_short_pretraining(environment_class, longer)
    assert not is_short_pretraining(walks, longer)


def walks():
    return gymnasium_class({"calm": partial(Walk, ends=0.01), "windy": partial(Walk, (0.2, 0.0))}, workers=2)


@pytest.mark.parametrize("build", [partial(make, "gridworld-slope"), walks], ids=["compiled", "host"])
def test_a_short_run_says_nothing_and_saying_it_changes_no_bit(build, tiny, tmp_path, monkeypatch, capsys) -> None:
    config = dataclasses.replace(tiny, epochs=2, initial_mean="none", normalise=True)
    silent = pretrain(build(), config, folder=tmp_path / "silent")
    assert "an epoch" not in capsys.readouterr().out
    monkeypatch.setattr(costs, "SHORT", 0.0)
    told = pretrain(build(), config, folder=tmp_path / "told")
    shown = " ".join(capsys.readouterr().out.split())
    assert "The run takes about" in shown
    assert shown.index("GB of memory") < shown.index("epoch 1 of 2")
    assert policy_bytes(told.folder) == policy_bytes(silent.folder)


def policy_bytes(folder: Path) -> bytes:
    return (folder / "policy/seed-0.safetensors").read_bytes()


def test_a_run_that_does_not_fit_is_warned_of() -> None:
    fits = PretrainingCost(1.0, 2.0, 3.5, total=700.0, memory=int(2e9), memory_there=int(16e9))
    assert fits.summary == (
        "about 6.5 s an epoch (1 s sampling, 2 s neighbours, 3.5 s learning), 11 min 40 s in all, and 2 GB of memory "
        "(of 16 GB)"
    )
    assert fits.warnings == ()
    assert dataclasses.replace(fits, memory_there=None).warnings == ()
    memory, days = dataclasses.replace(fits, memory=int(40e9), total=180_000.0).warnings
    assert memory.startswith("The run needs about 40 GB of memory, but only 16 GB can be had: use fewer --seeds")
    assert days.startswith("The run takes about 2.1 days: use fewer --epochs")
