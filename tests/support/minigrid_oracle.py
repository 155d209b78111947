"""Environments of Farama's MiniGrid with our maps. Our MiniGrid must equal them."""

import warnings
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Door, Goal, Key, Lava, Wall
from minigrid.minigrid_env import MiniGridEnv

from alphamepol.environments.minigrid.map import GREY_WALL, NOTHING, minigrid_map_code
from alphamepol.environments.minigrid.rules import MiniGridState, begin_minigrid

EASY_WALLS = (
    (11, 1), (12, 1), (13, 1), (11, 2), (11, 3), (4, 4), (5, 4), (6, 4), (4, 6), (5, 6), (5, 7), (5, 8), (6, 7),
    (5, 13), (8, 13), (12, 11), (13, 11), (14, 11), (11, 5), (11, 6), (12, 6), (13, 6), (15, 6), (16, 6),
)  # fmt: skip


class Farama(MiniGridEnv):
    """An environment of Farama's with a given map: `things` maps (column, row) to a function that makes the object."""

    def __init__(self, size, start, heading, things, *, backward=False, max_steps=None, **arguments):
        self.start, self.heading, self.things, self.backward = start, heading, things, backward
        columns, rows = size
        super().__init__(
            mission_space=MissionSpace(lambda: "explore"),
            width=columns,
            height=rows,
            max_steps=max_steps or 10 * columns * rows,
            **arguments,
        )

    def _gen_grid(self, width, height):
        self.grid = Grid(width, height)
        self.grid.wall_rect(0, 0, width, height)
        for (column, row), make in self.things.items():
            self.grid.set(column, row, make())
        self.agent_pos, self.agent_dir = self.start, self.heading

    @property
    def front_pos(self):
        return self.agent_pos - self.dir_vec if self.backward else super().front_pos


def easy(goal=None, **arguments) -> Farama:
    things = dict.fromkeys(EASY_WALLS, Wall)
    return Farama((18, 18), (1, 16), 0, things | ({goal: Goal} if goal else {}), **arguments)


def adverse(goal=None, **arguments) -> Farama:
    things = {(2, row): Wall for row in range(10)} | {(7, 3): Wall, (8, 3): Wall}
    things |= {(2, 1): lambda: Door("yellow")} | ({goal: Goal} if goal else {})
    return Farama((10, 10), (1, 8), 0, things, backward=True, **arguments)


SYMBOLS = {
    "#": Wall,
    "G": Goal,
    "~": Lava,
    "D": lambda: Door("yellow"),
    "o": lambda: Door("red", is_open=True),
    "L": lambda: Door("blue", is_locked=True),
    "k": lambda: Key("blue"),
    "K": lambda: Key("red"),
    "b": lambda: Ball("green"),
    "x": lambda: Box("grey", Key("blue")),
    "e": lambda: Box("red"),
}
LEGEND = {
    "~": "lava",
    "o": "open red door",
    "L": "locked blue door",
    "k": "blue key",
    "K": "red key",
    "b": "green ball",
    "x": "grey box with blue key",
    "e": "red box",
}


def random_layout(rng: np.random.Generator) -> tuple[str, Farama]:
    """Return a random map with doors, goals and other things, as text and as Farama's environment."""
    columns, rows = rng.integers(4, 15, 2).tolist()
    kinds = [".", *SYMBOLS]
    share = np.array([1.0, 0.25, 0.02, 0.01, 0.06, 0.03, 0.03, 0.03, 0.01, 0.03, 0.03, 0.01])
    cells = rng.choice(kinds, (rows, columns), p=share / share.sum())
    cells[[0, -1]] = cells[:, [0, -1]] = "#"
    start = int(rng.integers(1, columns - 1)), int(rng.integers(1, rows - 1))
    heading = int(rng.integers(4))
    cells[start[1], start[0]] = "."
    things = {(c, r): SYMBOLS[cells[r, c]] for r in range(rows) for c in range(columns) if cells[r, c] != "."}
    backward = bool(rng.integers(2))
    cells[start[1], start[0]] = ">v<^"[heading]
    farama = Farama((columns, rows), start, heading, things, backward=backward, max_steps=int(rng.integers(20, 900)))
    return "\n".join("".join(line) for line in cells), farama


ROOMS = {"Unlock": "MiniGrid-Unlock-v0", "ObstructedMaze": "MiniGrid-ObstructedMaze-2Dlhb-v0"}


def rooms(name: str) -> MiniGridEnv:
    """Return Farama's environment whose layouts `RoomsMiniGrid(name)` draws."""
    with warnings.catch_warnings():
        # We want the version of the paper, even if the environment has a newer version.
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        return gymnasium.make(ROOMS[name], disable_env_checker=True).unwrapped


def state_of_farama(env: MiniGridEnv, size: int) -> MiniGridState:
    """Return the state of a Farama environment as ours, with walls around it up to `size` columns and rows."""
    cells = np.full((size, size), GREY_WALL, np.uint16)
    for row in range(env.height):
        for column in range(env.width):
            cells[row, column] = _code_of_farama(env.grid.get(column, row))
    return begin_minigrid(
        jnp.asarray(cells), jnp.array(env.agent_pos, jnp.int32), jnp.array(int(env.agent_dir), jnp.int32)
    )


def _code_of_farama(thing) -> int:
    if thing is None:
        return NOTHING
    kind, colour, state = map(int, thing.encode())
    return minigrid_map_code(kind, colour, _code_of_farama(thing.contains) if thing.type == "box" else state)


class Record(NamedTuple):
    """The parts of every step that are compared. A new episode begins after a termination."""

    places: np.ndarray
    directions: np.ndarray
    images: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray


def record_farama(env: Farama, actions: np.ndarray) -> Record:
    env.reset(seed=0)
    steps = []
    for action in actions.tolist():
        observation, reward, terminated, _, _ = env.step(action)
        steps.append((env.agent_pos, env.agent_dir, observation["image"], np.float32(reward), terminated))
        if terminated:
            env.reset(seed=0)
    return Record(*(np.array(part) for part in zip(*steps, strict=True)))


def record_rooms_of_farama(env: MiniGridEnv, actions: np.ndarray) -> Record:
    """Step on in the present layout. Ends are ignored, as in pre-training."""
    steps = []
    for action in actions.tolist():
        observation, reward, terminated, _, _ = env.step(action)
        steps.append((env.agent_pos, env.agent_dir, observation["image"], np.float32(reward), terminated))
    return Record(*(np.array(part) for part in zip(*steps, strict=True)))


@jax.jit
def record_rooms_of_ours(member, state, actions) -> Record:
    """Step on from a state. An end is a state in which the member's task ends."""
    (task,) = member.tasks

    def act(state, action):
        reached = member.step(state, action, key=jax.random.key(0))
        reward, ended = task.reward(member, state, action, reached), task.ended(member, reached)
        return reached, Record(member.place(reached), reached.direction, member.observe(reached), reward, ended)

    return jax.lax.scan(act, state, actions)[1]


@jax.jit
def _record(member, actions):
    def act(state, action):
        key = jax.random.key(0)
        reached = member.step(state, action, key=key)
        ended = member.ended(reached)
        step = member.place(reached), reached.direction, member.observe(reached), reached.reward, ended
        return jax.tree.map(lambda a, b: jnp.where(ended, a, b), member.reset(key=key), reached), step

    return jax.lax.scan(act, member.reset(key=jax.random.key(0)), actions)[1]


def record_ours(member, actions: np.ndarray) -> Record:
    return Record(*(np.asarray(part) for part in _record(member, actions)))


def differences(ours: Record, theirs: Record) -> dict[str, int]:
    """Return the number of steps at which each part differs."""
    steps = len(theirs.ended)
    return {
        name: int(np.any((np.asarray(getattr(ours, name)) != getattr(theirs, name)).reshape(steps, -1), axis=1).sum())
        for name in Record._fields
    }
