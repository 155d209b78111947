"""Test that signals end a command while the main thread waits for compiled work, or for a worker process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import wait_until_no_process_has

from alphamepol.cli.ending import INTERRUPTED, interrupted_sentence
from alphamepol.cli.main import main
from alphamepol.files.atomic import count_atomic_writes, write_atomically

ENDLESS = Path(__file__).parents[2] / "benchmarks/reliability/endless.py"
SMALL = "--horizon 20 --trajectories 12 --batch 2 --neighbours 8 --hidden 8 8 --max-off-policy-iterations 2".split()
LONGEST = 60
"""The seconds after which a test fails. Without the signal, the commands would not end at all."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interrupt(command: list[str], begun: Path, *numbers: signal.Signals) -> tuple[int, str, str]:
    """Start a command, send signals after `begun` exists, and return its status, output and error output.

    Worker processes inherit the error output. It ends only when all of them have ended.
    """
    # Progress bars are shown as in a terminal.
    environment = os.environ | {"FORCE_COLOR": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        Path("shown.txt").open("w") as shown,
        subprocess.Popen(
            [sys.executable, *command], stdout=shown, stderr=subprocess.PIPE, text=True, env=environment
        ) as process,
    ):
        try:
            while not begun.exists():
                assert process.poll() is None
                time.sleep(0.1)
            time.sleep(0.5)  # now the main thread waits
            for number in numbers:
                process.send_signal(number)
                time.sleep(0.1)
            _, errors = process.communicate(timeout=LONGEST)
        finally:
            process.kill()
    return process.returncode, Path("shown.txt").read_text(), errors


def test_check_ends_while_it_learns(elsewhere) -> None:
    command = [str(ENDLESS), "begun", "1", "check", "gridworld-slope", *SMALL, "--batches", "2", "--folder", "page"]
    status, shown, errors = interrupt(command, Path("begun"), signal.SIGINT, signal.SIGINT)
    assert status == INTERRUPTED
    assert errors == "alphamepol: interrupted; nothing was changed\n"
    assert {path.name for path in elsewhere.iterdir()} == {"begun", "shown.txt"}
    hidden, visible = "\x1b[?25l", "\x1b[?25h"
    assert hidden in shown
    assert shown.rfind(visible) > shown.rfind(hidden)


def test_pretraining_saves_the_finished_epochs_while_the_next_one_is_computed() -> None:
    words = ["pretrain", "gridworld-slope", *SMALL, "--preset", "quick", "--epochs", "4", "--evaluation-batches", "2"]
    words += ["--checkpoint-every", "100", "--folder", "run"]
    status, _, errors = interrupt([str(ENDLESS), "begun", "3", *words], Path("begun"), signal.SIGTERM)
    assert status == INTERRUPTED
    assert errors.startswith("alphamepol: interrupted; what is done is saved. Continue with: alphamepol pretrain")
    assert errors.endswith(" --folder run --resume\n")
    assert errors.count("\n") == 1
    assert [path.stem for path in Path("run/checkpoints").glob("*.json")] == ["epoch-000003"]
    assert not list(Path("run").rglob("*-tmp"))
    assert main([*words, "--resume"]) == 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2, 3]


STUCK = """
from functools import partial
from pathlib import Path

import alphamepol as am
from troubled import Troubled


def in_trial():
    Path("trouble").touch()
    return in_run()


def in_run():
    children = "fork", "session", "daemon"
    made = am.gymnasium_class({"one": partial(Troubled, "hang", "step", "trouble", children)}, workers=1)
    Path("trouble").touch()
    return made
"""


@pytest.mark.parametrize(("where", "number"), [("in_trial", signal.SIGINT), ("in_run", signal.SIGTERM)])
def test_a_worker_that_does_not_answer_is_ended(where, number, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ALPHAMEPOL_TEST_MARKER", str(tmp_path))
    Path("stuck.py").write_text(STUCK)
    command = ["check", f"stuck.py:{where}", *SMALL, "--batches", "2", "--folder", "page"]
    status, _, errors = interrupt([str(ENDLESS), "never", "1000", *command], Path("trouble-begun"), number)
    assert status == INTERRUPTED
    assert errors == "alphamepol: interrupted; nothing was changed\n"
    wait_until_no_process_has(str(tmp_path))


def test_the_sentence_says_if_some_files_were_written() -> None:
    before, words = count_atomic_writes(), ["evaluate", "run"]
    assert interrupted_sentence(words, resumable=False, before=before) == "interrupted; nothing was changed"
    write_atomically(Path("figure.csv"), "1\n")
    said = interrupted_sentence(words, resumable=False, before=before)
    assert said.startswith("interrupted; some files are written, and each of them is complete.")
    assert said.endswith(": alphamepol evaluate run")
