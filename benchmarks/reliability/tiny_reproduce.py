"""Run `alphamepol reproduce` with even smaller miniatures: `python tiny_reproduce.py FOLDER`."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tests/support"))
from miniatures import shrink

from alphamepol.__main__ import command_line

often = {"checkpoint_every": 5}
shrink(pytest.MonkeyPatch(), {"epochs": 40, "coinciding": "noise", **often}, {"iterations": 30, **often})
sys.argv = ["alphamepol", "reproduce", "slope-finetune", "--folder", sys.argv[1]]
command_line()
