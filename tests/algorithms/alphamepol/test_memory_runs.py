"""Test runs of policies with memory: pre-training, resuming, comparison, fine-tuning and export."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from measured import measured
from stable_baselines3 import PPO

from alphamepol import (
    CMP,
    EnvironmentClass,
    Gridworld,
    HalfSpace,
    InputError,
    MemoryObservation,
    TrpoConfig,
    export,
    finetune,
    load_policy,
    pretrain,
)
from alphamepol.algorithms.alphamepol import run as pretrain_module
from alphamepol.cli.main import main
from alphamepol.compute.stopwatch import LEARNING, NEIGHBOURS, SAMPLING, Stopwatch
from alphamepol.measuring.samples import SamplePlan

RESULTS = Path(__file__).parents[3] / "results"
FINETUNING = TrpoConfig(
    goals=(-0.75, 0.75, -0.6, 0.6),
    iterations=2,
    horizon=10,
    steps=100,
    hidden=(8,),
    critic_hidden=(8,),
    critic_batch=32,
    goal_radius=0.2,
)


@pytest.fixture(scope="module", params=["last", "recurrent"])
def run(request, tiny, tmp_path_factory):
    config = dataclasses.replace(tiny, epochs=2, memory=request.param, recurrent_units=6)
    folder = tmp_path_factory.mktemp("memory") / request.param
    return pretrain("gridworld-slope", config, folder=folder, quiet=True)


def config_of(run, tiny):
    return dataclasses.replace(tiny, epochs=2, memory=run.summary["memory"], recurrent_units=6)


def test_the_run_says_what_its_policies_remember(run) -> None:
    kind = run.summary["memory"]
    assert run.policies[0].memory.kind == kind
    # Scales are measured before epoch 0 and in two epochs, on all steps but the first of each trajectory.
    assert float(run.policies[0].memory.measured_steps) == 3 * 12 * 19
    assert (np.asarray(run.policies[0].memory.change_scale) < 0.5).all()
    assert f"αMEPOL (0.5), memory {kind}" in (run.folder / "figures/heat-maps.csv").read_text()


def test_an_epoch_moves_what_is_learned_and_compiles_nothing_for_the_next(run, tiny) -> None:
    environment_class = pretrain_module.make_class("gridworld-slope")
    config = config_of(run, tiny)
    before = pretrain_module.start_pretraining(environment_class, config)
    stopwatch = Stopwatch(SAMPLING, NEIGHBOURS, LEARNING)
    plan = SamplePlan.of(environment_class, config, config.seed_list)
    after, *_ = pretrain_module.run_epoch(before, 0, plan, config, stopwatch)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    types = [[str(leaf.aval) for leaf in jax.tree.leaves(state.learners)] for state in (before, after)]
    assert types[0] == types[1]
    first, last = before.learners.policy, after.learners.policy
    assert not np.array_equal(first.layers[0].weight, last.layers[0].weight)
    np.testing.assert_array_equal(first.memory.action_scale, last.memory.action_scale)
    if last.memory.recurrence is not None:
        assert not np.array_equal(first.memory.recurrence.weight_hh, last.memory.recurrence.weight_hh)


def test_an_interrupted_run_goes_on_to_the_same_bits(run, tiny, tmp_path, monkeypatch) -> None:
    run_epoch = pretrain_module.run_epoch

    def interrupted(state, epoch, *others):
        if epoch == 1:
            raise KeyboardInterrupt
        return run_epoch(state, epoch, *others)

    config = config_of(run, tiny)
    pretrain("gridworld-slope", dataclasses.replace(config, epochs=1), folder=tmp_path / "run", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr(pretrain_module, "run_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pretrain("gridworld-slope", config, folder=tmp_path / "run", resume=True, quiet=True)
    pretrain("gridworld-slope", config, folder=tmp_path / "run", resume=True, quiet=True)
    name = "policy/seed-0.safetensors"
    assert (tmp_path / "run" / name).read_bytes() == (run.folder / name).read_bytes()


def test_it_fine_tunes_with_what_it_remembers(run, tmp_path) -> None:
    kind = run.summary["memory"]
    tuned = finetune(str(run.folder), "GWN", FINETUNING, folder=tmp_path / "tuned", quiet=True)
    assert (tuned.summary["memory"], tuned.label) == (kind, f"αMEPOL (0.5), memory {kind}")
    policy = tuned.load_policy(0)
    assert policy.memory.kind == kind
    # The scales are those of pre-training. The learned parameters have changed, in the memory too.
    np.testing.assert_array_equal(policy.memory.change_scale, run.policies[0].memory.change_scale)
    assert not np.array_equal(policy.layers[0].weight, run.policies[0].layers[0].weight)
    if kind == "recurrent":
        assert not np.array_equal(policy.memory.recurrence.weight_hh, run.policies[0].memory.recurrence.weight_hh)


def test_random_can_have_memory_too(tmp_path) -> None:
    config = dataclasses.replace(FINETUNING, memory="last")
    run = finetune("random", "GWN", config, environment_class="gridworld-slope", folder=tmp_path, quiet=True)
    assert (run.label, run.summary["memory"]) == ("Random, memory last", "last")
    assert float(run.load_policy(1).memory.measured_steps) == 10 * 9


@pytest.fixture(scope="module")
def plain(tiny, tmp_path_factory):
    """Return a run without memory, with other settings."""
    other = dataclasses.replace(tiny, epochs=1, horizon=30, alpha=0.25, feature_noise=0.01, probabilities=(0.0, 1.0))
    return pretrain("gridworld-slope", other, folder=tmp_path_factory.mktemp("plain") / "plain", quiet=True)


def test_runs_are_measured_alike_and_shown_side_by_side(run, plain, tmp_path, capsys) -> None:
    """Evaluate a run, its own policy as a file, and a run with other settings.

    The settings of the first run count for all, but with the smallest α of the runs.
    """
    kind, folder = run.summary["memory"], tmp_path / "all"
    sources = [str(path) for path in (run.folder, run.folder / "policy/seed-0.safetensors", plain.folder)]
    assert main(["evaluate", *sources, "--batches", "3", "--folder", str(folder)]) == 0
    assert "GWN (p = 0.2)" in capsys.readouterr().out
    found = json.loads((folder / "summary.json").read_text())["runs"]
    assert {name: summary["memory"] for name, summary in found.items()} == {kind: kind, "seed-0": kind, "plain": "none"}
    assert found[kind]["entropy"] == found["seed-0"]["entropy"]
    assert {summary["alpha"] for summary in found.values()} == {0.25}
    assert found["plain"]["probabilities"] == [0.8, 0.2]
    with (folder / "figures/heat-maps.csv").open() as file:
        labels = {line["method"] for line in csv.DictReader(file)}
    assert labels == {f"αMEPOL (0.5), memory {kind}", f"seed-0, memory {kind}", "αMEPOL (0.25)"}
    assert (folder / "figures/heat-maps.png").stat().st_size > 1000


def test_another_alpha_is_no_other_method(plain, tmp_path) -> None:
    assert main(["evaluate", str(plain.folder), "--alpha", "1", "--batches", "3", "--folder", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "summary.json").read_text())["method"] == "alphamepol"


def test_memory_is_for_random_alone(run, tmp_path, capsys) -> None:
    assert main(["finetune", str(run.folder), "--member", "GWN", "--memory", "last"]) == 2
    assert "memory: last was given; it is only for the initial policy random" in capsys.readouterr().err


def test_policies_of_several_kinds_are_not_evaluated_together(run, tiny) -> None:
    plain = load_policy("gridworld-slope/alpha-1")
    with pytest.raises(InputError, match="policies: they differ in architecture"):
        measured({0: run.policies[0], 1: plain}, "gridworld-slope", tiny)


def test_export_to_stable_baselines(run, tmp_path) -> None:
    """A policy with memory `last` acts in the wrapped environment as it does here. A policy with a GRU is refused."""
    out = tmp_path / "policy.zip"
    if run.summary["memory"] == "recurrent":
        with pytest.raises(InputError, match="Stable-Baselines3 has no policy with a GRU"):
            export(run.folder, out, "sb3")
        assert not out.exists()
        return
    export(run.folder, out, "sb3")
    policy = load_policy(out)
    assert all(map(np.array_equal, jax.tree.leaves(policy), jax.tree.leaves(run.policies[0])))
    env = MemoryObservation(gymnasium.make("alphamepol/GWN-Goal-v0", goal=(0.7, -0.7), horizon=30), policy)
    model = PPO.load(out, env=env, n_steps=32, batch_size=32)
    observation, recollection = env.reset(seed=0)[0], policy.begin()
    for _ in range(4):
        action, _ = model.predict(observation, deterministic=True)
        expected = np.clip(policy.mean(observation[:2], recollection), -0.2, 0.2)
        np.testing.assert_allclose(action, expected, rtol=1e-4, atol=1e-5)
        recollection = policy.memory.remember(observation[:2], jnp.asarray(action), jnp.zeros(0))
        observation = env.step(action)[0]
    model.learn(32)
    model.save(tmp_path / "tuned.zip")
    tuned = load_policy(tmp_path / "tuned.zip")
    np.testing.assert_array_equal(tuned.memory.change_scale, policy.memory.change_scale)
    assert not np.array_equal(tuned.layers[0].weight, policy.layers[0].weight)


class Line(CMP):
    """A line without known ends. A step goes left or right by `stride`, plus noise."""

    stride: Array

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def entropy_ceiling(self) -> float:
        return math.inf

    def reset(self, *, key):
        return jax.random.normal(key, (1,))

    def step(self, state, action, *, key):
        return state + self.stride * (2.0 * action - 1.0) + jax.random.normal(key, (1,))

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return jnp.array(False)


def test_what_has_no_range_is_measured(tiny, tmp_path) -> None:
    mine = EnvironmentClass({"short": Line(jnp.array(30.0)), "long": Line(jnp.array(50.0))}, name="line")
    config = dataclasses.replace(tiny, epochs=2, memory="recurrent", recurrent_units=4, initial_mean="none")
    run = pretrain(mine, config, folder=tmp_path / "run", quiet=True)
    memory = run.policies[0].memory
    assert 30 < float(memory.change_scale[0]) < 50
    np.testing.assert_array_equal(memory.action_scale, 1.0)
    config = dataclasses.replace(FINETUNING, goals=())
    far = [HalfSpace((1.0,), 40.0)]
    tuned = finetune(
        run.policies[0], "short", config, environment_class=mine, tasks=far, folder=tmp_path / "tuned", quiet=True
    )
    assert not np.array_equal(tuned.load_policy(0).memory.recurrence.weight_ih, memory.recurrence.weight_ih)


class Strong(Gridworld):
    """A gridworld that allows larger actions."""

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-0.5, 0.5, (2,), np.float32)


def test_a_memory_of_other_actions_is_refused(run, tmp_path) -> None:
    strong = EnvironmentClass({"one": Strong("..\n..")}, name="strong")
    with pytest.raises(InputError, match="it remembers actions within"):
        finetune(run.policies[0], "one", FINETUNING, environment_class=strong, folder=tmp_path, quiet=True)
