"""Test the members as Gymnasium environments."""

import subprocess
import sys

import gridworld_oracle as oracle
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import alphamepol  # noqa: F401 (registers the ids)
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.gridworld.drawing import AGENT, GOAL, draw_gridworld_trail
from alphamepol.environments.gridworld.gridworld import Gridworld
from alphamepol.environments.gymnasium import member_environment
from alphamepol.environments.gymnasium.member_environment import MemberEnvironment
from alphamepol.environments.make import make
from alphamepol.errors import InputError

IDS = ["alphamepol/GWS-v0", "alphamepol/GWN-v0", "alphamepol/MultiGrid-v0", "alphamepol/Counterexample-v0"]
every_id = pytest.mark.parametrize("env_id", IDS)


def trajectory(env: gymnasium.Env, seed: int, steps: int = 30) -> np.ndarray:
    """Return the observations of an episode with random actions. The actions are the same for every seed."""
    rng = np.random.default_rng(0)
    observations = [env.reset(seed=seed)[0]]
    observations += [env.step(rng.uniform(-0.2, 0.2, 2).astype(np.float32))[0] for _ in range(steps)]
    return np.stack(observations)


# ---------------------------------------------------------------- the ids


def test_importing_the_package_registers_the_ids_without_loading_jax():
    program = f"""
import sys, alphamepol, gymnasium
missing = set({IDS}) - set(gymnasium.registry)
print(sorted(missing), "jax" in sys.modules)
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[] False"


@pytest.mark.parametrize(
    ("env_id", "arguments", "name"),
    [
        ("alphamepol/GWS-v0", {}, "GWS"),
        ("alphamepol/GWN-v0", {}, "GWN"),
        ("alphamepol/MultiGrid-v0", {}, "MG0"),
        *[("alphamepol/MultiGrid-v0", {"member": i}, f"MG{i}") for i in range(10)],
        ("alphamepol/MultiGrid-v0", {"member": "MG5"}, "MG5"),
        ("alphamepol/Counterexample-v0", {}, "four-rooms"),
        ("alphamepol/Counterexample-v0", {"member": 1}, "two-halls"),
        ("alphamepol/Counterexample-v0", {"member": "two-halls"}, "two-halls"),
    ],
)
def test_an_id_makes_its_member(env_id, arguments, name):
    member = gymnasium.make(env_id, **arguments).unwrapped.member
    (facts,) = [facts for facts in oracle.MEMBERS if facts.name == name]
    np.testing.assert_array_equal(member.walls, facts.walls)
    np.testing.assert_array_equal(member.slope_direction, facts.slope_direction)
    assert float(member.slope_mean) == pytest.approx(facts.slope_mean)


@every_id
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_gymnasiums_own_checker_has_nothing_to_say(env_id, render_mode):
    check_env(gymnasium.make(env_id, render_mode=render_mode).unwrapped, skip_render_check=False)


@pytest.mark.parametrize("arguments", [{"member": 3}, {"member": 9}, {"horizon": 7}])
def test_the_checker_has_nothing_to_say_with_arguments_either(arguments):
    check_env(gymnasium.make("alphamepol/MultiGrid-v0", **arguments).unwrapped)


# ---------------------------------------------------------------- episodes


@every_id
def test_observation_is_the_position_and_the_reward_is_0(env_id):
    env = gymnasium.make(env_id)
    observation, info = env.reset(seed=0)
    assert info == {}
    assert -1 <= observation[0] <= -0.5
    assert 0.5 <= observation[1] <= 1
    for _ in range(5):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert observation.dtype == np.float32
        assert observation.shape == (2,)
        assert (reward, terminated, truncated) == (0.0, False, False)


@pytest.mark.parametrize(("arguments", "horizon"), [({}, 400), ({"horizon": 3}, 3), ({"horizon": 1}, 1)])
def test_an_episode_is_truncated_at_its_horizon(arguments, horizon):
    env = gymnasium.make("alphamepol/GWS-v0", **arguments)
    for _ in range(2):  # the second episode is as long as the first
        env.reset(seed=0)
        ends = [env.step(np.zeros(2, np.float32))[2:4] for _ in range(horizon)]
        assert ends == [(False, False)] * (horizon - 1) + [(False, True)]


@every_id
def test_a_seed_determines_the_trajectory(env_id):
    env, another = gymnasium.make(env_id), gymnasium.make(env_id)
    first = trajectory(env, seed=5)
    np.testing.assert_array_equal(trajectory(env, seed=5), first)
    np.testing.assert_array_equal(trajectory(another, seed=5), first)
    assert not np.array_equal(trajectory(env, seed=6), first)


def test_episodes_differ_after_one_seed():
    env = gymnasium.make("alphamepol/GWS-v0")
    starts = [env.reset(seed=0)[0], env.reset()[0], env.reset()[0]]
    assert len(np.unique(starts, axis=0)) == 3


def test_the_slope_is_drawn_afresh_at_every_step():
    env = gymnasium.make("alphamepol/GWS-v0")
    observations = [env.reset(seed=0)[0], *(env.step(np.zeros(2, np.float32))[0] for _ in range(3))]
    moves = np.diff(np.stack(observations), axis=0)
    np.testing.assert_allclose(moves, [[0, -0.1]] * 3, atol=0.05)
    assert len(np.unique(moves[:, 1])) == 3


@pytest.mark.parametrize(
    ("action", "move"),
    [((0.05, -0.02), (0.05, -0.02)), ((0.2, 0.0), (0.2, 0.0)), ((5.0, -0.1), (0.2, -0.1))],
)
def test_an_action_is_a_displacement_and_is_clipped(action, move):
    """No wall is near: the north hall of two-halls (y > 0.4) has none, and a start has x ≤ −0.5 and y ≥ 0.5."""
    env = gymnasium.make("alphamepol/Counterexample-v0", member="two-halls")
    for seed in range(5):
        start, _ = env.reset(seed=seed)
        reached, *_ = env.step(np.array(action, np.float32))
        np.testing.assert_allclose(reached - start, move, atol=1e-6)


def test_steps_are_compiled_once(monkeypatch):
    """JAX calls the Python code of `step` only to compile it. Compiling takes a thousand times as long as a step."""
    compilations = []
    move = Gridworld.step

    def counted(self, *arguments, **named):
        compilations.append(None)
        return move(self, *arguments, **named)

    monkeypatch.setattr(Gridworld, "step", counted)
    # No other test uses a map of this size, so nothing is compiled yet.
    small = Gridworld("...\n...\n...")
    monkeypatch.setattr(member_environment, "make", lambda name: EnvironmentClass({"only": small}, name=name))
    env = MemberEnvironment("small")
    trajectory(env, seed=0, steps=6)
    trajectory(env, seed=1, steps=6)
    assert len(compilations) == 1


# ---------------------------------------------------------------- vectors of environments


@every_id
def test_a_vector_of_environments_is_its_environments_side_by_side(env_id):
    vector = gymnasium.make_vec(env_id, num_envs=3, vectorization_mode="sync", horizon=2)
    start, _ = vector.reset(seed=[4, 5, 6])
    actions = np.zeros((3, 2), np.float32)
    reached, rewards, terminated, truncated, _ = vector.step(actions)
    assert (rewards == 0).all()
    assert not terminated.any()
    assert not truncated.any()
    for i, seed in enumerate([4, 5, 6]):
        alone = gymnasium.make(env_id)
        np.testing.assert_array_equal(alone.reset(seed=seed)[0], start[i])
        np.testing.assert_array_equal(alone.step(actions[i])[0], reached[i])
    assert vector.step(actions)[3].all()
    vector.close()


def test_environments_in_processes_of_their_own_do_the_same():
    """Forking a process that runs JAX can hang, so the processes are spawned."""
    vector = gymnasium.make_vec(
        "alphamepol/GWN-v0", num_envs=1, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    alone = gymnasium.make("alphamepol/GWN-v0")
    action = np.array([0.1, -0.1], np.float32)
    try:
        np.testing.assert_array_equal(vector.reset(seed=8)[0][0], alone.reset(seed=8)[0])
        np.testing.assert_array_equal(vector.step(action[None])[0][0], alone.step(action)[0])
    finally:
        vector.close()


# ---------------------------------------------------------------- refused arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"horizon": 0}, "horizon: 0 was given; it must be a whole number, at least 1"),
        ({"horizon": -5}, "horizon: -5 was given; it must be a whole number, at least 1"),
        ({"member": 10}, "member: 10 was given; class multigrid has members 0 to 9"),
        ({"member": np.int64(12)}, "member: 12 was given; class multigrid has members 0 to 9"),
        ({"member": -1}, "member: -1 was given; class multigrid has members 0 to 9"),
        ({"member": "MG"}, "member: class multigrid has no member 'MG', only MG0, .*did you mean 'MG"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        gymnasium.make("alphamepol/MultiGrid-v0", **arguments)


def test_an_unknown_render_mode_is_refused():
    # The environment is not made with Gymnasium's `make`, which would warn about this mode first.
    with pytest.raises(InputError, match="render_mode: 'human' was given; only 'rgb_array' or None is possible"):
        MemberEnvironment("gridworld-slope", render_mode="human")


# ---------------------------------------------------------------- rendering


def test_nothing_is_rendered_unless_asked():
    env = gymnasium.make("alphamepol/GWS-v0").unwrapped
    env.reset(seed=0)
    assert env.render() is None


def test_a_picture_shows_the_trail_of_the_episode():
    env = gymnasium.make("alphamepol/GWS-v0", render_mode="rgb_array")
    trail = trajectory(env, seed=3)
    picture = env.render()
    np.testing.assert_array_equal(picture, draw_gridworld_trail(env.unwrapped.member, trail))
    x, y = trail[-1]
    assert tuple(picture[int((1 - y) * 200), int((x + 1) * 200)]) == AGENT


def test_a_new_episode_has_a_new_trail():
    env = gymnasium.make("alphamepol/GWS-v0", render_mode="rgb_array")
    trajectory(env, seed=3)
    start, _ = env.reset(seed=3)
    np.testing.assert_array_equal(env.render(), draw_gridworld_trail(env.unwrapped.member, start[None]))


# ---------------------------------------------------------------- with a goal


@every_id
def test_goal_environments_are_sound(env_id):
    env = gymnasium.make(env_id.replace("-v0", "-Goal-v0"), goal=(-0.9, 0.9), horizon=20)
    check_env(env.unwrapped)


def test_reaching_the_goal_gives_one_and_ends_the_episode():
    env = gymnasium.make("alphamepol/GWS-Goal-v0", goal=(-0.9, 0.3), horizon=200)
    aim = np.array([-0.9, 0.3])
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        for step in range(1, 201):
            observation, reward, terminated, truncated, info = env.step(
                np.clip(aim - observation, -0.2, 0.2).astype(np.float32)
            )
            reached = np.linalg.norm(observation.astype(float) - aim) <= 0.1 + 1e-6
            assert (reward, terminated, info["is_success"]) == (float(reached), reached, reached)
            assert truncated == (step == 200)
            if terminated:
                break
        assert terminated


def test_the_goal_task_is_the_one_that_fine_tuning_uses():
    env = gymnasium.make("alphamepol/MultiGrid-Goal-v0", member="MG4", goal=(0.5, 0.1), radius=0.3).unwrapped
    assert env.task.describe() == pytest.approx([0.5, 0.1])
    assert float(env.task.radius) == pytest.approx(0.3)
    np.testing.assert_array_equal(env.member.walls, make("multigrid")["MG4"].walls)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "goal: none was given"),
        ({"goal": (0.0, 0.0)}, "goal: 0 0 was given, which is inside a wall"),
        ({"goal": (2.0, 0.0)}, "outside the square"),
        ({"goal": (0.5,)}, "has 1 coordinates"),
        ({"goal": (0.5, 0.5), "radius": 0.0}, "radius: 0 was given"),
    ],
)
def test_an_impossible_goal_is_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        gymnasium.make("alphamepol/GWN-Goal-v0", **arguments)


def test_the_goal_is_drawn():
    env = gymnasium.make("alphamepol/GWN-Goal-v0", goal=(0.5, 0.5), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert tuple(picture[100, 300]) == GOAL
    plain = gymnasium.make("alphamepol/GWN-v0", render_mode="rgb_array")
    plain.reset(seed=0)
    different = np.any(picture != plain.render(), axis=-1)
    rows, columns = np.nonzero(different)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == pytest.approx((80, 120, 280, 320), abs=1)
