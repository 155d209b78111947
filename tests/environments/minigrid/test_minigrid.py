"""Test that our MiniGrid equals Farama's step by step, and that its maps are those of the specification."""

import gymnasium
import jax
import jax.numpy as jnp
import minigrid_oracle as oracle
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.make import make
from alphamepol.environments.member_tasks import check_tasks, random_goal_tasks
from alphamepol.environments.minigrid.map import ADVERSE, EASY, minigrid_map_code_from_words
from alphamepol.environments.minigrid.minigrid import MiniGrid
from alphamepol.environments.minigrid.rules import FORWARD, LEFT, PICKUP, TOGGLE, visible_minigrid_cells
from alphamepol.environments.tasks import EnvironmentReward, Goal, GoalCell, HalfSpace
from alphamepol.errors import InputError

ROOM = """
    #####
    #>.G#
    #...#
    #####
"""
GOALS = {
    "EasyG": "(2,1) (4,3) (9,3) (14,3) (12,5) (9,6) (4,8) (14,8) (7,10) (16,10) (4,13) (9,13) (14,13)",
    "AdvG": "(6,8) (8,1) (4,3) (8,4) (4,6) (7,6) (3,8) (5,1) (6,3) (3,4) (7,4) (5,5) (5,7)",
}


def random_actions(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return random actions, with more steps forward than a uniform draw, so that the agent gets around."""
    return rng.choice(7, count, p=[0.17, 0.17, 0.4, 0.07, 0.06, 0.1, 0.03]).astype(np.int32)


def assert_equal_steps(member: MiniGrid, farama: oracle.Farama, actions: np.ndarray) -> oracle.Record:
    theirs = oracle.record_farama(farama, actions)
    assert oracle.differences(oracle.record_ours(member, actions), theirs) == dict.fromkeys(oracle.Record._fields, 0)
    return theirs


@pytest.mark.parametrize("goal", [0, 1, 2, None])
@pytest.mark.parametrize("name", ["EasyG", "AdvG"])
def test_members_are_faramas_step_by_step(name, goal):
    member = make("minigrid")[name]
    place = None if goal is None else member.goals[goal]
    farama = (oracle.easy if name == "EasyG" else oracle.adverse)(place)
    rng = np.random.default_rng([len(name), 9 if goal is None else goal])
    member = member if place is None else member.with_goal(jnp.array(place))
    record = assert_equal_steps(member, farama, random_actions(rng, 1000))
    assert len(np.unique(record.places, axis=0)) > 5  # the agent moved


def test_random_maps_are_faramas_step_by_step():
    rng = np.random.default_rng(1)
    seen: set[int] = set()
    ends = rewards = 0
    for _ in range(12):
        text, farama = oracle.random_layout(rng)
        look = {"legend": oracle.LEGEND, "backward": farama.backward, "max_steps": farama.max_steps}
        record = assert_equal_steps(MiniGrid(text, **look, size=(15, 15)), farama, random_actions(rng, 300))
        seen |= set(np.unique(record.images[:, 3, 6, 0]).tolist())
        ends, rewards = ends + record.ended.sum(), rewards + (record.rewards > 0).sum()
    assert ends > rewards > 0  # the agent reached goals and lava
    assert {5, 6} <= seen  # the agent carried keys and balls


def test_the_reward_is_faramas_to_the_last_bit_of_float32():
    farama = oracle.easy((2, 16))
    member = make("minigrid")["EasyG"].with_goal(jnp.array([2, 16]))
    for wait in (0, 1, 7, 148, 1000, 3200):
        actions = np.array([6] * wait + [FORWARD], np.int32)
        assert_equal_steps(member, farama, actions)


def test_light_spreads_as_in_farama():
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Wall

    rng = np.random.default_rng(0)
    clear = rng.random((200, 7, 7)) < 0.6
    found = jax.jit(jax.vmap(visible_minigrid_cells))(clear)
    for walls, ours in zip(~clear, np.asarray(found), strict=True):
        grid = Grid(7, 7)
        for i, j in np.argwhere(walls).tolist():
            grid.set(i, j, Wall())
        np.testing.assert_array_equal(ours, grid.process_vis((3, 6)))


@pytest.mark.parametrize("name", ["EasyG", "AdvG"])
def test_goals_and_reward_are_those_of_the_specification(name):
    member = make("minigrid")[name]
    assert member.goals == tuple(tuple(map(int, goal.strip("()").split(","))) for goal in GOALS[name].split())
    assert int(member.max_steps) == {"EasyG": 3240, "AdvG": 1000}[name]
    assert member.cells.shape == (18, 18)
    assert [tuple(task.describe()) for task in member.tasks] == list(member.goals)


def test_gymnasium_ids_show_images_and_give_rewards():
    for name in ("EasyG", "AdvG"):
        env = gymnasium.make(f"alphamepol/{name}-v0", horizon=7)
        assert env.observation_space == gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8)
        check_env(env.unwrapped, skip_render_check=True)
        observation, _ = env.reset(seed=0)
        assert observation.dtype == np.uint8
        *_, terminated, truncated, _ = [env.step(LEFT) for _ in range(7)][-1]
        assert (terminated, truncated) == (False, True)
    env = gymnasium.make("alphamepol/EasyG-Goal-v0", goal=(3, 16), render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (18 * 32, 18 * 32, 3)
    env.step(FORWARD)
    _, reward, terminated, _, info = env.step(FORWARD)
    assert terminated
    assert info["is_success"]
    assert reward == pytest.approx(1 - 0.9 * 2 / 3240)
    with pytest.raises(InputError, match="goal: 0 0 was given, where there is something"):
        gymnasium.make("alphamepol/EasyG-Goal-v0", goal=(0, 0))
    with pytest.raises(InputError, match="goal: nan 3 was given, which is no cell"):
        gymnasium.make("alphamepol/EasyG-Goal-v0", goal=(float("nan"), 3))


def test_an_episode_is_cut_after_max_steps_as_in_farama():
    env = gymnasium.make("alphamepol/AdvG-v0", horizon=5000)
    env.reset(seed=0)
    cut = [env.step(LEFT)[3] for _ in range(1000)]
    assert cut == [False] * 999 + [True]


def test_tasks_fit_the_grid():
    member = make("minigrid")["EasyG"]
    check_tasks([GoalCell((2, 1))], member)
    check_tasks([HalfSpace(jnp.ones(147), 3.0)], member)
    for task, sentence in (
        (Goal((3, 3)), "give GoalCell instead of Goal"),
        (HalfSpace((1.0, 0.0), 3.0), "normal: 2 numbers were given, but 147 are needed"),
        (EnvironmentReward(), "gives no reward of its own"),
        (GoalCell((0, 0)), "where there is something"),
    ):
        with pytest.raises(InputError, match=sentence):
            check_tasks([task], member)
    check_tasks([EnvironmentReward()], MiniGrid(ROOM))
    with pytest.raises(InputError, match="has no cells"):
        check_tasks([GoalCell((0, 0))], make("gridworld-slope")["GWS"])
    with pytest.raises(InputError, match="column and row must be whole numbers"):
        GoalCell((2.7, 3))


def test_a_map_of_ones_own_is_a_class_with_others():
    legend = {"L": "locked red door", "k": "red key", "o": "blue ball"}
    other = MiniGrid("#####\n#>kL#\n#..o#\n#####", legend=legend, size=(8, 6), goals=[(2, 2), (1, 2)])
    members = EnvironmentClass({"room": MiniGrid(ROOM, size=(8, 6)), "other": other})
    state = members["other"].reset(key=jax.random.key(0))
    for action in (PICKUP, FORWARD, TOGGLE, FORWARD):
        state = members["other"].step(state, jnp.array(action), key=jax.random.key(0))
    assert state.position.tolist() == [3, 1]
    assert int(state.carried) == minigrid_map_code_from_words("red key")
    assert isinstance(members["room"].tasks[0], EnvironmentReward)
    assert members["room"].goals == ()
    assert members["other"].goals == ((2, 2), (1, 2))


def test_drawn_goals_are_free_cells_other_than_the_start():
    member = MiniGrid(ROOM)
    places = {tuple(goal.describe()) for goal in random_goal_tasks(member, 60, key=jax.random.key(0))}
    assert places == {(2, 1), (1, 2), (2, 2), (3, 2)}
    assert isinstance(random_goal_tasks(member, 1, key=jax.random.key(0))[0], GoalCell)


def test_maps_for_pictures_have_walls_doors_and_goals():
    ground = make("minigrid")["AdvG"].map
    assert ground.extent == (-0.5, 9.5, 9.5, -0.5)
    assert ground.cells == (18, 18)
    kinds = [patch.kind for patch in ground.patches]
    assert kinds.count("wall") == 36 + 7 + 2
    assert kinds.count("goal") == 13
    (door,) = [patch for patch in ground.patches if patch.kind == "door"]
    assert (door.corner, door.size) == ((1.5, 0.5), (1.0, 1.0))


@pytest.mark.parametrize(
    ("layout", "more", "sentence"),
    [
        ("", {}, "the map is empty"),
        ("###\n#>#\n##", {}, "equally long, these have 3, 3, 2"),
        ("###\n#x#\n###", {}, "unknown cell 'x'"),
        ("###\n#.#\n###", {}, "the agent is on the map 0 times"),
        ("####\n#>>#\n####", {}, "the agent is on the map 2 times"),
        ("#.#\n#>#\n###", {}, "walls .* all around"),
        ("#D#\n#>#\n###", {}, "walls .* all around"),
        (ROOM, {"legend": {"x": "red kee"}}, "'kee' is not known; did you mean 'key'"),
        (ROOM, {"legend": {"x": "open key"}}, "'open key' was given; it must be one of wall"),
        (ROOM, {"legend": {"v": "key"}}, "legend: 'v' was given"),
        (ROOM, {"size": (4, 9)}, "size: 4 x 9 was given; the map has 5 columns and 4 rows"),
        (ROOM, {"max_steps": 0}, "max_steps: 0 was given"),
        (ROOM, {"goals": [(3, 1)]}, "goals: 3 1 was given, where there is something"),
        (ROOM, {"goals": [(1, 1)]}, "where the agent starts"),
        (ROOM, {"goals": [(9, 1)]}, "no cell of the map; columns are from 0 to 4"),
        (ROOM, {"goals": [(1, 1, 1)]}, "which has 3 coordinates"),
        (ROOM, {"goals": [(2, 2), (2, 2)]}, "goals: 2 2 was given twice"),
        ("####\n#> #\n####", {}, "unknown cell ' '"),
    ],
)
def test_what_is_no_map_is_refused(layout, more, sentence):
    with pytest.raises(InputError, match=sentence):
        MiniGrid(layout, **more)


def test_the_maps_as_text_have_the_walls_of_the_specification():
    for layout, farama in ((EASY, oracle.easy()), (ADVERSE, oracle.adverse())):
        farama.reset()
        cells = np.asarray(MiniGrid(layout).cells)
        encoded = farama.grid.encode().astype(int)
        np.testing.assert_array_equal(cells, (encoded[..., 0] | encoded[..., 1] << 4 | encoded[..., 2] << 7).T)
