"""Test that runs are processes of this machine with their own cores and GPUs, and that none is left behind."""

import time

import pytest

from alphamepol import InputError
from alphamepol.compute.machine import machine_cores
from alphamepol.launching import command as command_module
from alphamepol.launching.command import VISIBLE, LocalStarter, RunningCommand
from alphamepol.launching.task import Task


def test_a_command_adds_its_output_to_its_log(tmp_path) -> None:
    log = tmp_path / "logs/a.log"
    log.parent.mkdir()
    log.write_text("before\n")
    running = RunningCommand(["--version"], log)
    while running.status() is None:
        time.sleep(0.02)
    assert running.status() == 0
    assert log.read_text().startswith("before\nalphamepol ")


def test_a_command_that_is_killed_has_ended(tmp_path) -> None:
    running = RunningCommand(["check", "gridworld-slope"], tmp_path / "a.log")
    running.kill()
    assert running.status() is not None


def test_every_slot_has_its_own_gpus_and_cores(tmp_path, monkeypatch) -> None:
    given = []

    class Started(RunningCommand):
        def __init__(self, words, log, variables, cores):
            given.append((variables, tuple(cores)))

        def status(self) -> None:
            return None

    monkeypatch.setattr(command_module, "RunningCommand", Started)
    monkeypatch.setattr(command_module, "machine_cores", lambda: 6)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3, 4, 5, 6, 7, 8})
    monkeypatch.setenv(VISIBLE, "2,3,5,7")
    starter, task = LocalStarter(2, cores=3, gpus=2), Task("a", (), tmp_path, tmp_path / "log", 1, 1.0)
    starter.start(task)
    starter.start(task)
    assert given == [({VISIBLE: "2,3"}, (3, 4, 5)), ({VISIBLE: "5,7"}, (6, 7, 8))]


def test_too_many_cores_and_gpus_are_refused(monkeypatch) -> None:
    with pytest.raises(InputError, match=f"this machine has {machine_cores()} cores"):
        LocalStarter(2, cores=machine_cores(), gpus=0)
    monkeypatch.setenv(VISIBLE, "0")
    with pytest.raises(InputError, match=f"{VISIBLE} has 1"):
        LocalStarter(2, cores=None, gpus=1)
