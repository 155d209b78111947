"""Test the memory of the machine, where compiled programs are kept, and that a second start compiles nothing."""

import mmap
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from alphamepol.compute.machine import (
    CACHE_BYTES,
    keep_machine_compilation_cache,
    machine_compilation_cache,
    machine_memory_left,
    machine_memory_of_process,
)

VARIABLES = (
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_COMPILATION_CACHE_MAX_SIZE",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that monkeypatch restores the variable afterwards
        monkeypatch.delenv(name)
    return monkeypatch


def test_programs_are_kept_in_the_users_cache(no_settings, tmp_path: Path) -> None:
    no_settings.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_machine_compilation_cache()
    folder = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    assert folder == machine_compilation_cache()
    assert folder.parent == tmp_path / "alphamepol"
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == str(CACHE_BYTES)


def test_what_the_user_set_stays(no_settings) -> None:
    no_settings.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    keep_machine_compilation_cache()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
    # The size of the user's folder is not limited, because a limit could remove the programs in it.
    assert "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ


def test_a_user_without_a_home_goes_without(no_settings) -> None:
    no_settings.delenv("XDG_CACHE_HOME", raising=False)
    no_settings.setattr(Path, "expanduser", mock.Mock(side_effect=RuntimeError("Could not determine home directory.")))
    keep_machine_compilation_cache()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_other_processors_have_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine_compilation_cache()
    monkeypatch.setattr("alphamepol.compute.machine._machine_processor", lambda: "flags : sse")
    assert machine_compilation_cache() != here


def test_the_smallest_limit_of_memory_counts(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert machine_memory_left(tmp_path) is None
    write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:  8000 kB\n")
    assert machine_memory_left(tmp_path) == 8000 * 1024
    write("proc/self/cgroup", "0::/job/step\n")
    for folder, limit in (("sys/fs/cgroup/job", "5000000"), ("sys/fs/cgroup/job/step", "max")):
        write(f"{folder}/memory.max", f"{limit}\n")
        write(f"{folder}/memory.current", "2000000\n")
    assert machine_memory_left(tmp_path) == 3_000_000
    write("sys/fs/cgroup/job/memory.stat", "anon 1200000\ninactive_file 700000\n")
    assert machine_memory_left(tmp_path) == 3_700_000
    write("proc/self/cgroup", "4:cpu:/\n3:memory:/elsewhere\n")  # the older kind, seen from inside a container
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n")
    assert machine_memory_left(tmp_path) == 0


def test_memory_of_the_process_grows_with_what_it_holds() -> None:
    before = machine_memory_of_process()
    with mmap.mmap(-1, 50_000_000) as held:  # new pages, where `bytearray` may reuse memory that was freed
        held.write(os.urandom(len(held)))
        assert 40_000_000 < machine_memory_of_process() - before < 400_000_000
        assert machine_memory_of_process(peak=True) >= before + len(held) * 0.8


def test_the_second_start_compiles_nothing(tmp_path: Path) -> None:
    words = "evaluate gridworld-slope/alpha-0.2 --class gridworld-slope --batches 2 --folder".split()
    # The settings of the tests are removed, because they keep compiled programs, too.
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "programs")
    kept = []
    for run in ("first", "second"):
        command = [sys.executable, "-m", "alphamepol", *words, str(tmp_path / run)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        kept.append(sorted(path.name for path in (tmp_path / "programs").rglob("*-cache")))
    assert len(kept[0]) > 10
    assert kept[0] == kept[1]
