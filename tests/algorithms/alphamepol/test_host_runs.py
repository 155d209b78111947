"""Test runs on classes of Gymnasium environments: from a file, with failure and resuming, fine-tuning and figures."""

import dataclasses
import json
import sys
from functools import partial

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from measured import measured
from toys import Walk

from alphamepol.algorithms.alphamepol import run as pretraining
from alphamepol.algorithms.alphamepol.run import pretrain
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.algorithms.finetuning.finetune import finetune
from alphamepol.algorithms.trpo.config import TrpoConfig
from alphamepol.cli.main import main
from alphamepol.environments.gymnasium.gymnasium_class import gymnasium_class
from alphamepol.environments.host import HostClass
from alphamepol.errors import InputError, RunError
from alphamepol.runs.sources import load_policy

MINE = """
from functools import partial
import alphamepol as am
from toys import Walk

def walks():
    bad = partial(Walk, (0.2, 0.0), trouble="nan", where="trouble")
    return am.gymnasium_class({"calm": partial(Walk, ends=0.01), "bad": bad}, [0.5, 0.5], workers=2)
"""
SETTINGS = (
    "--preset own --epochs 3 --horizon 32 --trajectories 8 --batch 2 --neighbours 6 --hidden 8 "
    "--max-off-policy-iterations 2 --evaluation-batches 2 --checkpoint-every 1 --memory last"
).split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a working folder that has a file of classes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "walking.py").write_text(MINE)
    return tmp_path


def test_a_run_that_an_environment_breaks_goes_on_to_the_same_bits(folder, monkeypatch, capsys):
    command = ["pretrain", "walking.py:walks", *SETTINGS]
    assert main([*command, "--folder", "whole"]) == 0

    def in_trouble(state, epoch, *more):
        if epoch == 2:
            (folder / "trouble").touch()
        return run_epoch(state, epoch, *more)

    run_epoch = pretraining.run_epoch
    assert main([*command, "--folder", "broken", "--epochs", "1"]) == 0
    monkeypatch.setattr(pretraining, "run_epoch", in_trouble)
    assert main([*command, "--folder", "broken", "--resume"]) == 1
    assert "environment bad: it gave an observation that is not finite" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    (folder / "trouble").unlink()
    assert main([*command, "--folder", "broken", "--resume"]) == 0
    policies = [load_policy(folder / name / "policy/seed-0.safetensors") for name in ("whole", "broken")]
    assert policies[0].scaling is not None
    assert eqx.tree_equal(*policies)

    # The run names its class. Later commands run this program only if it is given with --class.
    assert main(["evaluate", "whole", "random", "--batches", "2"]) == 2
    assert "runs this program; name it with --class walking.py:walks, or in Python" in capsys.readouterr().err
    # The spaces are in the run folder, so that exporting needs no program.
    assert main(["export", "whole", "--to", "sb3", "policy.zip"]) == 0
    assert main(["evaluate", "whole", "random", "--batches", "2", "--class", "walking.py:walks"]) == 0
    compared = json.loads((folder / "runs/evaluation-walks-whole-random/summary.json").read_text())
    assert {*compared["runs"]} == {"whole", "random"}
    assert compared["runs"]["random"]["units"] == compared["runs"]["whole"]["units"]
    for name in ("heat-maps", "trails"):
        assert (folder / f"runs/evaluation-walks-whole-random/figures/{name}.png").is_file()
    there = ["--class", "walking.py:walks", "--member", "calm"]
    tuned = ["finetune", "whole", "random", *there, "--iterations", "2", "--horizon", "32", "--steps", "64"]
    assert main([*tuned, "--memory", "last", "--hidden", "8", "--folder", "tuned"]) == 0
    summary = json.loads((folder / "tuned/summary.json").read_text())
    assert summary["tasks"] == ["the environment's own reward"]
    assert np.isfinite(summary["returns"]["whole"]).all()


def test_trajectories_too_short_for_k_are_said_to_be(tmp_path, tiny):
    config = dataclasses.replace(tiny, initial_mean="none", neighbours=20)
    brief = gymnasium_class({"long": Walk, "brief": partial(Walk, ends=0.5)}, workers=1)
    sentence = (
        r"epoch 0, seed 0, mini-batch \d+, environment brief: .* not more than k = 20 particles; use fewer --neigh"
    )
    with pytest.raises(RunError, match=sentence):
        pretrain(brief, config, folder=tmp_path / "run", quiet=True)


def test_a_horizon_beyond_the_time_limit_is_refused(tmp_path, tiny):
    limited = gymnasium_class({"pendulum": partial(gymnasium.make, "Pendulum-v1")})
    config = dataclasses.replace(tiny, initial_mean="none", horizon=201)
    sentence = "horizon: 201 was given, but pendulum cuts episodes after 200 steps; give at most that many, or make the"
    with pytest.raises(InputError, match=sentence):
        pretrain(limited, config, folder=tmp_path / "run")
    with pytest.raises(InputError, match="horizon: 400 was given"):
        finetune("random", "pendulum", TrpoConfig(), environment_class=limited, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ceilings_are_in_the_units_of_the_entropies(tiny):
    config = dataclasses.replace(tiny, initial_mean="none", normalise=True, evaluation_batches=1)
    walks = gymnasium_class({"a": Walk}, workers=1)
    known = HostClass({"a": dataclasses.replace(walks[0], ceiling=2.0)}, walks.fleet)
    policy = start_pretraining(known, config).learners.policy
    one = eqx.tree_at(lambda policy: policy.scaling.particle_deviation, policy, jnp.array([[2.0, 0.25]]))
    evaluation = measured(jax.tree.map(lambda leaf: leaf[0], one), known, config)
    assert evaluation.ceilings == pytest.approx((2.0 + np.log(2.0),))
    assert evaluation.units == (2.0, 0.25)
