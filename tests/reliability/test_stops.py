"""Test runs that are stopped (the short version of kill.py), folders that are in use, and failures of the disk."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.reliability.kill import (
    COMMANDS,
    Command,
    differences,
    finish,
    kill_in_chain,
    processes_left,
    products,
    start,
    stop_and_resume,
)

from alphamepol import InputError, PretrainConfig, pretrain
from alphamepol.cli.main import main
from alphamepol.files.locks import LOCK, folder_lock_held
from alphamepol.runs.metrics import JsonLinesLogger

SETTINGS = (
    "pretrain gridworld-slope --preset quick --epochs 40 --trajectories 20 --neighbours 3 --evaluation-batches 2 "
    "--feature-noise 0.01 --learning-rate 0.0001"
)
PRETRAIN = Command.of(SETTINGS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(start(PRETRAIN, folder))
    return folder


def test_a_killed_run_goes_on_to_the_same_bits(whole: Path, tmp_path: Path) -> None:
    """SIGKILL gives no time to save. For SIGINT and SIGTERM see tests/cli/test_main.py."""
    folder = tmp_path / "run"

    def after_some_epochs(process: subprocess.Popen) -> None:
        while process.poll() is None and _lines(folder) < 15:
            time.sleep(0.01)

    outcome = stop_and_resume(PRETRAIN, folder, signal.SIGKILL, after_some_epochs)
    assert 15 <= outcome["metrics_lines"] < 40
    assert outcome["status"] == -9
    assert differences(products(folder), products(whole)) == []
    assert not (folder / LOCK).exists()


def _lines(folder: Path) -> int:
    return len((folder / "metrics.jsonl").read_bytes().splitlines()) if (folder / "metrics.jsonl").exists() else 0


def test_the_long_version_knows_its_commands() -> None:
    assert list(COMMANDS) == ["pretrain with workers", "pretrain with memory", "finetune", "metatrain", "reproduce"]


def test_the_long_version_kills_in_chains(tmp_path: Path) -> None:
    """The program of this run counts its starts, and ends at the third one."""
    program = tmp_path / "count.py"
    program.write_text(
        "import sys, time\nfrom pathlib import Path\nfolder = Path(sys.argv[1])\nfolder.mkdir(exist_ok=True)\n"
        "with (folder / 'metrics.jsonl').open('a') as file:\n    print('{}', file=file)\n"
        "time.sleep(1000 * ((folder / 'metrics.jsonl').read_text().count('{}') < 3))\n"
    )

    def moments() -> Iterator[float]:
        after = 0.05
        while _lines(tmp_path / "run") < 2:
            yield after
            after *= 1.5  # a start may take long
        yield 1000.0

    killed, left = kill_in_chain(Command((str(program),), ()), tmp_path / "run", moments(), kills=10**6)
    assert [one["metrics_lines"] for one in killed if one["metrics_lines"]][-1] == 2
    assert left == []
    assert _lines(tmp_path / "run") == 4


def test_a_process_that_is_left_is_found(tmp_path: Path) -> None:
    process = start(Command(("-c", "input()"), ()), tmp_path)
    (line,) = processes_left(tmp_path, patience=0)
    assert "input()" in line
    process.kill()
    process.communicate()
    assert processes_left(tmp_path, patience=0) == []


@pytest.mark.parametrize(
    "words",
    [
        "pretrain gridworld-slope --preset quick --epochs 1 --folder FOLDER",
        "finetune random --class gridworld-slope --member GWN --folder FOLDER",
        "finetune random gridworld-slope/alpha-0.2 --class gridworld-slope --member GWN --folder FOLDER",
        "metatrain gridworld-slope --preset quick --folder FOLDER",
        "reproduce slope-adverse --folder FOLDER",
    ],
)
def test_the_second_process_is_refused(words: str, tmp_path: Path, capsys) -> None:
    holder = (
        "from alphamepol.files.locks import folder_lock_held\nfrom pathlib import Path\n"
        f"with folder_lock_held(Path({str(tmp_path)!r})):\n"
    )
    process = subprocess.Popen([sys.executable, "-c", f"{holder} print(1, flush=True); input()"], stdin=-1, stdout=-1)
    assert process.stdout
    assert process.stdout.readline() == b"1\n"
    assert main(words.replace("FOLDER", str(tmp_path)).split()) == 2
    assert f"folder: another process is writing into {tmp_path}; wait for it" in capsys.readouterr().err
    process.kill()
    process.communicate()
    # The lock file that a killed process leaves does not stop another process.
    assert (tmp_path / LOCK).exists()
    with folder_lock_held(tmp_path):
        pass


def test_a_run_that_is_being_written_is_not_written_twice(tiny: PretrainConfig, tmp_path: Path, monkeypatch) -> None:
    from alphamepol.algorithms.alphamepol import run as module

    refused = []

    def meanwhile(*arguments):
        with pytest.raises(InputError, match="another process is writing"):
            pretrain("gridworld-slope", tiny, folder=tmp_path / "run", resume=True, quiet=True)
        refused.append(True)
        return run_epoch(*arguments)

    run_epoch = module.run_epoch
    monkeypatch.setattr(module, "run_epoch", meanwhile)
    pretrain("gridworld-slope", tiny, folder=tmp_path / "run", quiet=True)
    assert refused


def test_what_a_crash_left_at_once_is_no_run(tiny: PretrainConfig, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / LOCK).touch()
    (folder / ".config.json.123.alphamepol-tmp").write_text('{"comm')
    pretrain("gridworld-slope", dataclasses.replace(tiny, epochs=1), folder=folder, quiet=True)
    assert not list(folder.glob("*-tmp"))


def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    words = [sys.executable, "-m", "alphamepol", *SETTINGS.split(), "--folder", str(folder / "run")]
    if os.geteuid() == 0:  # root may write anywhere, unless setpriv of util-linux takes this right away
        words = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override", *words]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"alphamepol: {folder / 'run'}: Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_loses_nothing(whole: Path, tmp_path: Path) -> None:
    """Files may grow to a few kilobytes only, as on a disk that fills up. The resumed run has enough room."""
    folder = tmp_path / "run"
    small_disk = ["bash", "-c", "trap '' XFSZ; ulimit -f 6; exec \"$@\"", "bash"]
    words = [*small_disk, sys.executable, *PRETRAIN.words, str(folder)]
    # The run reads the programs that the `whole` run compiled. It must write none, because their files would be too
    # large.
    nothing_kept = os.environ | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1000000"}
    done = subprocess.run(words, env=nothing_kept, capture_output=True, text=True)
    assert done.returncode == 1
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "Traceback" not in done.stderr
    finish(start(PRETRAIN, folder, resume=True))
    assert differences(products(folder), products(whole)) == []


def test_an_interrupt_while_a_step_is_written_neither_loses_nor_doubles_it(tiny, tmp_path: Path, monkeypatch) -> None:
    slowly = dataclasses.replace(tiny, checkpoint_every=100)
    whole = pretrain("gridworld-slope", slowly, folder=tmp_path / "whole", quiet=True).folder
    log = JsonLinesLogger.log

    def interrupted(self, lines):
        log(self, lines)
        if lines[0]["epoch"] == 2 and not list(tmp_path.glob("run/checkpoints/*")):
            raise KeyboardInterrupt

    monkeypatch.setattr(JsonLinesLogger, "log", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pretrain("gridworld-slope", slowly, folder=tmp_path / "run", quiet=True)
    assert _lines(tmp_path / "run") == 3
    pretrain("gridworld-slope", slowly, folder=tmp_path / "run", resume=True, quiet=True)
    assert differences(products(tmp_path / "run"), products(whole)) == []


def test_a_signal_after_the_end_does_not_make_it_look_undone(monkeypatch) -> None:
    """Python takes a second to shut down. By then all files are written and all messages are shown."""
    from alphamepol import __main__ as entry

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr("alphamepol.compute.machine.keep_machine_compilation_cache", lambda: None)
    monkeypatch.setattr(sys, "argv", ["alphamepol", "--version"])
    try:
        with pytest.raises(SystemExit) as end:
            entry.command_line()
        assert end.value.code == 0
        for number in before:
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
