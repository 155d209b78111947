"""Test a run from start to end: the files that it writes, and that it can stop and resume anywhere."""

import dataclasses
import json
import math
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from measured import measured

from alphamepol import EnvironmentClass, Gridworld, InputError, RunError, load_policy, pretrain
from alphamepol.algorithms.alphamepol import run as pretrain_module
from alphamepol.runs.metrics import read_metrics
from alphamepol.settings.conversion import settings_from_dict


@pytest.fixture(scope="module")
def two_seeds(tiny):
    return dataclasses.replace(tiny, seeds=2, seed=5)


@pytest.fixture(scope="module")
def run(two_seeds, tmp_path_factory):
    return pretrain("gridworld-slope", two_seeds, folder=tmp_path_factory.mktemp("runs") / "run", quiet=True)


def files_of(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {"tensorboard/…" if name.startswith("tensorboard") else name for name in found}


def test_the_folder_holds_what_was_promised(run) -> None:
    assert files_of(run.folder) == {
        "config.json",
        "class.json",
        "metrics.jsonl",
        "summary.json",
        "evaluation.safetensors",
        "checkpoints/epoch-000002-policies.safetensors",
        "checkpoints/epoch-000002.json",
        "checkpoints/epoch-000002.safetensors",
        "checkpoints/epoch-000004-policies.safetensors",
        "checkpoints/epoch-000004.json",
        "checkpoints/epoch-000004.safetensors",
        "policy/seed-5.safetensors",
        "policy/seed-6.safetensors",
        "policy/best-seed-5.safetensors",
        "policy/best-seed-6.safetensors",
        "figures/learning-curves.png",
        "figures/learning-curves.csv",
        "figures/entropy-histogram.png",
        "figures/entropy-histogram.csv",
        "figures/heat-maps.png",
        "figures/heat-maps.csv",
        "tensorboard/…",
    }


def test_summary_has_the_fields_of_the_interface(run, two_seeds) -> None:
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary == run.summary
    assert summary["class"] == "gridworld-slope"
    assert (summary["method"], summary["alpha"], summary["epochs"]) == ("alphamepol", 0.5, 4)
    assert (summary["seeds"], summary["members"]) == ([5, 6], ["GWS", "GWN"])
    assert {name: len(values) for name, values in summary["entropy"].items()} == {"GWS": 2, "GWN": 2}
    assert summary["ceiling"]["GWN"] == pytest.approx(math.log(2.88))
    assert len(summary["mean"]) == len(summary["cvar"]) == 2
    for i in range(2):
        expected = 0.8 * summary["entropy"]["GWS"][i] + 0.2 * summary["entropy"]["GWN"][i]
        assert summary["mean"][i] == pytest.approx(expected, abs=1e-5)
        assert summary["cvar"][i] <= summary["mean"][i]
    assert summary["seconds"].keys() >= {"sampling", "neighbours", "learning", "evaluation", "total"}
    assert summary["steps_per_second"] > 0
    assert summary["device"]


def test_a_fresh_evaluation_of_the_saved_policies_gives_the_same_numbers(run, two_seeds) -> None:
    policies = {seed: load_policy(run.folder / "policy" / f"seed-{seed}.safetensors") for seed in (5, 6)}
    evaluation = measured(policies, "gridworld-slope", two_seeds)
    assert evaluation.to_dict()["entropy"] == run.summary["entropy"]
    assert evaluation.entropies.shape == (2, 2, 4)
    assert evaluation.visits.shares.sum(axis=(-1, -2)) == pytest.approx(1.0)
    other = measured(policies[5], "gridworld-slope", dataclasses.replace(two_seeds, seed=77))
    assert other.to_dict()["entropy"] != run.summary["entropy"]


def test_metrics_have_a_line_per_epoch_and_seed(run) -> None:
    lines = list(read_metrics(run.folder / "metrics.jsonl"))
    assert [(line["epoch"], line["seed"]) for line in lines] == [(e, s) for e in range(4) for s in (5, 6)]
    for line in lines:
        assert sum(line["tail_share"].values()) == pytest.approx(1.0)
        assert line["entropy"].keys() <= {"GWS", "GWN"}
        assert line["objective"] <= line["mean_entropy"]
        assert 0 <= line["kl"] <= 15
        assert 1 <= line["iterations"] <= 3
        assert line["backtracks"] == 0
        assert len(line["sigma"]) == 2
        assert line["seconds"].keys() == {"sampling", "neighbours", "learning"}
    assert lines[0]["objective_after"] > lines[0]["objective"]


def test_tensorboard_shows_the_same_numbers_and_heat_maps(run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    line = list(read_metrics(run.folder / "metrics.jsonl"))[-1]
    shown = {event.step: event.value for event in events.Scalars("objective/seed-6")}
    assert shown[3] == pytest.approx(line["objective"], rel=1e-5)
    assert {"kl/seed-5", "sigma/0/seed-5", "tail_share/GWN/seed-5", "seconds/learning/seed-5"} <= set(
        events.Tags()["scalars"]
    )
    assert any(tag.startswith("visits/GW") for tag in events.Tags()["images"])


def test_config_says_how_to_run_it_again(run, two_seeds) -> None:
    config = json.loads((run.folder / "config.json").read_text())
    assert config["class"] == "gridworld-slope"
    assert settings_from_dict(type(two_seeds), config["config"]) == two_seeds
    assert config["versions"]["jax"] == jax.__version__


def test_same_seed_same_bits_and_a_seed_does_not_depend_on_its_company(run, two_seeds, tmp_path) -> None:
    alone = pretrain(
        "gridworld-slope", dataclasses.replace(two_seeds, seeds=1, seed=6), folder=tmp_path / "a", quiet=True
    )
    assert (alone.folder / "policy/seed-6.safetensors").read_bytes() == (
        run.folder / "policy/seed-6.safetensors"
    ).read_bytes()
    five, six = ((run.folder / f"policy/seed-{seed}.safetensors").read_bytes() for seed in (5, 6))
    assert five != six


def without_seconds(path: Path) -> list[dict]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_metrics(path)]


@pytest.mark.parametrize("stop_at", [0, 1, 3])
@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemError])
def test_an_interrupted_run_goes_on_to_the_same_bits(run, two_seeds, tmp_path, monkeypatch, stop_at: int, how) -> None:
    """After a KeyboardInterrupt, progress is saved. A SystemError stands for a crash that saves nothing."""
    folder = tmp_path / "run"
    run_epoch = pretrain_module.run_epoch

    def stopping(state, epoch, *rest):
        if epoch == stop_at:
            raise how
        return run_epoch(state, epoch, *rest)

    monkeypatch.setattr(pretrain_module, "run_epoch", stopping)
    if stop_at == 3:  # this run was planned with fewer epochs, and had ended
        pretrain("gridworld-slope", dataclasses.replace(two_seeds, epochs=3), folder=folder, quiet=True)
    with pytest.raises(how):
        pretrain("gridworld-slope", two_seeds, folder=folder, resume=True, quiet=True)
    monkeypatch.undo()
    assert not (folder / "summary.json").exists()
    if how is SystemError:
        with (folder / "metrics.jsonl").open("a") as file:
            file.write('{"epoch": 3, "se')  # the crash cut this line
    resumed = pretrain("gridworld-slope", two_seeds, folder=folder, resume=True, quiet=True)
    for name in ("seed-5", "seed-6", "best-seed-5", "best-seed-6"):
        path = f"policy/{name}.safetensors"
        assert (folder / path).read_bytes() == (run.folder / path).read_bytes()
    name = "checkpoints/epoch-000004.safetensors"
    assert (folder / name).read_bytes() == (run.folder / name).read_bytes()
    assert without_seconds(folder / "metrics.jsonl") == without_seconds(run.folder / "metrics.jsonl")
    assert resumed.summary["entropy"] == run.summary["entropy"]


def test_a_finished_run_is_only_read(run, two_seeds) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    again = pretrain("gridworld-slope", two_seeds, folder=run.folder, resume=True, quiet=True)
    assert again.summary == run.summary
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before


def test_a_folder_with_another_run_is_refused(run, two_seeds) -> None:
    with pytest.raises(
        InputError, match="holds another run; choose another --folder, or continue that run with --resume"
    ):
        pretrain("gridworld-slope", two_seeds, folder=run.folder, quiet=True)
    with pytest.raises(InputError, match=r"holds a run with another alpha: 0\.5, not 0\.25"):
        pretrain(
            "gridworld-slope", dataclasses.replace(two_seeds, alpha=0.25), folder=run.folder, resume=True, quiet=True
        )
    with pytest.raises(InputError, match='holds a run with another class: "gridworld-slope", not "multigrid"'):
        pretrain("multigrid", two_seeds, folder=run.folder, resume=True, quiet=True)


def test_folders_that_cannot_be_used(two_seeds, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        pretrain("gridworld-slope", two_seeds, folder=tmp_path / "file", quiet=True)
    with pytest.raises(InputError, match="is not empty"):
        pretrain("gridworld-slope", two_seeds, folder=tmp_path, quiet=True)


def test_a_specialist_is_an_ordinary_run(tiny, tmp_path) -> None:
    config = dataclasses.replace(tiny, probabilities=(0.0, 1.0), alpha=1.0, epochs=1)
    run = pretrain("gridworld-slope", config, folder=tmp_path / "run", quiet=True)
    assert run.summary["method"] == "mepol"
    assert run.summary["mean"] == pytest.approx(run.summary["entropy"]["GWN"])
    assert all(line["entropy"].keys() == {"GWN"} for line in read_metrics(run.folder / "metrics.jsonl"))


@pytest.mark.parametrize("baseline", [True, False])
def test_on_policy_updates(tiny, tmp_path, baseline: bool) -> None:
    config = dataclasses.replace(tiny, update="on-policy", baseline=baseline, epochs=2)
    run = pretrain("gridworld-slope", config, folder=tmp_path / "run", quiet=True)
    assert {line["iterations"] for line in read_metrics(run.folder / "metrics.jsonl")} == {1}


def test_learning_explores_more(tiny, tmp_path) -> None:
    config = dataclasses.replace(
        tiny,
        alpha=1.0,
        epochs=15,
        horizon=60,
        trajectories=40,
        neighbours=15,
        max_off_policy_iterations=10,
        initial_mean=(-0.2, 0.2),
    )
    run = pretrain("gridworld-counterexample", config, folder=tmp_path / "run", quiet=True)
    lines = list(read_metrics(run.folder / "metrics.jsonl"))
    assert lines[-1]["mean_entropy"] > lines[0]["mean_entropy"] + 0.3


def test_a_class_of_ones_own(tiny, tmp_path) -> None:
    corridor = "....\n####\n####\n####"
    members = {"flat": Gridworld(corridor), "windy": Gridworld(corridor, slope="west", slope_mean=0.05)}
    mine = EnvironmentClass(members, [0.7, 0.3], name="corridors")
    run = pretrain(mine, dataclasses.replace(tiny, epochs=1), folder=tmp_path / "run", quiet=True)
    assert run.summary["class"] == "corridors"
    assert run.summary["ceiling"]["windy"] == pytest.approx(0.0)


class Stuck(Gridworld):
    """A gridworld in which every step leads to the same place."""

    def step(self, state, action, *, key):
        return jnp.zeros(2)


class Broken(Gridworld):
    """A gridworld in which every step leads to a state of NaN."""

    def step(self, state, action, *, key):
        return state * jnp.nan


class Wide(Gridworld):
    """A gridworld that declares observations of three numbers."""

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_aliasing_stops_the_run_with_member_and_cure(tiny, tmp_path) -> None:
    stuck = EnvironmentClass({"hole": Stuck("..\n..")}, name="stuck")
    sentence = (
        r"epoch 0, seed 0, mini-batch 0, environment hole: more than k = 8 particles coincide.*--resume.*noise.*--neigh"
    )
    with pytest.raises(RunError, match=sentence):
        pretrain(stuck, tiny, folder=tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "config.json").exists()


def test_feature_noise_is_the_cure_of_aliasing(tiny, tmp_path) -> None:
    """With noise, the particles of an agent that stands still are normally distributed, and their entropy is known."""
    stuck = EnvironmentClass({"hole": Stuck("..\n..")}, name="stuck")
    config = dataclasses.replace(tiny, feature_noise=0.01, epochs=1)
    run = pretrain(stuck, config, folder=tmp_path / "run", quiet=True)
    longer = dataclasses.replace(config, horizon=200, batch=5, trajectories=5)
    evaluation = measured(run.policies, stuck, longer)
    assert evaluation.mean.item() == pytest.approx(1 + np.log(2 * np.pi * 0.01**2), abs=0.1)
    assert np.isfinite(evaluation.trajectory_entropies).all()


def test_a_state_that_is_not_finite_stops_the_run(tiny, tmp_path) -> None:
    broken = EnvironmentClass({"bad": Broken("..\n..")}, name="broken")
    with pytest.raises(RunError, match="environment bad: the environment returned a state that is not finite"):
        pretrain(broken, tiny, folder=tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"initial_mean": (0.0,)}, "initial_mean: 0 was given; an action has 2 components"),
        ({"probabilities": (0.5, 0.6)}, "probabilities: 0.5 0.6 sum to 1.1; they must sum to 1"),
        ({"probabilities": (1.0,)}, "one number per member is needed"),
        ({"trajectories": 7}, "trajectories: 7 was given; it must be a multiple of batch, which is 2"),
        ({"update": "on-policy", "trust_region": 5.0}, "trust_region: 5 was given; on-policy updates have no trust"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(tiny, tmp_path, change, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        pretrain("gridworld-slope", dataclasses.replace(tiny, **change), folder=tmp_path / "run", quiet=True)
    assert not any(tmp_path.iterdir())


def test_evaluation_of_a_policy_that_does_not_fit_is_refused(run, two_seeds) -> None:
    policy = load_policy(run.folder / "policy/seed-5.safetensors")
    with pytest.raises(
        InputError, match="it maps 2 observation numbers to 2 action numbers, but class custom needs 3 and 2"
    ):
        measured(policy, EnvironmentClass({"wide": Wide("..\n..")}), two_seeds)


def test_a_policy_driven_out_of_the_numbers_stops_the_run(tiny, tmp_path) -> None:
    config = dataclasses.replace(tiny, update="on-policy", learning_rate=1e30)
    with pytest.raises(RunError, match=r"epoch 0, seed 0: the policy has moved so far.*lower --learning-rate"):
        pretrain("gridworld-slope", config, folder=tmp_path / "run", quiet=True)


def test_a_step_that_is_never_a_number_stops_the_run(tiny, tmp_path) -> None:
    """The steps are undone, so that the policy itself stays as it was. It would never learn anything."""
    config = dataclasses.replace(tiny, learning_rate=1e30)
    sentence = (
        r"epoch 0, seed 0: the KL divergence after a step is not a finite number, .* halved 9 times; .*--learning"
    )
    with pytest.raises(RunError, match=sentence):
        pretrain("gridworld-slope", config, folder=tmp_path / "run", quiet=True)


class Fuse(Gridworld):
    """A gridworld in which an episode ends once x is above −0.2, so that lengths differ. Its features are shifted."""

    def features(self, state):
        return state + 10.0

    def ended(self, state):
        return state[0] > -0.2


@pytest.mark.parametrize("horizon", [40, 1])
def test_members_that_end_early_and_features_elsewhere(tiny, tmp_path, horizon: int) -> None:
    mine = EnvironmentClass({"fuse": Fuse("..\n..")}, name="fuse")
    config = dataclasses.replace(tiny, horizon=horizon, batch=6, neighbours=3, initial_log_std=-2.0, epochs=2)
    run = pretrain(mine, config, folder=tmp_path / "run", quiet=True)
    evaluation = measured(run.policies, mine, config)
    assert evaluation.to_dict()["entropy"] == run.summary["entropy"]
    assert np.isfinite(run.summary["mean"]).all()
    assert evaluation.visits.shares.sum(axis=(-1, -2)) == pytest.approx(1.0)
    assert evaluation.visits.extent[0] > 8
    # The frozen state after the end, if it counted, would fill one cell. Valid particles spread over many cells.
    assert evaluation.visits.shares.max() < 0.2
    assert np.isfinite(evaluation.trajectory_entropies).all() == (horizon > 1)


def test_resuming_with_other_members_is_refused(tiny, tmp_path) -> None:
    south, north = (EnvironmentClass({"a": Gridworld("..\n..", slope=slope)}) for slope in ("south", "north"))
    config = dataclasses.replace(tiny, epochs=1)
    pretrain(south, config, folder=tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="holds a run with another members_sha256"):
        pretrain(north, config, folder=tmp_path / "run", resume=True, quiet=True)
