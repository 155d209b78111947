"""Test classes whose members are drawn by a generator: two streams, training on one, evaluation on the other."""

import dataclasses
import json
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from alphamepol import (
    EnvironmentClass,
    Gridworld,
    InputError,
    MetatrainConfig,
    PretrainConfig,
    RunError,
    diagnose,
    estimate_pretraining_cost,
    evaluate,
    finetune,
    finetuning_preset,
    generated_class,
    make,
    metatrain,
    pretrain,
    report,
)
from alphamepol.algorithms.alphamepol import run as pretrain_module
from alphamepol.checking.findings import find_all_findings
from alphamepol.environments.environment_class import draw_members_of_class
from alphamepol.environments.generated.generated_class import class_of_shown_members
from alphamepol.measuring.samples import draw_sample_members
from alphamepol.runs.metrics import read_metrics

ROOM = Gridworld("....\n....\n....\n....", slope="south")
CONFIG = PretrainConfig(
    epochs=3, trajectories=20, batch=2, horizon=20, neighbours=4, hidden=(8, 8), evaluation_batches=2, alpha=1.0,
    learning_rate=1e-3,
)  # fmt: skip


def make_room(key) -> Gridworld:
    return eqx.tree_at(lambda member: member.slope_mean, ROOM, jax.random.uniform(key, maxval=0.1))


def steepness(environment_class) -> list[float]:
    return [float(environment_class[name].slope_mean) for name in environment_class.names]


def drawn(environment_class, count: int, seed: int = 0) -> np.ndarray:
    """Return the steepness of members that training draws."""

    @jax.jit
    def draw(key):
        numbers = draw_members_of_class(environment_class.distribution, count, key=key)
        return jax.vmap(lambda number: environment_class[number].slope_mean)(numbers)

    return np.asarray(draw(jax.random.key(seed)))


def test_named_members_are_never_trained_on() -> None:
    rooms = generated_class(make_room, shown=50)
    assert rooms.names[:2] == ("unseen 0", "unseen 1")
    assert rooms.probabilities == (1 / 50,) * 50
    assert not set(np.float32(steepness(rooms)).tolist()) & set(drawn(rooms, 2000).tolist())


def test_training_meets_a_new_member_every_time() -> None:
    rooms = generated_class(make_room)
    many = drawn(rooms, 500)
    assert len(np.unique(many)) == 500
    assert 0.045 < many.mean() < 0.055  # the distribution is that of the function
    np.testing.assert_array_equal(many, drawn(rooms, 500))
    assert not set(many.tolist()) & set(drawn(rooms, 500, seed=1).tolist())


def test_training_on_a_finite_number_of_members() -> None:
    rooms = generated_class(make_room, training=4)
    many = drawn(rooms, 200)
    assert len(np.unique(many)) == 4
    seen = class_of_shown_members(rooms, "seen")
    assert seen.names == ("seen 0", "seen 1", "seen 2", "seen 3")
    np.testing.assert_allclose(sorted(steepness(seen)), np.unique(many), rtol=1e-6)


def test_a_number_inside_and_outside_of_a_compiled_function_is_the_same_member() -> None:
    rooms = generated_class(make_room, shown=5)
    inside = jax.jit(jax.vmap(lambda number: rooms[number].slope_mean))(jnp.arange(5))
    np.testing.assert_array_equal(inside, np.float32(steepness(rooms)))
    more = class_of_shown_members(rooms, "9")
    assert more.names == tuple(f"unseen {number}" for number in range(9))
    assert steepness(more)[:5] == steepness(rooms)


def test_the_seed_decides_both_streams() -> None:
    one, other = generated_class(make_room), generated_class(make_room, seed=1)
    assert steepness(one) == steepness(generated_class(make_room))
    assert not set(steepness(one)) & set(steepness(other))
    assert len({one.fingerprint, other.fingerprint, generated_class(make_room, training=9).fingerprint}) == 3
    assert one.renamed("other").fingerprint == one.fingerprint
    assert one.renamed("other").generator == one.generator


@pytest.mark.parametrize(
    ("make_member", "more", "sentence"),
    [
        (lambda key: 3, {}, "make_member: it failed, or JAX cannot compile it|it returned"),
        (lambda key: {"walls": jnp.zeros(3)}, {}, "make_member: it returned dict; it must return a member"),
        (lambda key: Gridworld(1 / 0), {}, "make_member: it failed, or JAX cannot compile it .ZeroDivisionError"),
        (lambda key: make_room(key if float(key) else None), {}, "JAX cannot compile it"),
        (make_room, {"shown": 0}, "shown: 0 was given; it must be a whole number from 1 to 1000"),
        (make_room, {"training": 0}, "training: 0 was given"),
        (make_room, {"seed": -1}, "seed: -1 was given"),
    ],
)
def test_what_cannot_be_a_class_is_refused(make_member, more, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        generated_class(make_member, **more)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "run"
    return pretrain(generated_class(make_room, shown=12, name="slopes"), CONFIG, folder=folder, quiet=True)


def test_a_run_reports_parts_of_the_class_and_unseen_members(run) -> None:
    lines = list(read_metrics(run.folder / "metrics.jsonl"))
    assert [list(line["entropy"]) for line in lines] == [["worst tenth", "middle", "best tenth"]] * 3
    for line in lines:
        worst, middle, best = line["entropy"].values()
        assert worst < middle < best
        assert 0.1 * worst + 0.8 * middle + 0.1 * best == pytest.approx(line["mean_entropy"], abs=1e-5)
    assert run.summary["members"] == [f"unseen {number}" for number in range(12)]
    means = [run.summary["entropy"][name][0] for name in run.summary["members"]]
    worst = sorted(means)[:2]  # a tenth of twelve members is the worst one and a fifth of the next one
    assert run.summary["worst_members"] == [pytest.approx((worst[0] + 0.2 * worst[1]) / 1.2)]
    seen = evaluate(
        run.folder, generated_class(make_room, shown=12, name="slopes"), members="seen", batches=2, quiet=True
    )
    (of_seen,) = seen.evaluations.values()
    assert run.summary["seen_members"] == 12
    assert run.summary["seen_mean"] == pytest.approx(of_seen.mean.tolist())
    assert run.summary["seen_gap"]["value"] == pytest.approx(of_seen.mean[0] - run.summary["mean"][0])
    assert list(run.summary["first_tail_share"]) == ["worst tenth", "middle", "best tenth"]
    assert (run.folder / "figures/heat-maps.png").is_file()
    assert len(json.loads((run.folder / "class.json").read_text())["maps"]) == 12


def test_metrics_of_many_members_name_those_that_were_met(tmp_path) -> None:
    members = {str(number): make_room(jax.random.key(number)) for number in range(101)}
    config = dataclasses.replace(CONFIG, epochs=1, evaluation_batches=1)
    run = pretrain(EnvironmentClass(members, name="many"), config, folder=tmp_path / "run", quiet=True)
    (line,) = read_metrics(run.folder / "metrics.jsonl")
    assert line["tail_share"].keys() == line["entropy"].keys()
    assert 0 < len(line["entropy"]) <= config.trajectories // config.batch
    assert sum(line["tail_share"].values()) == pytest.approx(1.0)
    assert len(run.summary["first_tail_share"]) == 101


def test_a_stopped_run_goes_on_with_the_same_members(run, tmp_path, monkeypatch) -> None:
    epoch, rooms = pretrain_module.run_epoch, generated_class(make_room, shown=12, name="slopes")

    def fails_in_epoch_1(state, number, *rest):
        if number == 1:
            raise RunError("stopped")
        return epoch(state, number, *rest)

    monkeypatch.setattr(pretrain_module, "run_epoch", fails_in_epoch_1)
    config = dataclasses.replace(CONFIG, checkpoint_every=1)
    with pytest.raises(RunError, match="stopped"):
        pretrain(rooms, config, folder=tmp_path / "run", quiet=True)
    monkeypatch.setattr(pretrain_module, "run_epoch", epoch)
    pretrain(rooms, config, folder=tmp_path / "run", resume=True, quiet=True)
    one, other = ((folder / "policy/seed-0.safetensors").read_bytes() for folder in (run.folder, tmp_path / "run"))
    assert one == other
    with pytest.raises(InputError, match="members"):
        pretrain(generated_class(make_room, shown=12, seed=1, name="slopes"), config, folder=tmp_path / "run",
                 resume=True, quiet=True)  # fmt: skip


def test_evaluating_unseen_members_and_members_of_the_training_stream(run, tmp_path) -> None:
    rooms = generated_class(make_room, shown=12, name="slopes")

    def names(members: str) -> tuple[str, ...]:
        folder = tmp_path / members
        done = evaluate(run.folder, rooms, CONFIG, members=members, batches=2, folder=folder, quiet=True)
        (evaluation,) = done.evaluations.values()
        return evaluation.members

    assert names("unseen") == tuple(f"unseen {number}" for number in range(12))
    assert names("3") == ("unseen 0", "unseen 1", "unseen 2")
    assert names("seen:2") == ("seen 0", "seen 1")
    for wrong in ("all", "seen:0", "seen:x", "unseen:99999", "0"):
        with pytest.raises(InputError, match=f"members: '{wrong}' was given; it must be unseen, seen, a number"):
            names(wrong)
    with pytest.raises(InputError, match="members: 'seen' was given; only a generated class"):
        evaluate(run.folder, "gridworld-slope", CONFIG, members="seen", folder=tmp_path / "no", quiet=True)


def test_fine_tuning_in_an_unseen_member(run, tmp_path) -> None:
    rooms = generated_class(make_room, shown=12, name="slopes")
    config = dataclasses.replace(finetuning_preset(rooms), tasks=2, iterations=1, steps=80, horizon=20, hidden=(8, 8))
    done = finetune(run.folder, "unseen 3", config, environment_class=rooms, folder=tmp_path / "tuned", quiet=True)
    assert done.summary["member"] == "unseen 3"


def test_what_generated_classes_cannot_do_is_refused(tmp_path) -> None:
    rooms = generated_class(make_room)
    with pytest.raises(InputError, match="a generated class draws its members itself"):
        pretrain(rooms, dataclasses.replace(CONFIG, probabilities=(0.05,) * 20), folder=tmp_path / "a", quiet=True)
    with pytest.raises(InputError, match="diagnostics: a generated class has no pairs"):
        pretrain(rooms, dataclasses.replace(CONFIG, diagnostics=True), folder=tmp_path / "b", quiet=True)
    with pytest.raises(InputError, match="meta-training would train on its unseen members"):
        metatrain(rooms, MetatrainConfig(), folder=tmp_path / "c", quiet=True)


@pytest.mark.parametrize("name", ["generated-rooms", "generated-mazes"])
def test_classes_that_come_with_the_package(name: str) -> None:
    environment_class = make(name)
    assert environment_class.names[0] == "unseen 0"
    assert environment_class.generator.training is None
    assert all(environment_class[number].solid for number in range(3))
    assert np.isfinite(environment_class["unseen 0"].entropy_ceiling)


def test_the_risk_over_members_ranks_members(tmp_path) -> None:
    config = dataclasses.replace(CONFIG, alpha=0.2, risk="members", member_batches=2)
    run = pretrain(generated_class(make_room, shown=12), config, folder=tmp_path / "run", quiet=True)
    assert np.isfinite(run.summary["mean"]).all()
    keys = jax.random.split(jax.random.key(0), 3)
    distribution = generated_class(make_room).distribution
    members = np.asarray(draw_sample_members(keys, 0, distribution, 10, 2)[0])
    assert (members[:, ::2] == members[:, 1::2]).all()
    assert len(np.unique(members)) == 15
    # Without it, the draws are the same as ever.
    np.testing.assert_array_equal(*(draw_sample_members(keys, 0, (0.8, 0.2), 10, *more)[0] for more in ((), (1,))))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"risk": "members"}, "risk: members was given; give also --member-batches of at least 2"),
        ({"member_batches": 3}, "member_batches: 3 was given; it must divide the 10 mini-batches of an epoch"),
        ({"member_batches": 0}, "member_batches: 0 was given"),
        ({"risk": "members", "member_batches": 2, "update": "on-policy"}, "it must be minibatches if --update"),
    ],
)
def test_settings_of_the_risk_are_checked(fields, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(CONFIG, **fields).check()


def test_units_and_random_do_not_depend_on_the_members_that_are_shown(tmp_path) -> None:
    rooms = generated_class(make_room, shown=4, name="slopes")
    config = dataclasses.replace(CONFIG, normalise=True, memory="last")
    run = pretrain(rooms, config, folder=tmp_path / "run", quiet=True)
    found = {}
    for members in ("unseen", "2", "seen"):
        done = evaluate(
            [run.folder, "random"], rooms, members=members, batches=2, folder=tmp_path / members, quiet=True
        )
        found[members] = [evaluation.units for evaluation in done.evaluations.values()]
        assert len(set(found[members])) == 1
    assert found["unseen"] == found["2"] == found["seen"]
    assert found["unseen"][0] == pytest.approx(run.summary["units"])


def test_each_choice_of_members_has_a_folder_of_its_own(run) -> None:
    rooms = generated_class(make_room, shown=12, name="slopes")
    folders = {
        evaluate(run.folder, rooms, CONFIG, members=members, batches=2, quiet=True).folder.name
        for members in ("2", "seen:2")
    }
    assert len(folders) == 2


def test_a_run_that_has_not_ended_is_reported_by_the_parts_of_the_class(run, tmp_path) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "begun")
    (folder / "summary.json").unlink()
    page = report(folder).read_text()
    assert "worst tenth" in page
    assert "<th>unseen 3" not in page


@pytest.mark.parametrize("member_batches", [4, 5])
def test_checking_and_estimating_work_with_the_risk_over_members(member_batches: int, monkeypatch) -> None:
    rooms = generated_class(make_room, shown=3, name="slopes")
    fields = {"alpha": 0.3, "risk": "members", "member_batches": member_batches, "trajectories": 40, "epochs": 2}
    config = dataclasses.replace(CONFIG, **fields)
    monkeypatch.setattr("alphamepol.algorithms.alphamepol.cost.PIECES", 1)  # a piece is smaller than an epoch
    assert estimate_pretraining_cost(rooms, config).epoch > 0
    found = diagnose(rooms, config)
    assert found.generated
    assert len(found.learned) > 0
    assert not any("is not drawn in" in finding.sentence for finding in find_all_findings(found))


def test_static_fields_are_part_of_the_fingerprint() -> None:
    solid, usual = (EnvironmentClass({"a": Gridworld("..", solid=one)}).fingerprint for one in (True, False))
    assert solid != usual
