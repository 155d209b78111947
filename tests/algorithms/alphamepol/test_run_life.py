"""Test the life of a run: it is used before its end, continued and forked, and survives coinciding particles."""

import dataclasses
import json
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import Walk

from alphamepol import (
    EnvironmentClass,
    FinishedStep,
    Gridworld,
    InputError,
    PretrainConfig,
    RunError,
    gymnasium_class,
    load_policy,
    make,
    preset,
    pretrain,
)
from alphamepol.algorithms.alphamepol import run as pretrain_module
from alphamepol.algorithms.alphamepol.start import start_pretraining
from alphamepol.cli.main import main
from alphamepol.environments.registry import registered_class_names
from alphamepol.measuring.particles import class_particle_units
from alphamepol.runs.metrics import read_metrics

OPTIONS = (
    "--alpha 0.5 --epochs 4 --horizon 20 --trajectories 12 --batch 2 --neighbours 8 --learning-rate 1e-3 --hidden 8 8 "
    "--max-off-policy-iterations 3 --evaluation-batches 4 --checkpoint-every 1 --initial-mean none --seeds 1"
).split()
STUCK = """
import jax.numpy as jnp
import alphamepol as am

class Stuck(am.Gridworld):
    def step(self, state, action, *, key):
        return jnp.zeros(2)

def stuck():
    return am.EnvironmentClass({"hole": Stuck("..\\n..")}, name="stuck")
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """Return the folder of a run that was interrupted after three of four epochs."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    run_epoch = pretrain_module.run_epoch

    def interrupted(state, epoch, *others):
        if epoch == 3:
            raise KeyboardInterrupt
        return run_epoch(state, epoch, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain_module, "run_epoch", interrupted)
        assert main(["pretrain", "gridworld-slope", *OPTIONS, "--folder", str(folder)]) == 130
    return folder


def test_a_run_is_used_before_it_has_ended(stopped, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(stopped), "--batches", "4"]) == 0
    assert "using the checkpoint after epoch 3 of 4" in capsys.readouterr().err
    assert json.loads((stopped / "evaluation-gridworld-slope/summary.json").read_text())["checkpoint"] == 3
    assert main(["export", str(stopped), "--to", "safetensors", "old.safetensors", "--checkpoint", "2"]) == 0
    assert "using the checkpoint after epoch 2 of 4" in capsys.readouterr().err
    with pytest.warns(UserWarning, match="has not ended; its policy after epoch 3 is read"):
        newest = load_policy(stopped)
    older = load_policy(stopped, checkpoint=2)
    assert eqx.tree_equal(load_policy("old.safetensors"), older)
    assert not eqx.tree_equal(newest, older)
    assert main(["report", str(stopped), "--out", "report.html"]) == 0
    assert "3 of 4 epochs" in Path("report.html").read_text()
    assert main(["evaluate", str(stopped), "--checkpoint", "1"]) == 2
    assert "has checkpoints after epoch 2, 3; --keep-checkpoints of the run says how many" in capsys.readouterr().err
    assert main(["evaluate", "gridworld-slope/alpha-1", "--checkpoint", "1"]) == 2
    assert "checkpoint: 1 was given, but no run folder" in capsys.readouterr().err


def test_fine_tuning_from_a_checkpoint_goes_on_after_the_checkpoint_is_gone(stopped, tmp_path, capsys) -> None:
    folder, copy = tmp_path / "tuned", tmp_path / "run"
    copy.mkdir()
    for path in stopped.rglob("*"):
        if path.is_file() and "evaluation" not in str(path):
            (copy / path.relative_to(stopped)).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(stopped)).write_bytes(path.read_bytes())
    command = ["finetune", str(copy), "--member", "GWN", "--tasks", "1", "--iterations", "2", "--horizon", "20"]
    command += ["--steps", "100", "--critic-hidden", "8", "--folder", str(folder)]
    assert main(command) == 0
    assert json.loads((folder / "config.json").read_text())["init_checkpoint"] == 3
    for path in copy.glob("checkpoints/epoch-000003*"):
        path.unlink()
    command[command.index("--iterations") + 1] = "3"
    assert main([*command, "--resume"]) == 0
    assert len(json.loads((folder / "summary.json").read_text())["returns"][0]) == 3
    assert "using the checkpoint after epoch 3 of 4" in capsys.readouterr().err


def test_settings_that_may_change_are_named(stopped, tmp_path, capsys) -> None:
    assert main(["pretrain", "gridworld-slope", *OPTIONS, "--folder", str(stopped), "--resume", "--batch", "3"]) == 2
    sentence = (
        "holds a run with another batch: 2, not 3; resume it as it was, but for more --epochs, another "
        "--checkpoint-every, another --keep-checkpoints, another --coinciding, or choose another --folder"
    )
    assert sentence in capsys.readouterr().err


def test_a_finished_run_without_checkpoints_says_how_to_go_on(tiny, tmp_path) -> None:
    config = dataclasses.replace(tiny, epochs=1)
    run = pretrain("gridworld-slope", config, folder=tmp_path / "run", log="none", quiet=True)
    assert not (run.folder / "tensorboard").exists()
    for path in (run.folder / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"checkpoints were not kept.*begin a new run from its policy with --init"):
        pretrain("gridworld-slope", tiny, folder=run.folder, resume=True, quiet=True)
    assert (run.folder / "summary.json").is_file()


def test_a_run_forks_from_a_policy_with_another_class_and_alpha(stopped, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    options = [*OPTIONS, "--alpha", "1", "--epochs", "1", "--seeds", "2"]
    command = ["pretrain", "gridworld-counterexample", *options, "--init", str(stopped)]
    assert main([*command, "--memory", "last", "--hidden", "5"]) == 0
    assert "using the checkpoint after epoch 3 of 4" in capsys.readouterr().err
    folder = Path("runs/gridworld-counterexample-alpha-1-seed-0-from-run")
    described = json.loads((folder / "config.json").read_text())
    assert described["init"] == str(stopped)
    assert described["init_checkpoint"] == 3
    assert (described["config"]["memory"], described["config"]["hidden"]) == ("none", [8, 8])
    given = load_policy(stopped, checkpoint=3)
    config = PretrainConfig(seeds=2, hidden=(8, 8))
    start = start_pretraining(make("gridworld-counterexample"), config, {0: given}).learners.policy
    assert all(np.array_equal(mine[1], its) for mine, its in zip(*map(jax.tree.leaves, (start, given)), strict=True))
    with pytest.raises(InputError, match="init gridworld-slope/alpha-1: it is gaussian"):
        pretrain("minigrid", init="gridworld-slope/alpha-1", folder="no", quiet=True)
    with pytest.raises(InputError, match="init: random was given; leave out --init"):
        pretrain("multigrid", init="random", folder="no", quiet=True)


def test_particles_that_coincide_do_not_end_a_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("holes.py").write_text(STUCK)
    options = [*OPTIONS, "--epochs", "2"]
    command = ["pretrain", "holes.py:stuck", *options]
    assert main([*command, "--coinciding", "stop", "--folder", "later"]) == 1
    assert "continue with --resume --coinciding noise" in capsys.readouterr().err
    assert main([*command, "--coinciding", "noise", "--folder", "later", "--resume"]) == 0
    assert "noise of 0.001 particle units is added to all particles from then on" in capsys.readouterr().out
    assert main([*command, "--folder", "whole"]) == 0  # noise is the default of the preset own
    name = "policy/seed-0.safetensors"
    assert Path("later", name).read_bytes() == Path("whole", name).read_bytes()
    summary = json.loads(Path("whole/summary.json").read_text())
    assert (summary["feature_noise"], summary["feature_noise_since"]) == (0.001, 0)
    assert {line["feature_noise"] for line in read_metrics(Path("whole/metrics.jsonl"))} == {0.001}
    assert main(["evaluate", "whole", "random", "--class", "holes.py:stuck", "--batches", "4", "--folder", "seen"]) == 0
    seen = json.loads(Path("seen/summary.json").read_text())["runs"]
    assert seen["whole"]["feature_noise"] == seen["random"]["feature_noise"] == 0.001
    assert seen["whole"]["entropy"] == summary["entropy"]


class Still(Gridworld):
    """A gridworld in which the agent stands still after an action that is far too large."""

    def step(self, state, action, *, key):
        return jnp.where(jnp.any(action > 50), jnp.zeros(2), super().step(state, action, key=key))


def test_noise_begins_in_the_epoch_in_which_particles_coincide(tiny, tmp_path, monkeypatch) -> None:
    """From epoch 2 on, the policy takes actions that are far too large."""
    mine = EnvironmentClass({"still": Still("..\n..")}, name="still")
    config = dataclasses.replace(tiny, coinciding="noise", initial_mean="none")
    run_epoch = pretrain_module.run_epoch

    def paralysing(state, epoch, *others):
        if epoch == 2:
            where = lambda state: state.learners.policy.layers[-1].bias  # noqa: E731
            state = eqx.tree_at(where, state, where(state) + 100)
        return run_epoch(state, epoch, *others)

    monkeypatch.setattr(pretrain_module, "run_epoch", paralysing)
    run = pretrain(mine, config, folder=tmp_path / "run", quiet=True)
    noises = [line.get("feature_noise") for line in read_metrics(run.folder / "metrics.jsonl")]
    assert noises == [None, None, 0.001, 0.001]
    assert run.summary["feature_noise_since"] == 2


def test_a_callback_sees_every_epoch_and_stops_the_run(tiny, tmp_path) -> None:
    seen: list[FinishedStep] = []

    def watch(step: FinishedStep) -> None:
        seen.append(step)
        if step.number == 1:
            step.stop()

    run = pretrain("gridworld-slope", tiny, folder=tmp_path / "run", callbacks=[watch], quiet=True)
    assert [step.number for step in seen] == [0, 1]
    assert seen[1].metrics == list(read_metrics(run.folder / "metrics.jsonl"))[1:]
    assert run.summary["epochs"] == 2
    whole = pretrain("gridworld-slope", tiny, folder=tmp_path / "whole", quiet=True)
    longer = pretrain("gridworld-slope", tiny, folder=run.folder, resume=True, quiet=True)
    name = "policy/seed-0.safetensors"
    assert (longer.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_callback_that_fails_loses_nothing(tiny, tmp_path) -> None:
    def failing(step: FinishedStep) -> None:
        if step.number == 2:
            raise ZeroDivisionError("by zero")

    with pytest.raises(RunError, match=r"epoch 2: the callback failing failed \(ZeroDivisionError: by zero\)"):
        pretrain("gridworld-slope", tiny, folder=tmp_path / "run", callbacks=[failing], quiet=True)
    assert (tmp_path / "run/checkpoints/epoch-000003.json").is_file()


def test_metrics_go_to_wandb_without_a_network(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = pretrain("gridworld-slope", tiny, folder=tmp_path / "run", log="wandb", quiet=True)
    (record,) = run.folder.glob("wandb/offline-run-*/*.wandb")
    content = record.read_bytes()
    assert content.count(b"objective_after/seed-0") >= tiny.epochs
    assert b"visits/GW" in content
    assert not (run.folder / "tensorboard").exists()


def test_the_best_policy_is_the_one_that_sampled_the_highest_objective(tiny, tmp_path) -> None:
    config = dataclasses.replace(tiny, keep_checkpoints="all", checkpoint_every=1, learning_rate=0.05)
    run = pretrain("gridworld-slope", config, folder=tmp_path / "run", quiet=True)
    objectives = [line["objective"] for line in read_metrics(run.folder / "metrics.jsonl")]
    best = int(np.argmax(objectives))
    assert best > 0
    assert run.summary["best_epoch"] == [best]
    assert run.summary["best_objective"] == [max(objectives)]
    kept = load_policy(run.folder / "policy/best-seed-0.safetensors")
    assert eqx.tree_equal(kept, load_policy(run.folder, checkpoint=best))


def test_units_belong_to_the_class(tiny) -> None:
    """Under uniformly random actions, the particles of a walk without drift have equal deviations in x and y."""
    walks = gymnasium_class({"a": Walk, "b": Walk}, workers=1)
    units = class_particle_units(walks, tiny)
    for change in ({"memory": "last"}, {"batch": 3, "horizon": 10, "hidden": (4,), "seed": 9, "alpha": 1.0}):
        config = dataclasses.replace(tiny, initial_mean="none", normalise=True, **change)
        policy = start_pretraining(walks, config).learners.policy
        np.testing.assert_array_equal(policy.scaling.particle_deviation[0], units)


class Mirror(Gridworld):
    """A gridworld whose particle is the last action."""

    def step(self, state, action, *, key):
        return action


def test_units_are_the_deviation_under_uniform_actions() -> None:
    mine = EnvironmentClass({"mirror": Mirror("..\n..")}, name="mirror")
    half = (mine[0].action_space.high - mine[0].action_space.low) / 2
    np.testing.assert_allclose(class_particle_units(mine, PretrainConfig()), half / np.sqrt(3), rtol=0.03)


@pytest.mark.parametrize("name", [*registered_class_names(), "mine.py:cars"])
def test_a_preset_is_the_same_in_python_and_on_the_command_line(name: str, monkeypatch) -> None:
    asked = {}
    monkeypatch.setattr(
        pretrain_module, "pretrain", lambda name, config, **options: asked.update(config=config) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        main(["pretrain", name, "--preset", "quick"])
    assert asked["config"] == preset("quick", name)
    if name == "mine.py:cars":
        assert asked["config"] == preset("quick")
