"""Test that runs are recognised by what they compute, not by their folder or by fields that were added later."""

import dataclasses
import json
from typing import Any

import pytest

from alphamepol import InputError, MetatrainConfig, PretrainConfig, TrpoConfig
from alphamepol.reproduction.planned import (
    Finetuning,
    GradientVariance,
    Metatraining,
    Pretraining,
    Untrained,
    hash_of_planned_run,
)
from alphamepol.reproduction.store import Store, read_stored_runs
from alphamepol.settings.conversion import settings_to_dict

pytestmark = pytest.mark.quick

PLANNED = Pretraining("gridworld-slope", PretrainConfig(epochs=100, seeds=5))
CLASS = {"class": "gridworld-slope", "members": ["GWS", "GWN"], "probabilities": [0.8, 0.2], "seeds": [0]}
EXPLORED = {**CLASS, "entropy": {"GWS": [0.5], "GWN": [0.4]}, "ceiling": {"GWS": 1.0, "GWN": None}, "mean": [0.5]}
LEARNED = {"class": "gridworld-slope", "member": "GWN", "iterations": 2, "tasks": [[0, 0]], "returns": [[0.0, 1.0]]}
SUMMARIES = {
    "pretrain": EXPLORED,
    "untrained": EXPLORED,
    "metatrain": {**CLASS, "label": "DIAYN"},
    "finetune": {**LEARNED, "label": "MEPOL", "final": {"mean": 1.0, "interval": None}},
}
TUNED = Finetuning("gridworld-slope", "GWN", TrpoConfig(seeds=2), PLANNED)


def write(store: Store, name: str, planned, *, finished: bool = True, **parts) -> None:
    """Write a run folder as a command does, but only with the files that these tests read."""
    folder = store.runs / name
    folder.mkdir(parents=True)
    description = {"command": planned.command, "class": planned.class_name, "config": settings_to_dict(planned.config)}
    (folder / "config.json").write_text(json.dumps(description | parts))
    if finished:
        summary = {"name": name, **SUMMARIES.get(planned.command, {})}
        (folder / "summary.json").write_text(json.dumps(_of_all_seeds(summary, planned.config.seeds)))
    store.look()


def _of_all_seeds(summary: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Return a summary of one seed as that of several equal seeds."""
    whole = dict(summary)
    if "seeds" in summary:
        whole["seeds"] = list(range(seeds))
    if "mean" in summary:
        whole["mean"] = seeds * summary["mean"]
        whole["entropy"] = {member: seeds * values for member, values in summary["entropy"].items()}
    return whole


def changed(planned, **fields):
    return dataclasses.replace(planned, config=dataclasses.replace(planned.config, **fields))


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path)


def test_a_run_is_found_whatever_its_folder_is_called(store) -> None:
    assert store.find(PLANNED) is None
    assert not store.is_done(PLANNED)
    write(store, "some-name", PLANNED)
    assert store.find(PLANNED).summary["name"] == "some-name"
    assert store.find(PLANNED).shortfall == ""
    assert store.is_done(PLANNED)
    assert store.place_of(PLANNED) == store.runs / "some-name"


def test_what_does_not_decide_what_is_learned_does_not_count(store) -> None:
    write(store, "run", changed(PLANNED, checkpoint_every=3, keep_checkpoints="all", evaluation_batches=7))
    assert store.is_done(PLANNED)
    for other in ({"learning_rate": 2e-5}, {"alpha": 0.3}, {"seed": 1}, {"epochs": 101}):
        assert not store.is_done(changed(PLANNED, **other))
    assert not store.is_done(dataclasses.replace(PLANNED, class_name="multigrid"))


def test_a_field_that_was_added_later_changes_nothing(store) -> None:
    write(store, "run", PLANNED)
    path = store.runs / "run" / "config.json"
    description = json.loads(path.read_text())
    del description["config"]["feature_noise"]
    path.write_text(json.dumps(description))
    store.look()
    assert store.is_done(PLANNED)


def test_an_unfinished_run_is_gone_on_with_and_a_new_one_has_a_telling_name(store) -> None:
    place = store.place_of(PLANNED)
    assert place.name == f"gridworld-slope-alpha-0.2-{hash_of_planned_run(PLANNED.identity)[:8]}"
    write(store, "begun", PLANNED, finished=False)
    assert store.find(PLANNED) is None
    assert not store.is_done(PLANNED)
    assert store.place_of(PLANNED).name == "begun"
    assert store.all() == []
    write(store, "finished", PLANNED)
    assert store.place_of(PLANNED).name == "finished"


def test_a_shorter_run_stands_in_and_says_so(store) -> None:
    write(store, "short", changed(PLANNED, epochs=30, seeds=2))
    write(store, "longer", changed(PLANNED, epochs=60, seeds=2))
    write(store, "too-long", changed(PLANNED, epochs=200))
    write(store, "other", changed(PLANNED, epochs=90, alpha=0.5))
    found = store.find(PLANNED)
    assert found.folder.name == "longer"
    assert found.shortfall == "60 of 100 epochs, 2 of 5 seeds"
    assert found.share == pytest.approx(0.6 * 0.4)
    assert not store.is_done(PLANNED)


def test_fine_tuning_is_known_by_the_run_it_began_from(store) -> None:
    write(store, "before", PLANNED)
    write(store, "tuned", TUNED, member="GWN", init="elsewhere/runs/before")
    assert store.is_done(TUNED)
    assert store.find(TUNED).policies == 5
    assert not store.is_done(dataclasses.replace(TUNED, member="GWS"))
    assert not store.is_done(dataclasses.replace(TUNED, init=changed(PLANNED, alpha=0.5)))
    assert not store.is_done(dataclasses.replace(TUNED, init=None))
    # The size of the network counts for Random only.
    assert store.is_done(changed(TUNED, hidden=(8,), initial_log_std=0.0))
    random = dataclasses.replace(TUNED, init=None)
    write(store, "random", random, member="GWN", init="random")
    assert store.find(random).policies == 0
    assert not store.is_done(changed(random, hidden=(8,)))


def test_runs_may_lie_deeper_and_keep_what_they_said_of_each_other(store) -> None:
    other = changed(PLANNED, alpha=0.5)
    write(store, "ant/alpha", PLANNED)
    write(store, "alpha", other)
    write(store, "tuned", TUNED, member="GWN", init="once/ant/alpha")
    assert store.is_done(TUNED)
    write(store, "tuned-other", TUNED, member="GWN", init="once/alpha")
    assert store.is_done(dataclasses.replace(TUNED, init=other))


def test_fine_tuning_from_a_shorter_run_is_shorter(store) -> None:
    write(store, "before", changed(PLANNED, epochs=30))
    write(store, "tuned", TUNED, member="GWN", init="before")
    assert store.find(TUNED).shortfall == "30 of 100 epochs before"
    assert store.find(TUNED).share == pytest.approx(0.3)
    assert store.find(PLANNED).share == pytest.approx(0.3)


def test_fine_tuning_from_an_unknown_run_is_nobodys(store) -> None:
    write(store, "tuned", TUNED, member="GWN", init="gone")
    assert store.find(TUNED) is None
    assert store.all() == []


def test_meta_training_is_known_by_its_skills_and_gradients_by_their_policies(store) -> None:
    diayn = Metatraining("gridworld-slope", MetatrainConfig(method="diayn"))
    both = Metatraining("gridworld-slope", MetatrainConfig(method="maml-diayn"), diayn)
    assert both.needs == (diayn,)
    write(store, "skills", diayn, diayn=None)
    write(store, "both", both, diayn="skills")
    assert store.is_done(diayn)
    assert store.is_done(both)
    assert not store.is_done(dataclasses.replace(both, diayn=None))
    variance = GradientVariance(PLANNED, 10)
    write(store, "before", PLANNED)
    write(store, "variance", variance, init="before", batches=10)
    assert store.is_done(variance)
    assert not store.is_done(GradientVariance(PLANNED, 11))
    along = GradientVariance(PLANNED, 10, (50, 100))
    assert not store.is_done(along)
    write(store, "along", along, init="before", batches=10, checkpoints=[50, 100])
    assert store.is_done(along)
    assert store.place_of(variance).name == "variance"
    assert not store.is_done(GradientVariance(PLANNED, 10, (100,)))


def test_the_seeds_of_measured_gradients_count_once(store) -> None:
    fewer = changed(PLANNED, seeds=3)
    write(store, "before", fewer)
    write(store, "variance", GradientVariance(fewer, 10), init="before", batches=10)
    found = store.find(GradientVariance(changed(PLANNED, seeds=4), 10))
    assert found.shortfall == "3 of 4 seeds"
    assert found.share == 3 / 4


def test_a_run_that_began_from_a_longer_one_is_another(store) -> None:
    write(store, "before", changed(PLANNED, epochs=300))
    write(store, "tuned", changed(TUNED, iterations=50), member="GWN", init="before")
    assert store.find(TUNED) is None


def test_one_and_one_point_zero_are_the_same_setting(store) -> None:
    asked = changed(PLANNED, alpha=1.0, probabilities=(0.0, 1.0))
    write(store, "run", asked)
    path = store.runs / "run/config.json"
    path.write_text(path.read_text().replace("1.0", "1").replace("0.0,", "0,"))
    store.look()
    assert '"alpha": 1,' in path.read_text()
    assert store.is_done(asked)


def test_random_is_what_was_measured(store) -> None:
    random = Untrained("gridworld-slope", PretrainConfig(evaluation_batches=7))
    write(store, "random", random)
    assert store.is_done(random)
    assert not store.is_done(changed(random, evaluation_batches=8))


def test_a_run_does_not_begin_from_itself(store) -> None:
    write(store, "a", TUNED, member="GWN", init="elsewhere/a")
    assert store.all() == []
    assert "began from elsewhere/a" in store.problems[0]


def test_what_cannot_be_read_is_left_aside_and_named(store) -> None:
    write(store, "good", changed(PLANNED, alpha=0.5))
    write(store, "run", PLANNED)
    path = store.runs / "run" / "config.json"
    whole = path.read_text()
    for text, said in (
        (whole.replace('"alpha"', '"alpah"'), "settings that are not known"),
        ("{", "cannot be read"),
        ('{"command": "demo", "class": "a"}', "not a run that can be reported"),
        ('{"command": "pretrain", "config": {}}', "not a run that can be reported"),
    ):
        path.write_text(text)
        store.look()
        assert [one.folder.name for one in store.all()] == ["good"]
        assert said in store.problems[0]
        assert "runs/run" in store.problems[0]
        with pytest.raises(InputError, match=said):
            read_stored_runs([path.parent])
    path.write_text(whole)
    (store.runs / "run/summary.json").write_text("{")
    store.look()
    assert not store.is_done(PLANNED)
    assert "summary.json cannot be used" in store.problems[0]
