"""Test that our Unlock and ObstructedMaze equal Farama's step by step, and that layouts have the same distribution."""

from itertools import pairwise

import gymnasium
import jax
import jax.numpy as jnp
import minigrid_oracle as oracle
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import stats

from alphamepol.environments.make import make
from alphamepol.environments.minigrid.map import BALL, BOX, DOOR, KEY
from alphamepol.environments.minigrid.rooms import ROOMS, SIZE, RoomsMiniGrid
from alphamepol.environments.minigrid.rules import FORWARD, LEFT, PICKUP, RIGHT, TOGGLE
from alphamepol.errors import InputError

ACTIONS = [0.14, 0.14, 0.32, 0.14, 0.08, 0.15, 0.03]
"""The probabilities of random actions, with which keys are found and doors are opened."""


@pytest.mark.parametrize("name", ROOMS)
def test_steps_are_faramas(name):
    rng = np.random.default_rng(7)
    farama, member = oracle.rooms(name), make("minigrid-counterexample")[name]
    carried: set[int] = set()
    rewards = 0
    for layout in range(25):
        farama.reset(seed=layout)
        state = oracle.state_of_farama(farama, SIZE)
        actions = rng.choice(7, 200, p=ACTIONS).astype(np.int32)
        theirs = oracle.record_rooms_of_farama(farama, actions)
        ours = oracle.record_rooms_of_ours(member, state, actions)
        assert oracle.differences(ours, theirs) == dict.fromkeys(oracle.Record._fields, 0)
        carried |= set(theirs.images[:, 3, 6, 0].tolist())
        rewards += int((theirs.rewards > 0).sum())
    assert {KEY} <= carried if name == "Unlock" else {KEY, BALL, BOX} <= carried
    assert rewards > 0 or name != "Unlock"


def layout_features(state) -> dict[str, int]:
    """Return numbers that describe a layout: the places and colours of all objects, and the agent."""
    cells = np.asarray(state.cells)
    kinds = cells & 15
    column, row = np.asarray(state.position).tolist()
    found = {"agent": (row * SIZE + column) * 4 + int(state.direction)}
    for name, kind in (("door", DOOR), ("key", KEY), ("ball", BALL), ("box", BOX)):
        places = np.flatnonzero(kinds == kind)
        found[f"{name}s"] = len(places)
        found |= {f"{name} {number}": int(place) for number, place in enumerate(places)}
        found |= {f"colour of {name} {number}": int(cells.flat[place]) >> 4 for number, place in enumerate(places)}
    return found


def layouts_of_ours(name: str, count: int) -> list[dict[str, int]]:
    member = RoomsMiniGrid(name)
    states = jax.jit(jax.vmap(lambda key: member.reset(key=key)))(jax.random.split(jax.random.key(3), count))
    return [layout_features(jax.tree.map(lambda leaf, i=i: leaf[i], jax.device_get(states))) for i in range(count)]


def layouts_of_farama(name: str, count: int) -> list[dict[str, int]]:
    farama = oracle.rooms(name)
    found = []
    for seed in range(count):
        farama.reset(seed=seed)
        found.append(layout_features(jax.device_get(oracle.state_of_farama(farama, SIZE))))
    return found


@pytest.mark.parametrize("name", ROOMS)
def test_layouts_have_faramas_distribution(name):
    """Compare how often each value of each number occurs, and each pair of values of neighbouring numbers."""
    ours, theirs = layouts_of_ours(name, 4000), layouts_of_farama(name, 1000)
    names = sorted({key for layout in ours + theirs for key in layout})
    tests = [(one,) for one in names] + list(pairwise(names))
    chances = []
    for wanted in tests:
        counts = [
            {value: values.count(value) for value in set(values)}
            for values in ([str([layout.get(one) for one in wanted]) for layout in side] for side in (ours, theirs))
        ]
        # Rare values are counted together, so that the test of frequencies holds.
        frequent = [value for value in counts[0] if counts[0][value] >= 25]
        table = np.array([[side.get(value, 0) for value in frequent] for side in counts])
        rest = np.array([len(ours), len(theirs)])[:, None] - table.sum(axis=1, keepdims=True)
        table = np.concatenate([table, rest], axis=1)
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] > 1:
            chances.append(stats.chi2_contingency(table).pvalue)
    assert min(chances) > 1e-3 / len(chances)


def test_the_member_rewards_what_farama_rewards():
    member = RoomsMiniGrid("Unlock")
    (task,) = member.tasks
    farama = oracle.rooms("Unlock")
    farama.reset(seed=0)
    state = oracle.state_of_farama(farama, SIZE)
    door, key = (np.argwhere((np.asarray(state.cells) & 15) == kind)[0].tolist() for kind in (DOOR, KEY))
    agent = np.asarray(state.position).tolist()
    rewards = []
    for action in route_in_unlock(
        (agent[1], agent[0], int(state.direction)), tuple(key), tuple(door), np.asarray(state.cells)
    ):
        reached = member.step(state, jnp.array(action), key=jax.random.key(0))
        rewards.append(float(task.reward(member, state, jnp.array(action), reached)))
        state = reached
    assert rewards[:-1] == [0.0] * (len(rewards) - 1)
    assert rewards[-1] == pytest.approx(1 - 0.9 * len(rewards) / 288)
    assert bool(task.ended(member, state))
    assert not bool(member.ended(state))


def route_in_unlock(agent, key, door, cells) -> list[int]:
    """Return the shortest list of actions that takes the key and opens the door, found by a search over states."""
    steps = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    frontier, seen = [(agent, False, [])], {(agent, False)}
    while frontier:
        (row, column, direction), has_key, actions = frontier.pop(0)
        ahead = row + steps[direction][0], column + steps[direction][1]
        if has_key and ahead == door:
            return [*actions, TOGGLE]
        free = cells[ahead] == 1 or (has_key and ahead == key)
        options = [
            (LEFT, (row, column, (direction - 1) % 4), has_key),
            (RIGHT, (row, column, (direction + 1) % 4), has_key),
        ]
        options += [(FORWARD, (*ahead, direction), has_key)] if free else []
        options += [(PICKUP, (row, column, direction), True)] if ahead == key and not has_key else []
        for action, place, holds in options:
            if (place, holds) not in seen:
                seen.add((place, holds))
                frontier.append((place, holds, [*actions, action]))
    raise AssertionError("there is no way")


def test_gymnasium_ids_and_maps():
    env = gymnasium.make("alphamepol/ObstructedMaze-v0", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)
    first = env.reset(seed=0)[0]
    assert env.render().shape == (16 * 32, 16 * 32, 3)
    assert any(not np.array_equal(first, env.reset()[0]) for _ in range(5))  # another layout
    unlock = make("minigrid-counterexample")["Unlock"]
    assert unlock.map.extent == (-0.5, 10.5, 5.5, -0.5)
    assert sum(patch.kind == "wall" for patch in unlock.map.patches) == 11 * 6 - 2 * 16
    assert (unlock.reward_lasts, unlock.gives_reward) == (288, True)
    with pytest.raises(InputError, match="kind: 'Maze' was given; it must be Unlock or ObstructedMaze"):
        RoomsMiniGrid("Maze")
