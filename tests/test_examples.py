"""Run a few epochs of the worked example of docs/environments.md."""

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
