"""Test fine-tuning as a user sees it: the folder, the numbers, resuming, and that it learns."""

import dataclasses
import json
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from alphamepol import (
    CMP,
    CategoricalPolicy,
    EnvironmentClass,
    GaussianPolicy,
    Goal,
    HalfSpace,
    InputError,
    RewardFunction,
    RunError,
    TrpoConfig,
    finetune,
    load_policy,
    make,
    save_policy,
)
from alphamepol.algorithms.finetuning import run as finetune_module
from alphamepol.algorithms.finetuning.finetuner import find_finetuner
from alphamepol.algorithms.finetuning.iteration import Plan
from alphamepol.estimation.statistics import intervals_of_means
from alphamepol.runs.metrics import read_metrics
from alphamepol.runs.sources import Source, short_source_names

TINY = TrpoConfig(
    tasks=3,
    iterations=4,
    horizon=15,
    steps=60,
    hidden=(8,),
    critic_hidden=(8,),
    critic_batch=32,
    checkpoint_every=2,
    goal_radius=0.5,
    seed=5,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finetune") / "run"
    return finetune("random", "GWS", TINY, environment_class="gridworld-slope", folder=folder, quiet=True)


def test_the_folder_holds_everything(run) -> None:
    found = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    assert {path for path in found if not path.startswith("tensorboard")} == {
        "config.json",
        "class.json",
        "metrics.jsonl",
        "summary.json",
        *(f"checkpoints/iteration-00000{n}-policies.safetensors" for n in (2, 4)),
        "checkpoints/iteration-000002.json",
        "checkpoints/iteration-000002.safetensors",
        "checkpoints/iteration-000004.json",
        "checkpoints/iteration-000004.safetensors",
        *(f"policy/task-{task}-seed-5.safetensors" for task in range(3)),
        "figures/returns.png",
        "figures/returns.csv",
        "figures/tasks.csv",
    }
    assert any(path.startswith("tensorboard") for path in found)


def test_the_summary_says_what_was_asked_for(run) -> None:
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary == run.summary
    assert (summary["class"], summary["member"], summary["init"]) == ("gridworld-slope", "GWS", "random")
    assert np.shape(summary["tasks"]) == (3, 2)
    assert np.shape(summary["returns"]) == (3, 4)
    lines = list(read_metrics(run.folder / "metrics.jsonl"))
    assert len(lines) == 12
    for line in lines:
        assert summary["returns"][line["task"]][line["iteration"]] == pytest.approx(line["return"], abs=1e-6)
    final = np.array(summary["returns"])[:, -1]
    assert summary["final"]["mean"] == pytest.approx(final.mean())
    low, high = summary["final"]["interval"]
    assert (low, high) == pytest.approx(tuple(map(float, intervals_of_means(final))), abs=1e-5)
    assert low < final.mean() < high
    assert summary["policies"] == 0
    assert summary["steps_per_second"] > 0
    assert summary["seconds"].keys() >= {"sampling", "learning", "compilation", "total"}


def test_the_kl_stays_inside_the_trust_region(run) -> None:
    lines = list(read_metrics(run.folder / "metrics.jsonl"))
    assert any(line["step"] > 0 for line in lines)
    for line in lines:
        assert 0 <= line["kl"] < TINY.max_kl
        assert (line["improvement"] > 0) == (line["step"] > 0)


def test_goals_are_the_same_for_every_method_and_member_under_a_seed(run, tmp_path) -> None:
    policy = GaussianPolicy(2, 2, (4,), key=jax.random.key(0))
    other = finetune(policy, "GWN", TINY, environment_class="gridworld-slope", folder=tmp_path / "a", quiet=True)
    assert other.summary["tasks"] == run.summary["tasks"]
    reseeded = dataclasses.replace(TINY, seed=6)
    third = finetune(policy, "GWN", reseeded, environment_class="gridworld-slope", folder=tmp_path / "b", quiet=True)
    assert third.summary["tasks"] != run.summary["tasks"]


def without_seconds(path: Path) -> list[dict]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_metrics(path)]


@pytest.mark.parametrize(("how", "stop_at"), [(KeyboardInterrupt, 3), (SystemError, 3), (KeyboardInterrupt, 0)])
def test_an_interrupted_run_goes_on_to_the_same_bits(run, tmp_path, monkeypatch, how, stop_at) -> None:
    """A run that is stopped late was planned with fewer iterations, and had ended."""
    folder = tmp_path / "run"
    if stop_at:
        shorter = dataclasses.replace(TINY, iterations=2)
        finetune("random", "GWS", shorter, environment_class="gridworld-slope", folder=folder, quiet=True)
    run_iteration = finetune_module.run_finetuning_iteration

    def stopping(state, iteration, *rest):
        if iteration == stop_at:
            raise how
        return run_iteration(state, iteration, *rest)

    monkeypatch.setattr(finetune_module, "run_finetuning_iteration", stopping)
    again = {"environment_class": "gridworld-slope", "folder": folder, "quiet": True}
    with pytest.raises(how):
        finetune("random", "GWS", TINY, **again, resume=True)
    assert not (folder / "summary.json").exists()
    monkeypatch.undo()
    resumed = finetune("random", "GWS", TINY, **again, resume=True)
    assert resumed.summary["returns"] == run.summary["returns"]
    assert without_seconds(folder / "metrics.jsonl") == without_seconds(run.folder / "metrics.jsonl")
    for name in [
        "checkpoints/iteration-000004.safetensors",
        *(f"policy/task-{i}-seed-5.safetensors" for i in range(3)),
    ]:
        assert (folder / name).read_bytes() == (run.folder / name).read_bytes()


def test_a_run_of_other_settings_is_not_resumed(run) -> None:
    with pytest.raises(InputError, match=r"holds a run with another max_kl: 0.0001, not 0.01"):
        finetune(
            "random",
            "GWS",
            dataclasses.replace(TINY, max_kl=1e-2),
            environment_class="gridworld-slope",
            folder=run.folder,
            resume=True,
        )
    with pytest.raises(InputError, match="another member"):
        finetune("random", "GWN", TINY, environment_class="gridworld-slope", folder=run.folder, resume=True)


def test_a_task_does_not_depend_on_the_company_it_runs_in(run, tmp_path) -> None:
    goals = tuple(np.ravel(run.summary["tasks"][:2]).tolist())
    config = dataclasses.replace(TINY, goals=goals)
    fewer = finetune("random", "GWS", config, environment_class="gridworld-slope", folder=tmp_path / "a", quiet=True)
    assert fewer.summary["returns"] == run.summary["returns"][:2]


def test_policies_are_dealt_out_and_a_task_without_reward_keeps_its_policy(tmp_path) -> None:
    """With three tasks, two seeds and two policies, the policies take turns. Without reward, no policy changes."""
    policies = [GaussianPolicy(2, 2, (4,), key=jax.random.key(i)) for i in range(2)]
    config = dataclasses.replace(TINY, seeds=2)
    plan = Plan(make("gridworld-slope"), "GWN", [Goal((0.0, 0.5))] * 3, config, find_finetuner("trpo"))
    state = finetune_module.start_finetuning_iterations(policies, plan)
    for row in range(6):
        dealt = jax.tree.map(lambda leaf, row=row: leaf[row], state.learners.policy)
        assert all(map(np.array_equal, jax.tree.leaves(dealt), jax.tree.leaves(policies[row % 2])))
    assert not np.array_equal(state.learners.critic.layers[0].weight[0], state.learners.critic.layers[0].weight[1])

    nothing = [RewardFunction(lambda *_: 0.0)] * 3
    run = finetune(
        policies[0],
        "GWS",
        config,
        environment_class="gridworld-slope",
        tasks=nothing,
        folder=tmp_path / "run",
        quiet=True,
    )
    assert np.shape(run.summary["returns_by_seed"]) == (2, 3, 4)
    assert not np.any(run.returns)
    for task, seed in ((0, 5), (2, 6)):
        kept = run.load_policy(task, seed)
        assert all(map(np.array_equal, jax.tree.leaves(kept), jax.tree.leaves(policies[0])))


def test_half_spaces_are_tasks_too(tmp_path) -> None:
    tasks = [HalfSpace((0.0, -1.0), 0.5), HalfSpace((1.0, 0.0), 1.5)]
    run = finetune(
        "random", "GWS", TINY, environment_class="gridworld-slope", tasks=tasks, folder=tmp_path / "run", quiet=True
    )
    assert run.summary["tasks"] == [{"normal": [0.0, -1.0], "offset": 0.5}, {"normal": [1.0, 0.0], "offset": 1.5}]
    assert not np.any(run.returns[1])  # no place of the square has an x of 1.5 or more


class Line(CMP):
    """A point on a line. Action 0 is a step to the left, action 2 a step to the right, and action 1 no step."""

    unused: Array

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(3)

    @property
    def entropy_ceiling(self) -> float:
        return np.inf

    def reset(self, *, key):
        return jnp.zeros(1)

    def step(self, state, action, *, key):
        return state + 0.1 * (action - 1)

    def observe(self, state):
        return state

    def features(self, state):
        return state

    def ended(self, state):
        return jnp.array(False)


def test_discrete_actions_learn_a_direction(tmp_path) -> None:
    """Steps to the left are rewarded. A categorical policy learns this, and its return grows far above chance."""
    line = EnvironmentClass({"line": Line(jnp.array(0.0))}, name="line")
    pays = [RewardFunction(lambda state, action, reached: (state - reached)[0])]
    config = dataclasses.replace(TINY, iterations=30, max_kl=1e-2, horizon=20, steps=400)
    run = finetune("random", "line", config, environment_class=line, tasks=pays, folder=tmp_path / "run", quiet=True)
    assert isinstance(run.load_policy(0), CategoricalPolicy)
    assert run.returns[0, -1] > run.returns[0, 0] + 0.5
    assert run.returns[0, -1] > 1.2  # the highest return is 2.0, if every step is to the left
    with pytest.raises(InputError, match="it is gaussian, but class line needs a categorical policy"):
        finetune(GaussianPolicy(1, 3, key=jax.random.key(0)), "line", config, environment_class=line, tasks=pays)
    with pytest.raises(InputError, match="this member has no tasks of its own, and no goals can be drawn"):
        finetune("random", "line", config, environment_class=line)


def test_a_reward_that_is_not_a_number_stops_the_run(tmp_path) -> None:
    broken = [RewardFunction(lambda state, action, reached: jnp.log(-1.0 + 0 * state[0]))]
    with pytest.raises(RunError, match="iteration 0, task 0, seed 5"):
        finetune(
            "random", "GWS", TINY, environment_class="gridworld-slope", tasks=broken, folder=tmp_path / "r", quiet=True
        )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"member": "GWX"}, "member: class gridworld-slope has no member 'GWX', only GWS, GWN"),
        ({"environment_class": "gridworld"}, "class: 'gridworld' is not known"),
        ({"environment_class": None}, "class: random does not say in which class it acts"),
        ({"init": "nowhere"}, "run: there is no run folder, policy file or released policy nowhere"),
        ({"init": GaussianPolicy(3, 2, (4,), key=jax.random.key(0))}, "it maps 3 observation numbers to 2 action"),
        ({"tasks": [Goal((0.0, 0.0))]}, "goal: 0 0 was given, which is inside a wall"),
        ({"tasks": []}, "tasks: none was given"),
        ({"tasks": [Goal((0.5, 0.5), radius=-1.0)]}, "radius: -1 was given; it must be above 0"),
        ({"tasks": [Goal((0.5, 0.5))], "goals": (0.5, 0.5)}, "goals: they were given together with tasks"),
        ({"tasks": [HalfSpace((1.0, 0.0, 0.0), 0.5)]}, "normal: 3 numbers were given, but 2 are needed"),
        ({"tasks": [HalfSpace((1.0,), 0.5)]}, "normal: 1 numbers were given, but 2 are needed"),
        ({"tasks": [RewardFunction(lambda state, action, reached: reached)]}, "its reward has the shape (2,)"),
        ({"tasks": [RewardFunction(lambda *_: 0.0), RewardFunction(lambda *_: 1.0)]}, "such as their functions"),
        ({"member": 7}, "member: 7 was given; class gridworld-slope has members 0 to 1"),
        ({"goals": (0.5, 0.5, 0.5)}, "goals: 0.5 0.5 0.5 was given, 3 numbers; each goal needs 2"),
        ({"goals": (3.0, 0.5)}, "which is outside the square"),
        ({"steps": 61}, "steps: 61 was given; it must be a multiple of horizon, which is 15"),
        ({"max_kl": 0.0}, "max_kl: 0.0 was given; it must be above 0"),
        ({"discount": 1.1}, "discount: 1.1 was given; it must be between 0 and 1"),
        ({"damping": -1.0}, "damping: -1.0 was given"),
        ({"critic_hidden": (0,)}, "critic_hidden: (0,) was given"),
        ({"seeds": 0}, "seeds: 0 was given; it must be at least 1"),
        ({"goal_radius": float("nan")}, "goal_radius: nan was given"),
    ],
)
def test_bad_input_gets_a_sentence_and_writes_nothing(arguments, sentence, tmp_path) -> None:
    given = {"init": "random", "member": "GWS", "environment_class": "gridworld-slope", "tasks": None} | arguments
    fields = {
        name: given.pop(name) for name in list(given) if name in {f.name for f in dataclasses.fields(TINY)} - {"tasks"}
    }
    with pytest.raises(InputError) as refused:
        finetune(
            given.pop("init"),
            given.pop("member"),
            dataclasses.replace(TINY, **fields),
            folder=tmp_path / "run",
            quiet=True,
            **given,
        )
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_fine_tuning_run_is_no_source_but_its_policies_are(run, tmp_path) -> None:
    with pytest.raises(InputError, match="with a policy for each task; name one of the files in"):
        finetune(run.folder, "GWS", TINY, folder=tmp_path / "a")
    path = run.folder / "policy/task-1-seed-5.safetensors"
    nothing = [RewardFunction(lambda *_: 0.0)]
    again = finetune(
        path, "GWS", TINY, environment_class="gridworld-slope", tasks=nothing, folder=tmp_path / "b", quiet=True
    )
    assert again.summary["init"] == str(path)
    assert all(map(np.array_equal, jax.tree.leaves(again.load_policy(0)), jax.tree.leaves(load_policy(path))))


def test_every_policy_of_a_run_has_its_turn(tmp_path) -> None:
    source = Source("run", "run", {seed: GaussianPolicy(2, 2, (8,), key=jax.random.key(seed)) for seed in (0, 1)})
    nothing = [RewardFunction(lambda *_: 0.0)] * 3
    plan = Plan(make("gridworld-slope"), "GWN", nothing, TINY, find_finetuner("trpo"))
    run = finetune_module.run_finetuning_from_source(source, plan, tmp_path / "f", finetune_module.Way(quiet=True))
    for task, seed in ((0, 0), (1, 1), (2, 0)):
        expected = jax.tree.leaves(source.policies[seed])
        assert all(map(np.array_equal, jax.tree.leaves(run.load_policy(task)), expected))


def test_another_radius_is_another_run(tmp_path) -> None:
    again = {"environment_class": "gridworld-slope", "folder": tmp_path / "run", "quiet": True}
    finetune("random", "GWS", TINY, tasks=[Goal((0.5, 0.5), radius=0.2)], **again)
    with pytest.raises(InputError, match="holds a run with another tasks_sha256"):
        finetune("random", "GWS", TINY, tasks=[Goal((0.5, 0.5), radius=0.3)], resume=True, **again)


def test_a_member_can_be_named_by_its_number(tmp_path) -> None:
    run = finetune("random", 1, TINY, environment_class="gridworld-slope", folder=tmp_path / "run", quiet=True)
    assert run.summary["member"] == "GWN"


def test_short_names_are_names_and_all_different(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("x/a", "y/a", "z/0-a"):
        (tmp_path / path).mkdir(parents=True)

    def names(*paths: str) -> list[str]:
        return short_source_names([Source(path, "Random", {}) for path in paths])

    assert names("x/a", "random") == ["a", "random"]
    assert names("x/a", "y/a", "z/0-a") == ["0-a", "1-a", "2-0-a"]
    assert names(".", "..") == [tmp_path.name, tmp_path.parent.name]


def test_it_learns_a_goal_two_rooms_away(tmp_path) -> None:
    """Fine-tune the MEPOL policy of the paper's settings in GWS. The goal is in the room diagonally opposite."""
    config = TrpoConfig(goals=(0.7, -0.7), iterations=16, steps=2800, seed=1)
    run = finetune("gridworld-slope/alpha-1", "GWS", config, folder=tmp_path / "run", quiet=True)
    returns = run.returns[0]
    assert returns[:3].mean() < 0.7
    assert returns[-5:].mean() > 0.8


def test_a_saved_policy_needs_a_class(tmp_path) -> None:
    path = tmp_path / "policy.safetensors"
    save_policy(GaussianPolicy(2, 2, (4,), key=jax.random.key(0)), path)
    with pytest.raises(InputError, match="say so with --class"):
        finetune(path, "GWS", TINY, folder=tmp_path / "run")
