"""A finished run to watch."""

import dataclasses
import shutil
from pathlib import Path

import pytest

import alphamepol as am


@pytest.fixture(scope="session")
def finished_run(tiny, tmp_path_factory) -> Path:
    """Return the folder of a small finished run. Tests must not change it."""
    config = dataclasses.replace(tiny, seeds=2)
    folder = tmp_path_factory.mktemp("watched") / "runs/slope"
    return am.pretrain("gridworld-slope", config, folder=folder, log="none", quiet=True).folder


@pytest.fixture
def run_copy(finished_run, tmp_path) -> Path:
    """Return a copy of the run, which is the only one in its folder."""
    return Path(shutil.copytree(finished_run, tmp_path / "runs/slope"))
