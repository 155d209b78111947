"""Test work that several devices share, in a process that has four of them."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import pytest

from alphamepol import InputError, gymnasium_class, make
from alphamepol.cli.main import main
from alphamepol.runs.device_count import check_device_count

GRIDWORLDS = make("gridworld-slope")


def test_results_are_those_of_one_device() -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    script = Path(__file__).parents[1] / "support/several_devices.py"
    # These devices are threads that wait for each other. NPROC is the size of their pool, which must be large enough.
    several = os.environ | {"XLA_FLAGS": flags, "NPROC": "64"}
    output = subprocess.run([sys.executable, script], env=several, capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    report = json.loads(output.stdout.splitlines()[-1])
    for part in ("mini-batches", "mini-batches of MEPOL", "tasks"):
        assert report[part]["difference"] < 0.005, part
    for part in ("pretrain", "MAML"):
        assert report[part]["same files"], part
    # If there are four seeds, each of four devices has one. If there is one seed, each has two of its eight
    # mini-batches.
    assert report["seeds"]["actions"] == [1, 8, 5, 20, 2]
    assert report["seeds"]["log_std"] == [1, 2]
    assert report["mini-batches"]["actions"] == report["mini-batches of MEPOL"]["actions"] == [1, 2, 5, 20, 2]
    assert report["tasks"]["log_std"] == [1, 2]


@pytest.mark.parametrize(
    "words",
    [
        "pretrain gridworld-slope --seeds 7",
        "finetune random --class gridworld-slope --member GWN --tasks 7",
        "metatrain gridworld-slope --seeds 7",
    ],
)
def test_more_devices_than_there_are_are_refused(words: str, capsys) -> None:
    assert main([*words.split(), "--devices", "7"]) == 2
    assert re.search(r"devices: 7 was given; there (is|are) \d+\n", capsys.readouterr().err)


def test_no_device_is_too_few() -> None:
    with pytest.raises(InputError, match=r"^devices: 0 was given"):
        check_device_count(0, GRIDWORLDS, {"seeds": 7})


def test_what_runs_on_the_host_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.local_devices", lambda: list(range(4)))
    carts = gymnasium_class({"cart": partial(gymnasium.make, "CartPole-v1")}, name="carts")
    with pytest.raises(InputError, match="devices: 2 was given; class carts runs on the host"):
        check_device_count(2, carts, {"seeds": 2})
    with pytest.raises(InputError, match="devices: 2 was given; class ant-stairs steps all its simulations together"):
        check_device_count(2, make("ant-stairs"), {"seeds": 2})


def test_devices_that_cannot_share_evenly_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.local_devices", lambda: list(range(4)))
    check_device_count(4, GRIDWORLDS, {"seeds": 3, "mini-batches": 40})
    sentence = "devices: 4 was given; 3 seeds or 10 mini-batches cannot be shared evenly by so many, only by 1, 2, 3"
    with pytest.raises(InputError, match=sentence):
        check_device_count(4, GRIDWORLDS, {"seeds": 3, "mini-batches": 10})
