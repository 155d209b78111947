"""Test generated classes of MuJoCo models: a stream of models, stepped on the CPU, tested on unseen ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mujoco_models import HOPPER, hopper, muscle, policies_for

from alphamepol import InputError, PretrainConfig, RunError, evaluate, generated_class, mujoco_class, pretrain
from alphamepol.environments.generated.environment_seeds import environment_seed
from alphamepol.environments.generated.mujoco_stream import MujocoModelStream
from alphamepol.runs.metrics import read_metrics
from alphamepol.sampling.sampler import collect_with_sampler

CONFIG = PretrainConfig(
    epochs=2, trajectories=8, batch=2, horizon=10, neighbours=3, hidden=(8, 8), evaluation_batches=2, alpha=1.0,
    learning_rate=1e-3,
)  # fmt: skip


def random_hopper(seed: int):
    """Return a hopper whose friction, mass, time step and first position depend on the seed."""
    rng = np.random.default_rng(seed)
    spec = hopper(friction=rng.uniform(0.2, 2.0), mass=rng.uniform(0.5, 2.0))
    spec.option.timestep = rng.choice([0.002, 0.004])
    spec.add_key(qpos=[rng.uniform(-1, 1), 1.25, 0, 0, 0, 0])
    return spec


def random_hoppers(shown: int = 2, **more):
    options = {"frame_skip": 2, "entropy_on": [0, 1]} | more
    return generated_class(random_hopper, kind="mujoco", shown=shown, name="hoppers", **options)


def samples_in(environment_class, numbers):
    members = jnp.array([numbers])
    keys = jax.random.split(jax.random.key(0), 1)
    return collect_with_sampler(
        policies_for(environment_class, 1), environment_class, members, batch=2, horizon=12, keys=keys
    )


def test_members_of_both_streams_are_those_of_a_plain_class():
    """Number 1 is the second named member, and numbers from 2 on are members of the training stream."""
    numbers = [1, 2, 40, 2]
    seeds = [environment_seed(number, 0, test=number < 2) for number in numbers]
    plain = mujoco_class(
        {f"{place}": random_hopper(seed) for place, seed in enumerate(seeds)},
        frame_skip=2,
        entropy_on=[0, 1],
        physics="cpu",
    )
    ours, theirs = samples_in(random_hoppers(), numbers), samples_in(plain, range(4))
    for field in ("perceived", "actions", "particles", "valid"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    assert np.ptp(np.asarray(ours.particles)[0, :, :, 0, 0], axis=0).min() > 0.1  # the starts are different ones


def test_training_meets_new_members_and_is_tested_on_unseen_ones(tmp_path):
    run = pretrain(random_hoppers(), CONFIG, folder=tmp_path / "run", quiet=True)
    for line in read_metrics(run.folder / "metrics.jsonl"):
        assert list(line["entropy"]) == ["worst tenth", "middle", "best tenth"]
    assert run.summary["members"] == ["unseen 0", "unseen 1"]
    further = dataclasses.replace(CONFIG, epochs=3)
    done = pretrain(random_hoppers(), further, folder=run.folder, resume=True, quiet=True)
    whole = pretrain(random_hoppers(), further, folder=tmp_path / "whole", quiet=True)
    assert done.summary["entropy"] == whole.summary["entropy"]
    for which, names in (("3", ("unseen 0", "unseen 1", "unseen 2")), ("seen:1", ("seen 0",))):
        shown = evaluate(
            run.folder, random_hoppers(), members=which, batches=2, folder=tmp_path / names[-1], quiet=True
        )
        assert next(iter(shown.evaluations.values())).members == names
    with pytest.raises(InputError, match="members_sha256"):
        pretrain(random_hoppers(training=4), further, folder=run.folder, resume=True, quiet=True)


def test_a_stream_makes_a_model_once_and_forgets_old_ones(monkeypatch):
    made: list[int] = []

    def make(seed: int):
        made.append(seed)
        return muscle(gravity=-1.0 - seed % 7)

    stream = MujocoModelStream({"first": muscle()}, make, 0)
    for number in (5, 6, 5, 0):
        assert stream[number].opt.gravity[2] <= -1
    assert made == [environment_seed(number, 0, test=False) for number in (5, 6)]


def fails_in_training(seed: int):
    if seed % 2 == 0:
        raise ZeroDivisionError("on demand")
    return random_hopper(seed)


def has_another_structure_in_training(seed: int):
    return HOPPER if seed % 2 else muscle()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (fails_in_training, r"environment training member \d+: make_member: it failed for the seed \d+ \(ZeroDivision"),
        (has_another_structure_in_training, r"members: training member \d+ and unseen 0 differ in nq: 8 and 6"),
    ],
)
def test_a_model_that_cannot_be_made_ends_the_run_with_its_number(make, sentence, tmp_path):
    models = generated_class(make, kind="mujoco", shown=1, entropy_on=[0])
    with pytest.raises(RunError, match=sentence):
        pretrain(models, CONFIG, folder=tmp_path / "run", quiet=True)


def test_wrong_arguments_are_refused():
    for more, sentence in (
        ({"workers": 2}, "workers: it is not an argument for members of the kind mujoco"),
        ({"physics": "gpu"}, "physics: it is not an argument"),
        ({"shown": 0}, "shown: 0 was given"),
    ):
        with pytest.raises(InputError, match=sentence):
            random_hoppers(**more)
    with pytest.raises(InputError, match="make_member: it failed for the seed 1"):
        generated_class(lambda seed: 1 / 0, kind="mujoco")
    with pytest.raises(InputError, match="unseen 0 is int"):
        generated_class(lambda seed: 3, kind="mujoco")


def test_the_gpu_engine_is_refused(monkeypatch):
    hoppers = random_hoppers()
    assert hoppers.with_physics("auto") is hoppers.with_physics("cpu") is hoppers
    monkeypatch.setattr("alphamepol.environments.mujoco.engines.has_nvidia_gpu", lambda: True)
    with pytest.raises(InputError, match="generated models of MuJoCo are stepped on the CPU"):
        hoppers.with_physics("gpu")
