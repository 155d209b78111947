"""Test the engine of MuJoCo Warp against MuJoCo itself, on Warp's CPU device."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco_warp
import numpy as np
import pytest
from mujoco_models import HOPPER, hopper, muscle, policies_for

import alphamepol as am
from alphamepol.environments.mujoco import engines
from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs
from alphamepol.environments.mujoco.library import mujoco
from alphamepol.sampling.sampler import collect_with_sampler

ROWS = 64


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let classes choose the engine as if there were a GPU. It then computes where JAX does, on the CPU."""
    monkeypatch.setattr(engines, "has_nvidia_gpu", lambda: True)


def elliptic(model: "mujoco.MjModel") -> "mujoco.MjModel":
    model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return model


@eqx.filter_jit
def step_all(members, states, actions):
    """Take one control step in each row, in the member of this row."""
    return jax.vmap(lambda member, state, action: member.step(state, action, key=jax.random.key(0)))(
        members, states, actions
    )


def differences_along(environment_class, control_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Step all rows with MuJoCo, and each of its states with Warp, too.

    Return the largest difference in a position after each control step, and the largest difference in a velocity, of
    shape (control steps, rows).
    """
    numbers = jnp.arange(ROWS) % len(environment_class)
    ours, theirs = (
        jax.tree.map(lambda leaf: leaf[numbers], environment_class.with_physics(kind).members)
        for kind in ("gpu", "cpu")
    )
    states = jax.vmap(lambda member, key: member.reset(key=key))(theirs, jax.random.split(jax.random.key(0), ROWS))
    space = environment_class[0].action_space
    found = []
    for t in range(control_steps):
        actions = jax.random.uniform(jax.random.key(t), (ROWS, *space.shape), minval=space.low, maxval=space.high)
        expected, moved = step_all(theirs, states, actions), step_all(ours, states, actions)
        found.append([jnp.abs(moved.qpos - expected.qpos).max(1), jnp.abs(moved.qvel - expected.qvel).max(1)])
        np.testing.assert_array_equal(moved.time, expected.time)
        np.testing.assert_allclose(moved.act, expected.act, atol=1e-5)
        states = expected
    assert ours.engine.take_complaints() == theirs.engine.take_complaints() == []
    positions, velocities = np.moveaxis(np.array(found), 1, 0)
    return positions, velocities


def test_members_of_one_model_step_as_their_own_models_do():
    """The muscles do not touch anything. They differ in mass and in gravity, which belongs to the options."""
    heavy = muscle()
    heavy.body_mass[1] *= 3
    muscles = am.mujoco_class({"earth": muscle(), "moon": muscle(-1.62), "heavy": heavy}, entropy_on=slice(3))
    positions, velocities = differences_along(muscles, 4)
    assert np.median(positions) < 1e-6
    assert positions.max() < 1e-4  # some arms turn fast
    assert np.median(velocities) < 1e-5


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_ants_step_as_in_mujoco(integrator):
    """The Ants fall onto the stairs of their member. Their friction cones are pyramidal.

    Without the correction of capsules on planes, the largest difference would be 0.01 to 0.2.
    """
    positions, _ = differences_along(make_ant_stairs(integrator), 25)
    assert np.median(positions) < 1e-6
    assert np.quantile(positions, 0.99) < 1e-5
    assert positions.max() < 1e-3


def test_elliptic_contacts_agree():
    specs = {"normal": hopper(), "slippery": hopper(friction=0.3), "heavy": hopper(mass=2.0)}
    hoppers = am.mujoco_class({name: elliptic(spec.compile()) for name, spec in specs.items()}, frame_skip=4)
    positions, _ = differences_along(hoppers, 40)
    assert positions.max() < 1e-4
    assert np.quantile(positions, 0.99) < 1e-5


def test_sampling_is_one_program_for_all_seeds():
    muscles = am.mujoco_class({"earth": muscle(), "moon": muscle(-1.6)}, entropy_on=slice(3), physics="gpu")
    assert muscles["moon"].remark.startswith("MuJoCo Warp steps the simulations on ")
    policies, keys = policies_for(muscles, 2), jax.random.split(jax.random.key(1), 2)
    members = jnp.array([[0, 1], [1, 1]])
    found = collect_with_sampler(policies, muscles, members, batch=2, horizon=4, keys=keys)
    expected = collect_with_sampler(policies, muscles.with_physics("cpu"), members, batch=2, horizon=4, keys=keys)
    assert found.particles.shape == (2, 2, 2, 4, 3)
    np.testing.assert_allclose(found.particles, expected.particles, atol=1e-5)
    np.testing.assert_allclose(found.actions, expected.actions, atol=1e-5)
    assert list(muscles.members.engine._worlds) == [8]  # all seeds, mini-batches and trajectories


def test_a_world_that_is_lost_is_told_and_the_others_go_on():
    wild = hopper()
    for actuator in wild.actuators:
        actuator.gear[0] = 1e12
    hoppers = am.mujoco_class({"tame": HOPPER, "wild": wild}, frame_skip=4, physics="gpu")
    policies, keys = policies_for(hoppers, 1), jax.random.split(jax.random.key(0), 1)
    with pytest.raises(am.RunError, match="environment wild: the simulation diverged"):
        collect_with_sampler(policies, hoppers, jnp.array([[0, 1]]), batch=2, horizon=5, keys=keys)
    collect_with_sampler(policies, hoppers, jnp.array([[0, 0]]), batch=2, horizon=5, keys=keys)
    member = hoppers["tame"]
    states = jax.vmap(lambda key: member.reset(key=key))(jax.random.split(jax.random.key(0), 4))
    actions = jnp.zeros((4, 3)).at[1, 0].set(jnp.nan)
    rows = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (4, *leaf.shape)), member)
    reached = step_all(rows, states, actions)
    assert np.isfinite(reached.qpos).all(axis=1).tolist() == [True, False, True, True]
    assert member.engine.take_complaints() == [(0, "diverged")]
    again = step_all(rows, reached, jnp.zeros((4, 3)))
    assert np.isfinite(again.qpos).all(axis=1).tolist() == [True, False, True, True]
    assert member.engine.take_complaints() == []  # it was told before


def test_dropped_contacts_are_noted_and_there_is_more_room_from_then_on(monkeypatch):
    make_data = mujoco_warp.make_data
    monkeypatch.setattr(mujoco_warp, "make_data", lambda *given, **sizes: make_data(*given, **({"njmax": 8} | sizes)))
    fallen = hopper()
    fallen.add_key(qpos=[0, -1.3, 1.5, 0, 0, 0])  # the hopper lies on the ground
    member = am.mujoco_class({"fallen": fallen}, frame_skip=1, physics="gpu")["fallen"]
    rows = jax.tree.map(lambda leaf: leaf[None], (member, member.start))
    complaints = []
    for _ in range(4):
        reached = step_all(*rows, jnp.zeros((1, 3)))
        complaints.append(member.engine.take_complaints())
    assert complaints[0] == [(0, "room")]
    assert complaints[-1] == []
    monkeypatch.undo()
    expected = step_all(rows[0].with_physics("cpu"), rows[1], jnp.zeros((1, 3)))
    np.testing.assert_allclose(reached.qpos, expected.qpos, atol=1e-5)


def test_models_that_warp_cannot_step_together_are_stepped_on_the_cpu():
    other = hopper().compile()
    other.geom_contype[1] = 0
    members = {"normal": HOPPER, "other": other}
    with pytest.raises(am.InputError, match="other and normal together, because they differ in geom_contype"):
        am.mujoco_class(members, physics="gpu")
    chosen = am.mujoco_class(members)["other"]
    assert chosen.engine.kind == "cpu"
    assert chosen.remark.startswith("MuJoCo steps the simulations on ")
    assert "differ in geom_contype" in chosen.remark


def test_the_engine_is_chosen_by_what_is_there(monkeypatch):
    assert am.mujoco_class({"hopper": HOPPER})["hopper"].engine.kind == "gpu"
    assert am.mujoco_class({"hopper": HOPPER}, physics="cpu")["hopper"].engine.kind == "cpu"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(engines, "_engines", {})
    with pytest.raises(am.InputError, match=r"MuJoCo Warp is not installed: pip install 'alphamepol\[gpu-physics\]'"):
        am.mujoco_class({"hopper": HOPPER}, physics="gpu")
    monkeypatch.setattr(engines, "has_nvidia_gpu", lambda: False)
    assert am.mujoco_class({"hopper": HOPPER})["hopper"].remark in (
        "MuJoCo steps the simulations on 1 core",
        *(f"MuJoCo steps the simulations on {cores} cores" for cores in range(2, 1000)),
    )
    with pytest.raises(am.InputError, match="physics: gpu was given; JAX sees no NVIDIA GPU here"):
        am.mujoco_class({"hopper": HOPPER}, physics="gpu")


def test_only_mujoco_classes_have_an_engine():
    with pytest.raises(am.InputError, match="physics: cpu was given; only classes of MuJoCo models have an engine"):
        am.pretrain("gridworld-slope", physics="cpu")
