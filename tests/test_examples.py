"""Run a few epochs of the worked examples of docs/environments.md and docs/mujoco.md."""

import json
from pathlib import Path

from alphamepol.cli.main import main

ROOT = Path(__file__).parents[1]


def test_pendulums(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = f"{ROOT}/examples/pendulums.py:pendulums"
    few = (
        "--epochs 3 --horizon 40 --trajectories 12 --batch 2 --neighbours 10 --hidden 16 --evaluation-batches 2".split()
    )
    assert main(["pretrain", example, *few, "--alpha", "0.5"]) == 0
    run = tmp_path / "runs/pendulums-alpha-0.5-seed-0"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["members"] == ["light", "usual", "heavy"]
    assert len(summary["units"]) == 2
    assert json.loads((run / "config.json").read_text())["class"] == example
    assert {path.stem for path in (run / "figures").glob("*.png")} >= {"heat-maps", "learning-curves"}


def test_cheetahs(tmp_path, monkeypatch, capsys):
    """Train, evaluate and fine-tune on a class of MuJoCo models, from the command line."""
    monkeypatch.chdir(tmp_path)
    example = f"{ROOT}/examples/cheetahs.py:cheetahs"
    few = "--epochs 2 --horizon 30 --trajectories 8 --batch 2 --neighbours 5 --hidden 16 --evaluation-batches 2".split()
    assert main(["pretrain", example, *few, "--physics", "cpu", "--folder", "run"]) == 0
    assert "MuJoCo steps the simulations on " in capsys.readouterr().out
    versions = json.loads(Path("run/config.json").read_text())["versions"]
    assert {"mujoco", "gymnasium"} <= versions.keys()
    assert json.loads(Path("run/class.json").read_text())["entropy_names"] == ["x", "height"]
    assert main(["evaluate", "run", "random", "--class", example, "--batches", "2", "--folder", "seen"]) == 0
    assert (tmp_path / "seen/figures/heat-maps.png").is_file()
    assert main(["check", example, *few, "--batches", "2", "--folder", "checked"]) == 0
    assert (tmp_path / "checked/check.html").is_file()
    tuning = "--member ice --iterations 2 --horizon 30 --steps 60 --folder tuned".split()
    assert main(["finetune", "run", "--class", example, *tuning]) == 0
    assert json.loads(Path("tuned/summary.json").read_text())["tasks"] == ["run"]
    assert main(["pretrain", "gridworld-slope", "--physics", "gpu", "--folder", "none"]) == 2
    assert "only classes of MuJoCo models have an engine to choose" in capsys.readouterr().err
