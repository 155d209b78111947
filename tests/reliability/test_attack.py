"""The short version of the attack with hostile files: no command crashes, hangs, leaks, or runs a program.

The attack needs a process whose JAX backend has not started, so that the campaign itself is run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INPUTS = 110


def test_hostile_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    out = tmp_path / "attack.json"
    words = [sys.executable, "-m", "benchmarks.reliability.hostile", str(out), "--inputs", str(INPUTS)]
    options = "--first 0 --processes 1 --runs slope --seed 1".split()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run([*words, *options], env=environment, capture_output=True, text=True)
    found = json.loads(out.read_text()) if out.exists() else {}
    assert found.get("failures") == [], done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    assert found["totals"]["inputs"] == INPUTS
    assert len(found["commands"]) > 10
    assert {"status 0", "status 2", "read, before the work"} <= found["outcomes"].keys()
