"""Test the page beside a training: it is there while the run trains, and never harms it."""

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from processes import processes_with_marker, wait_until_no_process_has

import alphamepol as am
from alphamepol.algorithms.alphamepol.start import folder_of_pretraining
from alphamepol.cli.main import main
from alphamepol.watching import beside_training
from alphamepol.watching.beside_training import watching_while_training

SHORT = "--epochs 2 --horizon 10 --trajectories 8 --batch 2 --neighbours 4 --hidden 8 --initial-mean none --seeds 1"
OPTIONS = [*SHORT.split(), "--max-off-policy-iterations", "1", "--evaluation-batches", "2", "--log", "none"]


def test_the_page_is_served_until_the_end(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MARKER_OF_PAGE", str(tmp_path))
    said: list[str] = []
    with watching_while_training(tmp_path / "later", said.append, "gridworld-slope"):
        (address,) = re.findall("http://[^ ]*", said[0])
        with urllib.request.urlopen(f"{address}news", timeout=60) as answer:
            assert answer.read().startswith(b'{"runs":[]')
        assert processes_with_marker(str(tmp_path))
    assert not (tmp_path / "later").exists()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}news", timeout=60)
    wait_until_no_process_has(str(tmp_path))


def test_a_page_that_cannot_be_served_lets_the_run_train(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(beside_training, "__name__", "alphamepol.no_such_module")
    said, trained = [], False
    with watching_while_training(tmp_path, said.append, "gridworld-slope"):
        trained = True
    assert trained
    assert "there is no page of this run, but it trains" in said[0]


def test_the_bits_of_a_run_do_not_change(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for name, more in (("plain", []), ("watched", ["--watch"])):
        assert main(["pretrain", "gridworld-slope", *OPTIONS, "--folder", name, *more]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert ("the page of this run is at http://127.0.0.1:" in shown) == bool(more)
    for file in ("policy/seed-0.safetensors", "evaluation.safetensors"):
        assert (tmp_path / "plain" / file).read_bytes() == (tmp_path / "watched" / file).read_bytes()


def test_the_folder_is_that_of_the_run() -> None:
    config = am.PretrainConfig(seed=3, alpha=0.5)
    assert folder_of_pretraining("own.py:made", config) == Path("runs/made-alpha-0.5-seed-3")
    from_released = folder_of_pretraining("gridworld-slope", config, "gridworld-slope/alpha-0.2")
    assert from_released == Path("runs/gridworld-slope-alpha-0.5-seed-3-from-alpha-0.2")
