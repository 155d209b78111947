"""Test Ant Stairs: the ground, the episodes, and the fleet against plain MuJoCo."""

import math
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from alphamepol.environments.mujoco.ant import AntStairs, ant_goal, build_mujoco_ant, mujoco
from alphamepol.environments.mujoco.ant_fleet import AntFleet, ant_stairs_with_fleet
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


def plain_loop(member: str, start: np.ndarray, actions: np.ndarray, steps_per_action: int = 5) -> np.ndarray:
    """Return the physical states after each action, computed with MuJoCo's own step."""
    model = build_mujoco_ant(member)
    data = mujoco.MjData(model)
    data.time, data.qpos[:], data.qvel[:] = start[0], start[1:16], start[16:]
    states = []
    for action in actions:
        data.ctrl[:] = action
        for _ in range(steps_per_action):
            mujoco.mj_step(model, data)
        states.append(np.array([data.time, *data.qpos, *data.qvel]))
    return np.stack(states)


def fly(member: str, starts: list[np.ndarray], controls: np.ndarray) -> np.ndarray:
    """Return the positions of the torso in rollouts from some starts, of shape (starts, 5 · control steps, 2)."""
    model = build_mujoco_ant(member)
    data = [mujoco.MjData(model), mujoco.MjData(model)]
    states, _ = mujoco.rollout.rollout(model, data, np.stack(starts), np.repeat(controls, 5, axis=1))
    assert np.all(states[:, -1, 0] == pytest.approx(0.05 * controls.shape[1]))  # no rollout stopped early
    return states[:, :, 1:3]


def run_fleet(fleet: AntFleet, members: list[int], actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the physical states, observations and particles of all stations at every step.

    Station i starts with seed i.
    """
    stations = np.arange(len(members))
    board = fleet.board(len(members))
    fleet.reset(board, stations, np.array(members), stations.astype(np.uint32))
    seen = [(fleet.states.copy(), board.observations.copy(), board.particles.copy())]
    for action in actions:
        fleet.step(board, stations, action)
        assert not board.over.any()
        assert not board.rewards.any()
        seen.append((fleet.states.copy(), board.observations.copy(), board.particles.copy()))
    fleet.close()
    states, observations, particles = (np.stack(part) for part in zip(*seen, strict=True))
    return states, observations, particles


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
        (low_x, low_y, bottom), high = ends(f"block_{i}")
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
    assert solid.sum() == 8
    for field in ("geom_friction", "geom_condim", "geom_contype", "geom_conaffinity", "geom_solref"):
        floor = getattr(original, field)[original.geom("floor").id]
        np.testing.assert_array_equal(getattr(model, field)[solid], np.broadcast_to(floor, (8, *np.shape(floor))))
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
            lambda: ant_stairs_with_fleet(integrator="implicit"),
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


# ---------------------------------------------------------------- the fleet


@pytest.mark.parametrize("threads", [1, 2])
def test_the_fleet_steps_as_a_plain_loop_of_mujoco_does(threads):
    members = [0, 1, 1, 0]
    actions = random_actions(100, 4)
    states, _, particles = run_fleet(AntFleet(["Down", "Up"], threads=threads), members, actions)
    for station, member in enumerate(members):
        name = ("Down", "Up")[member]
        start = states[0, station]
        np.testing.assert_allclose(start, expected_start(name, station), atol=1e-15)
        # The states are equal to the bit. With MuJoCo's warm start they would differ by 1e-10 to 1e-7 here, and by
        # metres after 400 steps.
        np.testing.assert_array_equal(states[1:, station], plain_loop(name, start, actions[:, station]))
    np.testing.assert_array_equal(particles, states[:, :, 1:3].astype(np.float32))


@pytest.mark.parametrize("integrator", ["RK4", "implicitfast", "Euler"])
def test_a_fleet_and_an_environment_observe_the_same(integrator):
    members = [1, 0]
    actions = random_actions(30, 2)
    _, observations, _ = run_fleet(AntFleet(["Down", "Up"], integrator, with_time=True), members, actions)
    for station, name in enumerate(["Up", "Down"]):
        env = AntStairs(name, integrator=integrator, with_time=True)
        alone = [env.reset(seed=station)[0], *[env.step(action)[0] for action in actions[:, station]]]
        np.testing.assert_array_equal(observations[:, station], np.stack(alone))


def test_the_number_of_threads_changes_no_bit():
    members = [0, 1, 0, 0, 1, 0, 1]
    actions = random_actions(40, 7)
    one, two, three = (run_fleet(AntFleet(["Down", "Up"], threads=n), members, actions)[0] for n in (1, 2, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


def test_stations_that_are_not_asked_stand_still_and_others_do_not_notice():
    actions = random_actions(10, 3)
    states, observations, _ = run_fleet(AntFleet(["Down", "Up"]), [0, 1, 0], actions)
    fleet = AntFleet(["Down", "Up"])
    board = fleet.board(3)
    assert (len(board.observations), board.together) == (3, 3)
    fleet.reset(board, np.array([2, 1]), np.array([0, 1]), np.array([2, 1], np.uint32))
    for action in actions:
        fleet.step(board, np.array([2]), action)
    fleet.step(board, np.array([], int), actions[0])
    np.testing.assert_array_equal(fleet.states[2], states[-1, 2])
    np.testing.assert_array_equal(board.observations[1], observations[0, 1])
    fleet.close()
    fleet.close()
    fleet.step(board, np.array([1]), actions[0])  # this starts the threads again
    np.testing.assert_array_equal(fleet.states[1], states[1, 1])
    np.testing.assert_array_equal(board.observations[2], observations[-1, 2])
    fleet.close()


def test_a_simulation_that_goes_wrong_stops_the_run_with_the_members_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log into the working folder
    env = AntStairs("Up")
    env.reset(seed=0)
    with pytest.raises(RunError, match="environment Up: the simulation of the Ant diverged"):
        env.step(np.full(8, np.nan))
    env.reset(seed=0)
    env.step(np.zeros(8))
    fleet = AntFleet(["Down", "Up"])
    stations = np.arange(3)
    board = fleet.board(3)
    fleet.reset(board, stations, np.array([0, 1, 0]), stations.astype(np.uint32))
    nothing = np.zeros((3, 8), np.float32)
    fleet.step(board, stations, nothing)
    fleet.states[1, 20] = 1e12
    with pytest.raises(RunError, match="environment Up: the simulation of the Ant diverged"):
        fleet.step(board, stations, nothing)
    fleet.close()


# ---------------------------------------------------------------- the class


def test_the_class_has_the_members_of_the_paper():
    stairs = ant_stairs_with_fleet()
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
        assert (member.feature_size, member.time_limit) == (2, math.inf)
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
        ant_stairs_with_fleet(),
        ant_stairs_with_fleet("Euler"),
        ant_stairs_with_fleet("implicitfast"),
        ant_stairs_with_fleet(with_time=True),
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
del sys.modules["alphamepol.environments.mujoco.ant"]
sys.modules["mujoco"] = None
try:
    import alphamepol.environments.mujoco.ant
except ValueError as error:
    print(error)
"""
    assert python(program).splitlines() == ["False", "class ant-stairs needs MuJoCo: pip install 'alphamepol[ant]'"]
