"""Test generated classes of Gymnasium environments: a stream of members in worker processes, tested on unseen ones."""

import dataclasses
import json

import cloudpickle
import numpy as np
import pytest
from toys import Walk, windy_walk

from alphamepol import (
    HostClass,
    InputError,
    PretrainConfig,
    RunError,
    evaluate,
    finetune,
    finetuning_preset,
    generated_class,
    pretrain,
)
from alphamepol.environments.generated.environment_seeds import TrainingStream, environment_seed
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.environments.gymnasium import worker as worker_module
from alphamepol.environments.gymnasium.worker import NOTHING, Particle, Recipe, Worker
from alphamepol.runs.metrics import read_metrics

CONFIG = PretrainConfig(
    epochs=2, trajectories=12, batch=2, horizon=10, neighbours=3, hidden=(8, 8), evaluation_batches=2, alpha=1.0,
    learning_rate=1e-3,
)  # fmt: skip


def windy_walks(shown: int = 3, workers: int = 2, **more) -> HostClass:
    return generated_class(windy_walk, kind="gymnasium", shown=shown, name="walks", workers=workers, copies=2, **more)


def test_the_streams_share_no_seed():
    numbers = [*range(2000), *range(2**31 - 2000, 2**31 - 1)]
    for class_seed in (0, 1, 2**32 - 1):
        seeds = {test: {environment_seed(n, class_seed, test=test) for n in numbers} for test in (True, False)}
        assert len(seeds[True]) == len(seeds[False]) == len(numbers)
        assert not seeds[True] & seeds[False]
        assert max(seeds[True] | seeds[False]) < 2**32
    assert environment_seed(5, 0, test=True) != environment_seed(5, 1, test=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks") / "run"
    return pretrain(windy_walks(), CONFIG, folder=folder, quiet=True)


def test_training_meets_new_members_and_reports_unseen_ones(run):
    for line in read_metrics(run.folder / "metrics.jsonl"):
        assert list(line["entropy"]) == ["worst tenth", "middle", "best tenth"]
    assert run.summary["members"] == ["unseen 0", "unseen 1", "unseen 2"]
    assert json.loads((run.folder / "config.json").read_text())["members"] == run.summary["members"]


def test_samples_do_not_depend_on_the_workers(run, tmp_path):
    alone = pretrain(windy_walks(workers=1), CONFIG, folder=tmp_path / "run", quiet=True)
    policies = [(one.folder / "policy/seed-0.safetensors").read_bytes() for one in (run, alone)]
    assert policies[0] == policies[1]
    assert alone.summary["entropy"] == run.summary["entropy"]


def test_other_members_are_another_class(run, tmp_path):
    for other in (windy_walks(seed=1), windy_walks(training=4)):
        with pytest.raises(InputError, match="members_sha256"):
            pretrain(other, CONFIG, folder=run.folder, resume=True, quiet=True)
    more = dataclasses.replace(CONFIG, epochs=3)
    further = pretrain(windy_walks(), more, folder=run.folder, resume=True, quiet=True)
    whole = pretrain(windy_walks(), more, folder=tmp_path / "whole", quiet=True)
    assert further.summary["entropy"] == whole.summary["entropy"]


def test_an_evaluation_chooses_its_members(run, tmp_path):
    walks = windy_walks()
    for which, names in (("5", "unseen"), ("seen:4", "seen")):
        done = evaluate(run.folder, walks, members=which, batches=2, folder=tmp_path / names, quiet=True)
        count = int(which.rpartition(":")[2])
        assert next(iter(done.evaluations.values())).members == tuple(f"{names} {n}" for n in range(count))
    few = windy_walks(training=2)
    assert class_of_shown_members(few, "seen:10").names == ("seen 0", "seen 1")


def test_seen_members_are_those_of_the_training_stream():
    """Member 3 + 1 of the stream is the second member that training can draw, because three numbers are shown."""
    made = TrainingStream(windy_walk, 0)(4)
    seen = class_of_shown_members(windy_walks(), "seen:2")
    recipe = cloudpickle.loads(seen.fleet._recipe)
    np.testing.assert_array_equal(recipe.makers["seen 1"]().wind, made.wind)
    unseen = cloudpickle.loads(windy_walks().fleet._recipe).makers["unseen 1"]()
    assert (unseen.wind != made.wind).all()


def test_fine_tuning_in_an_unseen_member(run, tmp_path):
    config = dataclasses.replace(
        finetuning_preset("gridworld-slope"), iterations=1, steps=40, horizon=10, tasks=1, hidden=(8, 8)
    )
    tuned = finetune(run.folder, "unseen 1", config, environment_class=windy_walks(), folder=tmp_path, quiet=True)
    assert tuned.returns.shape == (1, 1)


def test_a_worker_keeps_no_environment_of_a_stream(monkeypatch):
    closed: list[np.ndarray] = []
    monkeypatch.setattr(Walk, "close", lambda self: closed.append(self.wind), raising=False)
    recipe = Recipe({"shown": Walk}, Particle(), TrainingStream(windy_walk, 0))
    board = {name: np.zeros((2, 2), np.float32) for name in ("observations", "particles", "actions")} | {
        **{"rewards": np.zeros(2, np.float32), "over": np.zeros(2, bool), "cut": np.zeros(2, bool)},
        "now": np.full(1, NOTHING),
    }
    worker = Worker(0, cloudpickle.dumps(recipe), board)
    for member in (7, 8, 8, 9):
        assert worker.carry_out("reset", [(0, 0, member, 0)]) is None
    assert [wind.tolist() for wind in closed] == [windy_walk_of(member).tolist() for member in (7, 8)]
    assert worker.carry_out("close", []) is None
    assert len(closed) == 3
    monkeypatch.setattr(worker_module, "MOST_HELD", 2)
    named = Worker(0, cloudpickle.dumps(Recipe(dict.fromkeys("abc", Walk), Particle())), board)
    for member in (0, 1, 0, 2):
        assert named.carry_out("reset", [(0, 0, member, 0)]) is None
    assert len(closed) == 4  # that of member 1, which was used longest ago


def windy_walk_of(number: int) -> np.ndarray:
    return windy_walk(environment_seed(number, 0, test=False)).wind


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"kind": "unity"}, "kind: 'unity' was given; it must be jax, gymnasium or mujoco"),
        ({"kind": "gymnasium", "frame_skip": 5}, "frame_skip: it is not an argument for members of the kind gymnasium"),
        ({"workers": 2}, "workers: it is not an argument for members of the kind jax"),
        ({"kind": "gymnasium", "shown": 0}, "shown: 0 was given"),
    ],
)
def test_wrong_arguments_are_refused(more, sentence):
    with pytest.raises(InputError, match=sentence):
        generated_class(windy_walk, **more)


def test_a_stream_has_no_other_probabilities():
    with pytest.raises(InputError, match="a generated class draws its members itself"):
        windy_walks().with_probabilities([0.5, 0.3, 0.2])
    assert windy_walks().renamed("others").generator is not None


def test_an_error_of_an_unnamed_member_says_its_number(tmp_path):
    def make(seed: int) -> Walk:
        if seed % 2 == 0:
            raise ZeroDivisionError("on demand")
        return windy_walk(seed)

    walks = generated_class(make, kind="gymnasium", shown=2, workers=1)
    with pytest.raises(RunError, match=r"environment training member \d+: it failed in reset"):
        pretrain(walks, CONFIG, folder=tmp_path / "run", quiet=True)
