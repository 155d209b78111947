"""Test the demo. It runs both methods and makes a table and a picture. A second call only shows them again."""

import dataclasses

import pytest
from public_examples import example_of

from alphamepol import InputError
from alphamepol.cli.main import main
from alphamepol.measuring.evaluation_files import load_evaluation, save_evaluation
from alphamepol.reproduction import demo


def test_demo_runs_and_shows_again(tiny, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "preset", lambda *_: tiny)
    monkeypatch.chdir(tmp_path)
    example = example_of("demo")
    assert example
    exec(example)
    first = capsys.readouterr().out
    assert "αMEPOL (0.2)" in first
    assert "GWN (p = 0.2)" in first
    assert (tmp_path / "runs/demo/demo.png").stat().st_size > 1000
    assert (tmp_path / "runs/demo/mepol/summary.json").exists()
    exec(example)
    again = capsys.readouterr().out
    assert "epoch" not in again
    assert first.splitlines()[-12:] == again.splitlines()[-12:]


def test_edited_evaluations_give_no_traceback(tiny, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "preset", lambda *_: tiny)
    demo.demo(tmp_path / "demo")
    path = tmp_path / "demo/alphamepol/evaluation.safetensors"
    whole = load_evaluation(path)
    report = ["report", str(path.parent), "--out", str(tmp_path / "page.html")]
    save_evaluation(dataclasses.replace(whole, trails=None), path)
    assert main(report) == 0
    assert "<canvas" not in (tmp_path / "page.html").read_text()
    save_evaluation(dataclasses.replace(whole, members=("GWS", "other")), path)
    assert main(report) == 2
    assert "evaluation.safetensors has other members than summary.json" in capsys.readouterr().err
    with pytest.raises(InputError, match="is not an evaluation of gridworld-slope"):
        demo.demo(tmp_path / "demo")
