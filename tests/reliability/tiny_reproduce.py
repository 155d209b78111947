"""`alphamepol reproduce` with miniatures of the miniatures: `python tiny_reproduce.py FOLDER`."""

import sys

from alphamepol.__main__ import command_line
from alphamepol.experiments import scale
from alphamepol.runs import presets

SMALL = {"epochs": 40, "trajectories": 20, "horizon": 15, "neighbours": 3, "hidden": (8, 8), "learning_rate": 1e-4}
FINETUNING = {"iterations": 30, "horizon": 15, "steps": 60, "tasks": 3, "hidden": (8, 8), "seeds": 2}

presets._QUICK = SMALL | {"evaluation_batches": 2, "seeds": 1, "feature_noise": 0.01, "checkpoint_every": 5}
scale._QUICK_FINETUNING = FINETUNING | {"critic_hidden": (4,), "critic_passes": 1, "checkpoint_every": 5}
sys.argv = ["alphamepol", "reproduce", "slope-finetune", "--folder", sys.argv[1]]
command_line()
