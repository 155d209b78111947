"""Test classes of MuJoCo models: their steps against plain MuJoCo, and what is refused."""

import math
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mujoco_models import HOPPER, hopper, muscle, policies_for

import alphamepol as am
from alphamepol.environments import environment_warnings
from alphamepol.environments.mujoco.library import mujoco
from alphamepol.sampling.sampler import collect_episodes_with_sampler, collect_with_sampler


@pytest.fixture(scope="module")
def hoppers():
    return am.mujoco_class(
        {"normal": HOPPER, "slippery": hopper(friction=0.3), "heavy": hopper(mass=2.0)},
        [0.5, 0.25, 0.25],
        frame_skip=4,
        entropy_on=lambda state: state.qpos[:2],
        entropy_names=("x", "height"),
        name="hoppers",
    )


def plain_step(model, state, action, frame_skip: int) -> "mujoco.MjData":
    """Return MuJoCo's own data after one control step, without warm start, with its sensors brought up to date."""
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = state.qpos, state.qvel, state.act, action
    mujoco.mj_step(model, data, nstep=frame_skip)
    after = np.concatenate([data.qpos, data.qvel, data.act])
    mujoco.mj_forward(model, data)
    np.testing.assert_array_equal(after, np.concatenate([data.qpos, data.qvel, data.act]))
    return data


def states_along(member, steps: int, seed: int = 0):
    """Yield the states of a trajectory with random actions, each with the action and the state that follows."""
    rng = np.random.default_rng(seed)
    low, high = member.action_space.low, member.action_space.high
    state = member.reset(key=jax.random.key(seed))
    step = eqx.filter_jit(member.step)
    for _ in range(steps):
        action = jnp.asarray(rng.uniform(low, high), jnp.float32)
        reached = step(state, action, key=jax.random.key(0))
        yield state, action, reached
        state = reached


@pytest.mark.parametrize("name", ["normal", "slippery", "heavy"])
def test_a_step_is_mujocos_own(name, hoppers):
    given = {"normal": hopper(), "slippery": hopper(friction=0.3), "heavy": hopper(mass=2.0)}[name].compile()
    member = hoppers[name]
    for state, action, reached in states_along(member, 60):
        data = plain_step(given, state, action, 4)
        np.testing.assert_allclose(reached.qpos, data.qpos, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(reached.qvel, data.qvel, rtol=1e-5, atol=1e-5)
    assert data.ncon  # the hopper has fallen
    assert (int(reached.steps), float(reached.time)) == (60, pytest.approx(60 * 4 * 0.002))


def test_activations_sensors_and_the_keyframe_belong_to_the_state():
    models = {"earth": muscle(), "moon": muscle(-1.62)}
    floating = am.mujoco_class(models, entropy_on=lambda state: state.sensors[:3], position_noise=0.0)
    assert floating["moon"].entropy_names == ("feature 0", "feature 1", "feature 2")
    for name, model in models.items():
        start = floating[name].reset(key=jax.random.key(1))
        np.testing.assert_allclose(start.qpos, [0, 0, 1, 1, 0, 0, 0, 0.5])
        for state, action, reached in states_along(floating[name], 12):
            data = plain_step(model, state, action, 5)
            np.testing.assert_allclose(reached.act, data.act, rtol=1e-5)
            np.testing.assert_allclose(reached.sensors, data.sensordata, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(floating[name].features(reached), reached.sensors[:3])
        assert abs(float(reached.act[0])) > 0.01


def test_noise_at_the_start_keeps_quaternions_whole():
    floating = am.mujoco_class({"earth": muscle()}, position_noise=0.3, velocity_noise=0.5)["earth"]
    starts = jax.vmap(lambda key: floating.reset(key=key))(jax.random.split(jax.random.key(0), 4000))
    np.testing.assert_allclose(np.linalg.norm(starts.qpos[:, 3:7], axis=1), 1.0, rtol=1e-6)
    for column, centre in ((0, 0.0), (2, 1.0), (7, 0.5)):
        values = np.asarray(starts.qpos[:, column])
        assert np.abs(values - centre).max() <= 0.3
        assert values.std() == pytest.approx(0.3 / math.sqrt(3), rel=0.05)
    np.testing.assert_allclose(np.asarray(starts.qvel).std(axis=0), 0.5, rtol=0.06)


def test_seeds_step_together_and_do_not_change_each_other(hoppers):
    policies, keys = policies_for(hoppers, 3), jax.random.split(jax.random.key(5), 3)
    members = jnp.array([[0, 2], [1, 0], [2, 2]])
    together = collect_with_sampler(policies, hoppers, members, batch=2, horizon=30, keys=keys)
    assert together.particles.shape == (3, 2, 2, 30, 2)
    again = collect_with_sampler(policies, hoppers, members, batch=2, horizon=30, keys=keys)
    np.testing.assert_array_equal(together.particles, again.particles)
    for seed in range(3):
        alone = jax.tree.map(lambda leaf, seed=seed: leaf[seed : seed + 1], (policies, members, keys))
        single = collect_with_sampler(alone[0], hoppers, alone[1], batch=2, horizon=30, keys=alone[2])
        # A product of matrices may round otherwise if it has fewer rows.
        np.testing.assert_allclose(single.particles[0, ..., :5, :], together.particles[seed, ..., :5, :], atol=1e-4)


def test_tasks_are_learned_from_states_of_the_simulation(hoppers):
    fall = am.RewardFunction(lambda state, action, reached: state.qpos[1] - reached.qpos[1], name="fall")
    tasks = jax.tree.map(lambda leaf: leaf[None], fall)
    episodes = collect_episodes_with_sampler(
        policies_for(hoppers, 1),
        hoppers,
        "heavy",
        tasks,
        trajectories=2,
        horizon=20,
        keys=jax.random.split(jax.random.key(0), 1),
    )
    heights = np.asarray(episodes.perceived)[0, :, :, 1]
    np.testing.assert_allclose(np.asarray(episodes.rewards)[0, :, :-1], -np.diff(heights, axis=-1), atol=1e-6)


def test_members_without_tasks_have_those_of_the_class():
    far, near = am.HalfSpace((1.0, 0.0), 5.0), am.HalfSpace((1.0, 0.0), 1.0)
    members = {"normal": HOPPER, "heavy": am.MujocoModel(hopper(mass=2.0), tasks=[near])}
    hoppers = am.mujoco_class(members, entropy_on=slice(2), tasks=[far])
    assert (hoppers["normal"].tasks, hoppers["heavy"].tasks) == ((far,), (near,))


def test_an_end_of_ones_own():
    fallen = am.mujoco_class({"hopper": HOPPER}, frame_skip=4, ended=lambda state: state.qpos[1] < 1.0)
    trajectories = collect_with_sampler(
        policies_for(fallen, 1),
        fallen,
        jnp.zeros((1, 1), int),
        batch=4,
        horizon=150,
        keys=jax.random.split(jax.random.key(0), 1),
    )
    valid, heights = np.asarray(trajectories.valid)[0, 0], np.asarray(trajectories.particles)[0, 0, :, :, 1]
    assert not valid.all()
    for row in range(4):
        last = valid[row].sum() - 1
        assert (heights[row, :last] >= 1.0).all()
        assert heights[row, last] < 1.0 or last == 149


def test_a_simulation_that_diverges_is_told_with_the_name_of_its_member(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log into the working folder
    wild = hopper()
    for actuator in wild.actuators:
        actuator.gear[0] = 1e12
    members = {"tame": HOPPER, "wild": wild}
    hoppers = am.mujoco_class(members, frame_skip=4)
    policies, keys = policies_for(hoppers, 1), jax.random.split(jax.random.key(0), 1)
    with pytest.raises(am.RunError, match="environment wild: the simulation diverged"):
        collect_with_sampler(policies, hoppers, jnp.array([[0, 1]]), batch=2, horizon=20, keys=keys)
    collect_with_sampler(policies, hoppers, jnp.array([[0, 0]]), batch=2, horizon=20, keys=keys)
    assert list(tmp_path.iterdir()) == []


def test_a_simulation_without_enough_memory_is_told_with_the_name_of_its_member():
    specs = {"floating": hopper(), "falling": hopper()}
    specs["floating"].option.gravity = [0, 0, 0]
    for spec in specs.values():
        spec.memory = 7000
    hoppers = am.mujoco_class(specs, frame_skip=4)
    policies, keys = policies_for(hoppers, 1), jax.random.split(jax.random.key(0), 1)
    with pytest.raises(am.RunError, match="environment falling: a simulation needed more memory than its model gives"):
        collect_with_sampler(policies, hoppers, jnp.array([[0, 1]]), batch=2, horizon=100, keys=keys)


def test_dropped_contacts_are_told_once_for_each_member(hoppers, monkeypatch):
    monkeypatch.setattr(environment_warnings, "SHOWN", set())
    hoppers.members.engine._complaints |= {(1, "contacts"), (2, "contacts")}
    with pytest.warns(UserWarning, match="had more contacts than there was room for") as told:
        hoppers.members.check_samples(())
    assert [str(warning.message).partition(":")[0] for warning in told] == ["environment slippery", "environment heavy"]
    hoppers.members.engine._complaints |= {(1, "contacts")}
    hoppers.members.check_samples(())  # a second warning would be an error


def test_equal_classes_share_programs_and_others_do_not(hoppers):
    one, other = (am.mujoco_class({"hopper": HOPPER}, frame_skip=skip) for skip in (4, 4))
    third = am.mujoco_class({"hopper": HOPPER}, frame_skip=5)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert jax.tree.structure(one) != jax.tree.structure(third)
    assert one.fingerprint == other.fingerprint
    prints = {
        one.fingerprint,
        third.fingerprint,
        hoppers.fingerprint,
        am.mujoco_class({"hopper": hopper(mass=1.01)}, frame_skip=4).fingerprint,
        am.mujoco_class({"hopper": HOPPER}, frame_skip=4, entropy_on=[0]).fingerprint,
        am.mujoco_class({"hopper": HOPPER}, frame_skip=4, position_noise=0.0).fingerprint,
    }
    assert len(prints) == 6


def other_gear_range():
    spec = hopper()
    spec.actuators[0].ctrlrange = [-2, 2]
    return spec


def one_more_body():
    spec = hopper()
    spec.worldbody.add_body(name="stone", pos=[3, 0, 0]).add_geom(size=[0.1, 0, 0])
    return spec


def little_memory():
    spec = hopper()
    spec.memory = 9000
    return spec


def euler():
    spec = hopper()
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    return spec


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: am.mujoco_class({}), "members: none was given"),
        (lambda: am.mujoco_class({"a": "there-is-none.xml"}), "members: a is 'there-is-none.xml', which is not a file"),
        (lambda: am.mujoco_class({"a": 3}), "members: a is int; give an MjSpec, an MjModel, or the path"),
        (lambda: am.mujoco_class({"a": HOPPER, "b": one_more_body()}), "members: b and a differ in nbody: 6 and 5"),
        (lambda: am.mujoco_class({"a": HOPPER, "b": euler()}), "members: b and a differ in opt.integrator: 0 and 1"),
        (lambda: am.mujoco_class({"a": HOPPER, "b": other_gear_range()}), "differ in the ranges of their controls"),
        (
            lambda: am.mujoco_class({"a": HOPPER, "b": little_memory()}),
            "differ in the memory of a simulation: 9000 and",
        ),
        (lambda: am.mujoco_class({"a": HOPPER}, frame_skip=0), "frame_skip: 0 was given; it must be a whole number"),
        (lambda: am.mujoco_class({"a": HOPPER}, position_noise=-1.0), "position_noise: -1.0 was given"),
        (lambda: am.mujoco_class({"a": HOPPER}, velocity_noise=math.nan), "velocity_noise: nan was given"),
        (lambda: am.mujoco_class({"a": HOPPER}, entropy_on=[12]), r"entropy_on: \[12\] was given; an observation has"),
        (lambda: am.mujoco_class({"a": HOPPER}, entropy_on=[]), "entropy_on: it chooses no component"),
        (lambda: am.mujoco_class({"a": HOPPER}, entropy_on=lambda state: state.qpos[0]), "it must return a vector"),
        (lambda: am.mujoco_class({"a": HOPPER}, entropy_on=lambda state: state.speed), "entropy_on: the function fail"),
        (lambda: am.mujoco_class({"a": HOPPER}, observation=lambda state: 3), "observation: the function returned"),
        (lambda: am.mujoco_class({"a": HOPPER}, ended=lambda state: state.qpos), "ended: the function returned"),
        (lambda: am.mujoco_class({"a": HOPPER}, entropy_names=("x",)), "entropy_names: x was given; a particle has 12"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(call, sentence):
    with pytest.raises(am.InputError, match=sentence):
        call()


def test_a_model_without_actuators_and_a_broken_one_are_refused(tmp_path):
    passive = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    with pytest.raises(am.InputError, match="members: stone has no actuator"):
        am.mujoco_class({"stone": passive})
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><nonsense/></worldbody></mujoco>")
    with pytest.raises(am.InputError, match=r"members: the model of broken cannot be compiled \("):
        am.mujoco_class({"broken": broken})


@pytest.mark.quick
def test_a_class_of_ones_own_from_beginning_to_end(hoppers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = am.PretrainConfig(
        epochs=2, trajectories=8, batch=2, horizon=25, neighbours=5, hidden=(8, 8), evaluation_batches=3, seeds=2
    )
    run = am.pretrain(hoppers, config, quiet=True)
    assert run.folder == Path("runs/hoppers-alpha-0.2-seed-0")
    assert set(run.summary["entropy"]) == {"normal", "slippery", "heavy"}
    rows = (run.folder / "class.json").read_text()
    assert '"entropy_names"' in rows
    assert '"height"' in rows
    am.evaluate([run.folder, "random"], environment_class=hoppers, batches=3, quiet=True)
    forward = am.RewardFunction(lambda state, action, reached: reached.qvel[0], name="forward")
    tuned = am.finetune(
        run.folder,
        "slippery",
        am.TrpoConfig(iterations=2, horizon=25, steps=50, tasks=1),
        environment_class=hoppers,
        tasks=[forward],
        quiet=True,
    )
    assert np.isfinite(tuned.summary["returns"]).all()
