"""Test Ant Stairs: the ground, the episodes, and the class against plain MuJoCo."""

import math
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from alphamepol.environments.mujoco.ant import AntStairs, ant_goal, build_mujoco_ant, mujoco
from alphamepol.environments.mujoco.ant_stairs import make_ant_stairs
from alphamepol.errors import InputError, RunError

WEST_EAST = [(-1.0, 1.0), (1.0, 3.0), (3.0, 5.0), (5.0, 7.0)]
HEIGHTS = {"Up": [0.0, 0.50, 0.90, 1.27], "Down": [1.27, 0.90, 0.50, 0.0]}
SOUTH_NORTH = {"Up": (-1.0, 1.0), "Down": (-1.0, 5.0)}
REST = [0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0]
"""The joints at the start: hips straight, ankles bent by 1 rad."""
UNLIMITED = "ignore:.*A Box observation space (minimum|maximum) value is -?infinity"

both_members = pytest.mark.parametrize("member", ["Up", "Down"])


def standing(x: float, y: float, z: float, velocity: tuple[float, ...] = (0.0, 0.0, 0.0)) -> np.ndarray:
    """Return the physical state of an Ant in its first pose: time, positions, velocities."""
    return np.array([0.0, x, y, z, 1.0, 0.0, 0.0, 0.0, *REST, *velocity, *[0.0] * 11])


def expected_start(member: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    positions = standing(0.0, 0.0, HEIGHTS[member][0] + 0.75)[1:16] + rng.uniform(-0.1, 0.1, 15)
    positions[3:7] /= np.sqrt(np.sum(positions[3:7] ** 2))
    return np.array([0.0, *positions, *(0.1 * rng.standard_normal(14))])


def fly(member: str, starts: list[np.ndarray], controls: np.ndarray) -> np.ndarray:
    """Return the positions of the torso in rollouts from some starts, of shape (starts, 5 · control steps, 2)."""
    model = build_mujoco_ant(member)
    data = [mujoco.MjData(model), mujoco.MjData(model)]
    states, _ = mujoco.rollout.rollout(model, data, np.stack(starts), np.repeat(controls, 5, axis=1))
    assert np.all(states[:, -1, 0] == pytest.approx(0.05 * controls.shape[1]))  # no rollout stopped early
    return states[:, :, 1:3]


def random_actions(steps: int, rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.2, 1.2, (steps, rows, 8)).astype(np.float32)


# ---------------------------------------------------------------- the ground


@both_members
def test_blocks_and_walls_are_where_the_paper_has_them(member):
    model = build_mujoco_ant(member)

    def ends(name):
        return np.stack([model.geom(name).pos - model.geom(name).size, model.geom(name).pos + model.geom(name).size])

    south, north = SOUTH_NORTH[member]
    for i, ((west, east), height) in enumerate(zip(WEST_EAST, HEIGHTS[member], strict=True)):
        (low_x, low_y, bottom), high = ends(f"block_{i}" if height else "flat")
        np.testing.assert_allclose([low_x, low_y, *high], [west, south, east, north, height], atol=1e-12)
        assert bottom <= -1
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    walls = {
        "wall_west": (-1.0, [1, 0, 0]),
        "wall_east": (-7.0, [-1, 0, 0]),
        "wall_south": (south, [0, 1, 0]),
        "wall_north": (-north, [0, -1, 0]),
        "ground": (0.0, [0, 0, 1]),
    }
    for name, (offset, inwards) in walls.items():
        assert model.geom(name).type[0] == mujoco.mjtGeom.mjGEOM_PLANE
        np.testing.assert_allclose(data.geom(name).xmat.reshape(3, 3)[:, 2], inwards, atol=1e-12)
        assert data.geom(name).xpos @ inwards == pytest.approx(offset)


@both_members
def test_the_ant_is_gymnasiums_with_the_contacts_of_rllab(member):
    model = build_mujoco_ant(member)
    xml = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml"
    original = mujoco.MjModel.from_xml_path(str(xml))
    for field in ("body_mass", "body_inertia", "jnt_range", "dof_damping", "dof_armature", "actuator_gear", "qpos0"):
        np.testing.assert_array_equal(getattr(model, field), getattr(original, field))
    assert model.opt.timestep == original.opt.timestep == 0.01
    np.testing.assert_array_equal(model.actuator_gear[:, 0], 150)
    np.testing.assert_array_equal(model.actuator_ctrlrange, [[-1, 1]] * 8)
    np.testing.assert_allclose(model.geom_solimp[:, :3], [[0.8, 0.8, 0.01]] * model.ngeom)
    # The ground has the contacts of Gymnasium's floor. The parts of the Ant do not touch each other.
    solid = (model.geom_bodyid == 0) & (model.geom_contype > 0)
    assert solid.sum() == 9  # four blocks, of which one is hidden, four walls and the ground
    for field in ("geom_friction", "geom_condim", "geom_contype", "geom_conaffinity", "geom_solref"):
        floor = getattr(original, field)[original.geom("floor").id]
        np.testing.assert_array_equal(getattr(model, field)[solid], np.broadcast_to(floor, (9, *np.shape(floor))))
    assert not model.geom_conaffinity[~solid].any()


@both_members
def test_a_dropped_ant_comes_to_rest_on_every_step(member):
    for i, ((west, east), height) in enumerate(zip(WEST_EAST, HEIGHTS[member], strict=True)):
        for y in {0.0, sum(SOUTH_NORTH[member]) / 2}:
            model = build_mujoco_ant(member)
            data = mujoco.MjData(model)
            start = standing((west + east) / 2, y, height + 0.75)
            data.qpos[:], data.qvel[:] = start[1:16], start[16:]
            mujoco.mj_step(model, data, nstep=1100)  # the legs bend slowly until the Ant rests
            assert np.abs(data.qvel).max() < 1e-6
            # The Ant rests on its four feet. Contact begins 1 cm above the ground, which is rllab's margin.
            assert data.ncon == 4
            for contact in data.contact:
                assert contact.includemargin == 0.01
                assert 0.009 < contact.dist < 0.01
                assert contact.pos[2] == pytest.approx(height + contact.dist / 2, abs=1e-9)
            feet = {f"{which}_ankle_geom" for which in ("left", "right", "third", "fourth")}
            touching = {frozenset(model.geom(geom).name for geom in contact.geom) for contact in data.contact}
            assert touching == {frozenset([foot, f"block_{i}" if height else "ground"]) for foot in feet}
            # The height above the step is the same for all steps. The lower legs have length 0.4·√2 and radius 0.08,
            # and point 30° down.
            assert data.qpos[2] - height == pytest.approx(
                0.4 * math.sqrt(2) * math.sin(math.pi / 6) + 0.08 + 0.0093, abs=1e-3
            )


@both_members
def test_nothing_passes_the_walls(member):
    (south, north), heights = SOUTH_NORTH[member], HEIGHTS[member]
    middle = (south + north) / 2
    angles = np.arange(8) * math.pi / 4
    throws = [
        standing((west + east) / 2, middle, height + z, (10 * math.cos(angle), 10 * math.sin(angle), 0.0))
        for (west, east), height in zip(WEST_EAST, heights, strict=True)
        for z in (0.5, 1.5)
        for angle in angles
    ]
    # The throws are faster than any jump: under full random controls, 99.9 % of the speeds are below 6.3.
    for starts, steps in (throws, 30), ([expected_start(member, seed) for seed in range(12)], 400):
        controls = np.sign(np.random.default_rng(1).normal(size=(len(starts), steps, 8)))
        places = fly(member, starts, controls)
        assert np.all((places >= [-1.0, south]) & (places <= [7.0, north]))
        if starts is throws:  # the throws reach the walls: legs reach 0.9 from the torso's centre
            low, high = places.min(axis=(0, 1)), places.max(axis=(0, 1))
            assert np.all((low <= [-0.1, south + 0.9]) & (high >= [6.1, north - 0.9]))


# ---------------------------------------------------------------- episodes


@pytest.mark.filterwarnings(UNLIMITED)
@pytest.mark.parametrize(
    ("entry_point", "arguments"),
    [
        ("AntStairs", {"member": "Up"}),
        ("AntStairs", {"member": "Down", "with_time": True, "integrator": "Euler"}),
        ("ant_goal", {"member": "Up", "x": 3}),
    ],
)
def test_gymnasiums_own_checker_has_nothing_to_say(entry_point, arguments):
    spec = EnvSpec("AntStairs-v0", entry_point=f"alphamepol.environments.mujoco.ant:{entry_point}", kwargs=arguments)
    check_env(gymnasium.make(spec).unwrapped, skip_render_check=True)


@both_members
def test_an_episode_starts_above_the_first_block(member):
    env = AntStairs(member)
    starts = np.stack([env.reset(seed=seed)[0] for seed in range(300)])
    np.testing.assert_allclose(starts[7], expected_start(member, 7)[1:], rtol=1e-6)
    places, joints, velocities = starts[:, :3], starts[:, 7:15], starts[:, 15:]
    for values, centre in (places, [0.0, 0.0, HEIGHTS[member][0] + 0.75]), (joints, REST):
        assert np.abs(values - centre).max() <= 0.1 + 1e-6
        np.testing.assert_allclose(values.std(axis=0), 0.1 / math.sqrt(3), rtol=0.15)
    np.testing.assert_allclose(np.linalg.norm(starts[:, 3:7], axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(velocities.std(axis=0), 0.1, rtol=0.2)


def test_an_episode_without_a_goal_is_truncated_at_the_horizon_and_rewards_nothing():
    env = AntStairs("Up", horizon=7)
    env.reset(seed=0)
    steps = [env.step(env.action_space.sample()) for _ in range(7)]
    assert [(reward, terminated) for _, reward, terminated, _, _ in steps] == [(0.0, False)] * 7
    assert [truncated for *_, truncated, _ in steps] == [False] * 6 + [True]
    assert all(info == {} for *_, info in steps)


def test_the_time_is_the_last_number_of_an_observation_if_asked_for():
    env = AntStairs("Down", with_time=True)
    seen = [env.reset(seed=3)[0], *[env.step(np.zeros(8))[0] for _ in range(40)]]
    assert env.observation_space.shape == (30,)
    np.testing.assert_array_equal(np.stack(seen)[:, -1], np.arange(41, dtype=np.float32) / np.float32(1000))
    assert env.reset()[0][-1] == 0
    plain = AntStairs("Down")
    np.testing.assert_array_equal(plain.reset(seed=3)[0], seen[0][:-1])


def test_reaching_x_is_rewarded_and_ends_the_episode():
    env = ant_goal("Up", x=0.5)
    env.reset(seed=0)
    env.data.qvel[0] = 4.0
    for _ in range(20):
        observation, reward, terminated, truncated, info = env.step(np.zeros(8))
        assert (reward, terminated, info) == (
            (1.0, True, {"is_success": True}) if observation[0] >= 0.5 else (0.0, False, {"is_success": False})
        )
        if terminated:
            break
    assert terminated
    assert not truncated


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: AntStairs("Left"), "member: class ant-stairs has no member 'Left', only Down, Up"),
        (lambda: AntStairs("Up", horizon=0), "horizon: 0 was given; it must be a whole number, at least 1"),
        (
            lambda: AntStairs("Up", render_mode="human"),
            "render_mode: 'human' was given; only 'rgb_array' or None is possible",
        ),
        (
            lambda: AntStairs("Up", integrator="rk4"),
            "integrator: 'rk4' was given; only RK4, implicitfast, Euler are possible",
        ),
        (
            lambda: make_ant_stairs(integrator="implicit"),
            "integrator: 'implicit' was given; only RK4, implicitfast, Euler are possible",
        ),
        (lambda: AntStairs("Up", x=9), "x: 9 was given; it must be between -1 and 7, where the staircase ends"),
        (
            lambda: AntStairs("Up", x=math.nan),
            "x: nan was given; it must be between -1 and 7, where the staircase ends",
        ),
        (lambda: ant_goal("Up"), "x: none was given; say how far east the goal is, e.g. x=3"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(call, sentence):
    with pytest.raises(InputError) as refusal:
        call()
    assert str(refusal.value) == sentence


# ---------------------------------------------------------------- the class


def test_a_simulation_that_goes_wrong_stops_an_episode_with_the_members_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log into the working folder
    env = AntStairs("Up")
    env.reset(seed=0)
    with pytest.raises(RunError, match="environment Up: the simulation of the Ant diverged"):
        env.step(np.full(8, np.nan))
    env.reset(seed=0)
    env.step(np.zeros(8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("integrator", ["RK4", "implicitfast", "Euler"])
def test_the_class_and_an_environment_step_alike(integrator):
    stairs = make_ant_stairs(integrator, with_time=True)
    actions = random_actions(20, 2)
    for column, name in enumerate(["Up", "Down"]):
        member = stairs[name]
        env = AntStairs(name, integrator=integrator, with_time=True)
        env.reset(seed=0)
        state = member.reset(key=jax.random.key(3))
        for t, action in enumerate(actions[:, column]):
            # The class keeps its states in float32, and chaos parts trajectories. So each step begins anew.
            env.data.qpos[:], env.data.qvel[:], env.data.time = state.qpos, state.qvel, 0.05 * t
            observation, *_ = env.step(action)
            state = member.step(state, jax.numpy.asarray(action), key=jax.random.key(0))
            np.testing.assert_allclose(member.observe(state), observation, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(member.features(state), state.qpos[:2])
        assert observation[-1] == np.float32(20 / 1000)


@both_members
def test_an_episode_of_the_class_starts_as_one_of_the_environment(member):
    where = make_ant_stairs()[member]
    starts = jax.vmap(lambda key: where.reset(key=key))(jax.random.split(jax.random.key(0), 2000))
    env = AntStairs(member)
    others = np.stack([env.reset(seed=seed)[0] for seed in range(2000)])
    ours = np.concatenate([starts.qpos, starts.qvel], axis=1)
    np.testing.assert_allclose(ours.mean(axis=0), others.mean(axis=0), atol=0.012)
    np.testing.assert_allclose(ours.std(axis=0), others.std(axis=0), rtol=0.12, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(starts.qpos[:, 3:7], axis=1), 1.0, rtol=1e-6)


def test_the_class_has_the_members_of_the_paper():
    stairs = make_ant_stairs()
    assert (stairs.name, stairs.names, stairs.probabilities) == ("ant-stairs", ("Down", "Up"), (0.8, 0.2))
    down, up = stairs["Down"], stairs["Up"]
    assert (down.entropy_ceiling, up.entropy_ceiling) == pytest.approx((math.log(48), math.log(16)))
    assert [task.describe() for task in down.tasks] == []
    assert [task.describe() for task in up.tasks] == [
        {"normal": [1.0, 0.0], "offset": x} for x in (2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25, 4.5)
    ]
    for member in (down, up):
        assert member.observation_space == gymnasium.spaces.Box(-np.inf, np.inf, (29,), np.float32)
        assert member.action_space == gymnasium.spaces.Box(-1, 1, (8,), np.float32)
        assert (member.entropy_names, member.time_limit) == (("x", "y"), math.inf)
        # Patches cover the whole map: blocks, and walls elsewhere.
        assert member.map.extent == (-1, 7, -1, 5)
        assert sum(math.prod(patch.size) for patch in member.map.patches) == 48
    assert [(patch.corner, patch.size) for patch in up.map.patches] == [
        *[((west, -1), (2, 2)) for west, _ in WEST_EAST], ((-1, 1), (8, 4))
    ]  # fmt: skip
    assert [(patch.corner, patch.size) for patch in down.map.patches] == [((west, -1), (2, 6)) for west, _ in WEST_EAST]
    assert [patch.kind for patch in up.map.patches] == ["level"] * 4 + ["wall"]
    assert [patch.kind for patch in down.map.patches] == ["level"] * 4


def test_classes_that_differ_can_be_told_apart():
    others = [
        make_ant_stairs(),
        make_ant_stairs("Euler"),
        make_ant_stairs("implicitfast"),
        make_ant_stairs(with_time=True),
    ]
    assert [one.name for one in others] == ["ant-stairs", "ant-stairs-euler", "ant-stairs-implicitfast", "ant-stairs"]
    assert len({one.fingerprint for one in others}) == 4
    assert others[3]["Up"].observation_space.shape == (30,)


# ---------------------------------------------------------------- pictures, and missing libraries


def python(program: str, **variables: str) -> str:
    """Return what a program prints in a fresh interpreter, as on a machine without a display."""
    kept = {name: value for name, value in os.environ.items() if "DISPLAY" not in name and name != "MUJOCO_GL"}
    environment = {**kept, **variables}
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def test_a_picture_shows_the_ant_or_a_sentence_says_what_is_missing():
    env = AntStairs("Up", render_mode="rgb_array", x=3)
    env.reset(seed=0)
    first, reason = None, ""
    try:
        first = env.render()
    except RunError as missing:
        reason = str(missing)
    if first is None:
        assert "OpenGL" in reason
        assert "MUJOCO_GL=egl" in reason
    else:
        assert (first.shape, first.dtype) == ((400, 640, 3), np.uint8)
        np.testing.assert_array_equal(env.render(), first)
        env.data.qpos[0] += 2.0
        moved = env.render()
        # The Ant is orange: only there is red far above blue.
        ants = [np.argwhere(picture[..., 0] > picture[..., 2] + 60.0) for picture in (first, moved)]
        assert ants[1][:, 1].mean() > ants[0][:, 1].mean() + 50
    env.close()
    env.close()
    assert AntStairs("Up").render() is None


def test_without_opengl_all_but_pictures_works():
    program = """
import numpy as np
from alphamepol.environments.mujoco.ant import AntStairs
from alphamepol.environments.mujoco.ant import RunError
env = AntStairs("Up", render_mode="rgb_array")
env.reset(seed=0)
env.step(np.zeros(8))
try:
    env.render()
except RunError as error:
    print(error)
"""
    printed = python(program, MUJOCO_GL="disabled")
    assert printed.startswith("render: MuJoCo cannot draw without OpenGL (")
    assert "install libegl1 and libgl1 and set MUJOCO_GL=egl, or install libosmesa6 and set MUJOCO_GL=osmesa" in printed


def test_a_users_choice_of_opengl_stands_and_a_wrong_one_is_refused():
    program = "import os, alphamepol.environments.mujoco.ant; print(os.environ.get('MUJOCO_GL'))"
    assert python(program, MUJOCO_GL="glfw") == "glfw"
    assert python(program) in ("egl", "None")
    wrong = "try: import alphamepol.environments.mujoco.ant\nexcept ValueError as error: print(error)"
    assert python(wrong, MUJOCO_GL="wrong").startswith("MUJOCO_GL: 'wrong' was given, which does not work (")


def test_without_mujoco_a_sentence_says_what_to_install_and_jax_is_not_needed():
    program = """
import sys
import alphamepol.environments.mujoco.ant
print("jax" in sys.modules)
for name in [name for name in sys.modules if name.startswith("alphamepol.environments.mujoco")]:
    del sys.modules[name]
sys.modules["mujoco"] = None
try:
    import alphamepol.environments.mujoco.ant
except ValueError as error:
    print(error)
"""
    assert python(program).splitlines() == [
        "False",
        "classes of MuJoCo models need MuJoCo: pip install 'alphamepol[mujoco]'",
    ]
