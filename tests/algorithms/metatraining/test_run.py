"""Test meta-training as a user sees it: the folders, the numbers, resuming, and fine-tuning from its policies."""

import dataclasses
import json
import math

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol import (
    CMP,
    EnvironmentClass,
    InputError,
    MetatrainConfig,
    RewardFunction,
    RunError,
    SquashedPolicy,
    TrpoConfig,
    evaluate,
    export,
    finetune,
    load_policy,
    make,
    metatrain,
)
from alphamepol.algorithms.diayn import run as diayn_module
from alphamepol.algorithms.maml import run as maml_module
from alphamepol.algorithms.maml.iteration import start_maml_iterations
from alphamepol.algorithms.metatraining.presets import metatraining_preset
from alphamepol.environments.member_tasks import GoalTasks
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.sources import read_source
from alphamepol.settings.conversion import settings_from_dict, settings_to_dict

TINY = MetatrainConfig(
    iterations=4,
    tasks=3,
    trajectories=4,
    horizon=15,
    goal_radius=0.5,
    epochs=4,
    steps=20,
    skills=3,
    batch=8,
    environments=5,
    warm_up=10,
    replay=60,
    hidden=(8, 8),
    seeds=2,
    seed=3,
    checkpoint_every=2,
)
DIAYN = dataclasses.replace(TINY, method="diayn", checkpoint_every=1, epochs=20)


@pytest.fixture(scope="module")
def maml(tmp_path_factory):
    return metatrain("gridworld-slope", TINY, folder=tmp_path_factory.mktemp("maml") / "run", quiet=True)


@pytest.fixture(scope="module")
def diayn(tmp_path_factory):
    return metatrain("gridworld-slope", DIAYN, folder=tmp_path_factory.mktemp("diayn") / "run", quiet=True)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Run MAML on skills that it learns first, by DIAYN with the settings of the run above."""
    config = dataclasses.replace(DIAYN, method="maml-diayn")
    return metatrain("gridworld-slope", config, folder=tmp_path_factory.mktemp("both") / "run", quiet=True)


def files_of(folder) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if "tensorboard" not in path}


CHECKPOINT_FILES = ".json", ".safetensors", "-policies.safetensors"


def test_the_folder_of_maml_holds_everything(maml) -> None:
    assert files_of(maml.folder) == {
        "config.json",
        "class.json",
        "metrics.jsonl",
        "summary.json",
        *(f"checkpoints/iteration-00000{n}{end}" for n in (2, 4) for end in CHECKPOINT_FILES),
        *(f"policy/seed-{seed}.safetensors" for seed in (3, 4)),
        "figures/adaptation.png",
        "figures/adaptation.csv",
    }


def test_the_folder_of_diayn_holds_a_policy_per_skill(diayn) -> None:
    assert files_of(diayn.folder) == {
        "config.json",
        "class.json",
        "metrics.jsonl",
        "summary.json",
        *(f"checkpoints/epoch-0000{n}{end}" for n in (10, 20) for end in CHECKPOINT_FILES),
        *(f"policy/seed-{seed}-skill-{skill}.safetensors" for seed in (3, 4) for skill in range(3)),
        *(f"discriminator/seed-{seed}.safetensors" for seed in (3, 4)),
        *(f"figures/{name}.{suffix}" for name in ("discriminability", "skill-trails") for suffix in ("png", "csv")),
    }
    assert list(diayn.policies) == list(range(6))
    assert all(isinstance(policy, SquashedPolicy) for policy in diayn.policies.values())
    alone = load_policy(diayn.folder / "policy/seed-4-skill-1.safetensors")
    assert all(map(np.array_equal, jax.tree.leaves(alone), jax.tree.leaves(diayn.policies[3])))


def test_the_summaries_say_what_came_out(maml, diayn) -> None:
    summary = json.loads((maml.folder / "summary.json").read_text())
    before, after = np.array(summary["return_before"]), np.array(summary["return_after"])
    assert before.shape == after.shape == (2, 4)
    assert summary["method"] == "maml-r"
    assert summary["seeds"] == [3, 4]
    assert summary["final"]["gain"]["mean"] == pytest.approx((after - before).mean())
    summary = json.loads((diayn.folder / "summary.json").read_text())
    values = np.array(summary["discriminability"])
    assert values.shape == (2, 20)
    assert summary["skills"] == 3
    assert summary["final"]["discriminability"]["mean"] == pytest.approx(values[:, -10:].mean())
    # The discriminator that judges the states of the first epoch is untrained.
    assert values[:, 0] == pytest.approx(-math.log(3), abs=0.4)


def test_metrics_have_a_line_per_seed(maml, diayn) -> None:
    lines = list(read_metrics(maml.folder / "metrics.jsonl"))
    assert [(line["iteration"], line["seed"]) for line in lines] == [(i, seed) for i in range(4) for seed in (3, 4)]
    for line in lines:
        assert 0 <= line["return_before"] <= 1
        assert 0 <= line["return_after"] <= 1
        assert 0 <= line["kl"] < TINY.max_kl
        assert (line["improvement"] > 0) == (line["step"] > 0)
        assert line["seconds"].keys() == {"sampling", "learning"}
    assert any(line["step"] > 0 for line in lines)
    lines = list(read_metrics(diayn.folder / "metrics.jsonl"))
    assert [(line["epoch"], line["seed"]) for line in lines] == [(i, seed) for i in range(20) for seed in (3, 4)]
    assert all(line["temperature"] > 0 for line in lines)


def test_maml_on_skills_learns_them_first_and_is_the_same_with_given_ones(both, diayn, tmp_path) -> None:
    inside = {path.removeprefix("diayn/") for path in files_of(both.folder) if path.startswith("diayn/")}
    assert inside == files_of(diayn.folder)
    config = dataclasses.replace(DIAYN, method="maml-diayn")
    given = metatrain("gridworld-slope", config, diayn=diayn.folder, folder=tmp_path / "run", quiet=True)
    assert given.summary["return_after"] == both.summary["return_after"]
    # A skill's reward is ln q(z|s) − ln p(z) at each of at most 15 steps.
    assert np.max(given.summary["return_after"]) < 15 * math.log(3)


@pytest.mark.parametrize("method", ["maml-r", "diayn"])
@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemError])
def test_an_interrupted_run_goes_on_to_the_same_bits(request, tmp_path, monkeypatch, method, how) -> None:
    """The run ends, is continued with more steps, and is stopped again.

    After a KeyboardInterrupt, progress is saved. A SystemError stands for a crash that saves nothing.
    """
    whole, config = request.getfixturevalue(method.partition("-")[0]), {"maml-r": TINY, "diayn": DIAYN}[method]
    name, stop_at = {"maml-r": ("run_maml_iteration", 3), "diayn": ("run_diayn_epoch", 13)}[method]
    module = {"maml-r": maml_module, "diayn": diayn_module}[method]
    honest = getattr(module, name)

    def stops(state, number, *rest):
        if number == stop_at:
            raise how
        return honest(state, number, *rest)

    folder = tmp_path / "run"
    shorter = dataclasses.replace(config, **{"epochs": 10} if method == "diayn" else {"iterations": 2})
    metatrain("gridworld-slope", shorter, folder=folder, quiet=True)
    monkeypatch.setattr(module, name, stops)
    with pytest.raises(how):
        metatrain("gridworld-slope", config, folder=folder, resume=True, quiet=True)
    monkeypatch.undo()
    resumed = metatrain("gridworld-slope", config, folder=folder, resume=True, quiet=True)
    for number, policy in whole.policies.items():
        assert all(map(np.array_equal, jax.tree.leaves(policy), jax.tree.leaves(resumed.policies[number])))
    drop = {"seconds"}
    lines = [list(read_metrics(run.folder / "metrics.jsonl")) for run in (whole, resumed)]
    assert [{k: v for k, v in line.items() if k not in drop} for line in lines[0]] == [
        {k: v for k, v in line.items() if k not in drop} for line in lines[1]
    ]


def test_maml_on_skills_that_was_interrupted_while_learning_skills_goes_on(both, tmp_path, monkeypatch) -> None:
    honest = diayn_module.run_diayn_epoch

    def stops(state, epoch, *rest):
        if epoch == 7:
            raise KeyboardInterrupt
        return honest(state, epoch, *rest)

    config, folder = dataclasses.replace(DIAYN, method="maml-diayn"), tmp_path / "run"
    monkeypatch.setattr(diayn_module, "run_diayn_epoch", stops)
    with pytest.raises(KeyboardInterrupt):
        metatrain("gridworld-slope", config, folder=folder, quiet=True)
    monkeypatch.undo()
    resumed = metatrain("gridworld-slope", config, folder=folder, resume=True, quiet=True)
    assert resumed.summary["return_after"] == both.summary["return_after"]


def test_finetuning_takes_each_as_it_takes_any_policy(maml, diayn, both, tmp_path) -> None:
    tiny = TrpoConfig(tasks=2, iterations=2, horizon=15, steps=60, critic_hidden=(8,), critic_batch=32)
    for run, label in ((maml, "MAML+R"), (diayn, "DIAYN"), (both, "MAML+DIAYN")):
        tuned = finetune(run.folder, "GWN", tiny, folder=tmp_path / label, quiet=True)
        assert tuned.label == label
        assert tuned.returns.shape == (2, 2)
        assert type(tuned.load_policy(0)) is type(run.policies[next(iter(run.policies))])


def test_evaluation_measures_a_meta_trained_run(maml, tmp_path, capsys) -> None:
    done = evaluate(maml.folder, batches=1, folder=tmp_path / "evaluation")
    summary = json.loads((done.folder / "summary.json").read_text())
    assert summary["label"] == "MAML+R"
    assert summary["seeds"] == [3, 4]
    capsys.readouterr()


def test_a_squashed_policy_is_not_exported_to_stable_baselines(diayn, tmp_path) -> None:
    with pytest.raises(InputError, match="have no squashed policies; export to safetensors"):
        export(diayn.folder, tmp_path / "policy.zip", "sb3")
    export(diayn.folder, tmp_path / "policy.safetensors", "safetensors", seed=2)
    alone, whole = load_policy(tmp_path / "policy.safetensors"), diayn.policies[2]
    assert all(map(np.array_equal, jax.tree.leaves(alone), jax.tree.leaves(whole)))


class Line(CMP):
    """A point on a line with a wind: an example of a user's own environment."""

    wind: jax.Array

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    @property
    def entropy_ceiling(self):
        return math.inf

    def reset(self, *, key):
        return jnp.zeros(1)

    def step(self, state, action, *, key):
        return state + action + self.wind

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return jnp.array(False)


LINES = EnvironmentClass({"still": Line(jnp.array(0.0)), "windy": Line(jnp.array(0.1))}, name="lines")


def go_east(member, *, key):
    return RewardFunction(lambda state, action, reached: reached[0])


def test_what_cannot_be_is_refused_in_a_sentence_and_nothing_is_written(diayn, maml, tmp_path) -> None:
    folder = tmp_path / "run"

    def refused(sentence: str, environment_class="gridworld-slope", config=TINY, **more) -> None:
        with pytest.raises(InputError, match=sentence):
            metatrain(environment_class, config, folder=folder, quiet=True, **more)
        assert not folder.exists()

    refused("no goals can be drawn in members of lines; write draw_place", LINES)
    greedy = dataclasses.replace(DIAYN, replay=2 * 10**9)
    refused("replay: 2000000000 was given; with 2 seeds and 2 numbers per observation it would take", config=greedy)
    long = dataclasses.replace(TINY, horizon=1001)
    refused("the reward in AdvG is defined for at most max_steps = 1000 steps", "minigrid", long)
    refused("DIAYN needs bounded actions; those of lines are not bounded", LINES, DIAYN)
    refused("only maml-diayn takes skills; the method is maml-r", diayn=diayn.folder)
    refused("only maml-r takes tasks; the method is diayn", config=DIAYN, draw_task=go_east)
    refused("draw_task: it returned list; it must return a Task", LINES, draw_task=lambda member, *, key: [0.0])
    vector = RewardFunction(lambda state, action, reached: reached)
    refused(r"its reward has the shape \(1,\)", LINES, draw_task=lambda member, *, key: vector)
    skills = dataclasses.replace(TINY, method="maml-diayn")
    refused("is a run of MAML\\+R; name a run of DIAYN", config=skills, diayn=maml.folder)
    refused("with other members than multigrid", "multigrid", skills, diayn=diayn.folder)
    refused("it has no config.json", config=skills, diayn=tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("config.json", "summary.json"):
        (other / name).write_text((diayn.folder / name).read_text().replace('"hidden": [8, 8]', '"hidden": [0]'))
    refused("every layer needs at least one unit", config=skills, diayn=other)
    (other / "config.json").write_text('{"command": "metatrain", "class": "a", "config": []}')
    refused("is not a run of DIAYN", config=skills, diayn=other)
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "summary.json"):
        (broken / name).write_bytes((diayn.folder / name).read_bytes())
    refused("cannot be read as a discriminator", config=skills, diayn=broken)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tasks": 0}, "tasks: 0 was given; it must be at least 1"),
        ({"skills": 1}, "skills: 1 was given; it must be at least 2"),
        ({"steps": 12}, "steps: 12 was given; it must be a multiple of environments, which is 5"),
        ({"replay": 7}, "replay: 7 was given; it must be a multiple of environments, which is 5"),
        ({"warm_up": 0}, "warm_up: 0 was given; it must be at least 5"),
        ({"inner_rate": 0.0}, "inner_rate: 0.0 was given; it must be above 0 and finite"),
        ({"target_rate": 1.5}, "target_rate: 1.5 was given; it must be between 0 and 1"),
        ({"hidden": (8, 0)}, r"hidden: \(8, 0\) was given; every layer needs at least one unit"),
        ({"initial_log_std": 30.0}, "initial_log_std: 30.0 was given; it must be between -20 and 20"),
        ({"method": "diayn", "normalise": True}, "normalise: True was given; policies of DIAYN cannot have it"),
        ({"method": "diayn", "memory": "last"}, "memory: last was given; policies of DIAYN cannot have it"),
    ],
)
def test_settings_that_cannot_be(change, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(TINY, **change).check()


def test_the_presets_are_the_papers_and_quick() -> None:
    paper = metatraining_preset("paper", "gridworld-slope")
    assert (paper.iterations, paper.tasks, paper.trajectories, paper.inner_rate, paper.horizon) == (
        200,
        20,
        30,
        0.1,
        400,
    )
    assert (paper.epochs, paper.steps, paper.skills, paper.learning_rate, paper.discount) == (
        1000,
        1000,
        20,
        3e-4,
        0.99,
    )
    assert (paper.hidden, paper.seeds) == ((300, 300), 8)
    assert metatraining_preset("paper", "minigrid").hidden == (64,)
    for name in ("paper", "quick"):
        metatraining_preset(name, "gridworld-slope").check()
    assert settings_from_dict(MetatrainConfig, settings_to_dict(paper)) == paper


def test_numbers_that_are_lost_end_the_run_in_a_sentence(tmp_path, monkeypatch) -> None:
    honest = maml_module.run_maml_iteration

    def loses(*arguments):
        state, report = honest(*arguments)
        return state, eqx.tree_at(lambda report: report.finite, report, jnp.array([True, False]))

    monkeypatch.setattr(maml_module, "run_maml_iteration", loses)
    with pytest.raises(RunError, match="iteration 0, seed 4: a state, a reward or a parameter is no longer finite"):
        metatrain("gridworld-slope", TINY, folder=tmp_path / "run", quiet=True)


def test_maml_on_goals_in_cells_of_a_grid_seen_as_images(tmp_path) -> None:
    """The reward of a step is how far east and south it leads. Goals in cells would be reached too rarely here."""
    config = dataclasses.replace(TINY, iterations=1, tasks=2, trajectories=4, horizon=20, seeds=1, hidden=(4,))
    east = RewardFunction(lambda state, action, reached: jnp.sum(reached.position.astype(float)))
    run = metatrain("minigrid", config, draw_task=lambda member, *, key: east, folder=tmp_path / "run", quiet=True)
    assert run.policies[3].trunk is not None
    assert next(read_metrics(run.folder / "metrics.jsonl"))["step"] > 0
    # Goals in cells can be drawn too.
    member = make("minigrid")[0]
    goals = GoalTasks(member)
    drawn = jax.jit(lambda key: goals(member, key=key).place)(jax.random.key(0))
    assert drawn.shape == (2,)


def test_maml_scales_and_remembers_where_asked(tmp_path) -> None:
    change = {"normalise": True, "memory": "recurrent", "recurrent_units": 4, "iterations": 2}
    config, storm = (
        dataclasses.replace(TINY, **change),
        EnvironmentClass({"storm": Line(jnp.array(50.0))}, name="storm"),
    )
    run = metatrain(storm, config, draw_task=go_east, folder=tmp_path / "run", quiet=True)
    start = start_maml_iterations(storm, config).learners
    for number, policy in enumerate(run.policies.values()):
        # The wind alone moves the point by 50 per step: from 0 at the first of 15 steps to 700 at the last.
        np.testing.assert_allclose(policy.scaling.mean, 350, atol=20)
        np.testing.assert_allclose(policy.scaling.deviation, 216, atol=20)
        np.testing.assert_array_equal(policy.scaling.mean, start.scaling.mean[number])
        np.testing.assert_array_equal(policy.memory.change_scale, start.memory.change_scale[number])
        assert np.any(policy.layers[0].weight != start.layers[0].weight[number])
        assert np.any(policy.memory.recurrence.weight_ih != start.memory.recurrence.weight_ih[number])


def test_the_label_of_a_run_is_its_method(maml) -> None:
    source = read_source(maml.folder)
    assert (source.label, source.class_name, source.config) == ("MAML+R", "gridworld-slope", TINY)
