"""Ant Stairs as a host class. Threads of MuJoCo step the Ants of many trajectories at once."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt32

from alphamepol.compute.machine import machine_cores
from alphamepol.environments.host import Board, HostClass, HostMember, Spaces
from alphamepol.environments.maps import Map, MapPatch
from alphamepol.environments.mujoco.ant import (
    EAST,
    PHYSICS,
    SIDE,
    SOUTH,
    STAIRS,
    STEPS_PER_ACTION,
    TIME_STEP,
    WEST,
    build_mujoco_ant,
    mujoco,
    mujoco_ant_divergence,
    mujoco_ant_spaces,
    mujoco_ant_start_state,
    observe_mujoco_ant,
    silent_mujoco_warnings,
)
from alphamepol.environments.tasks import HalfSpace
from alphamepol.errors import RunError

PROBABILITIES = {"Down": 0.8, "Up": 0.2}
GOALS = {"Down": (), "Up": (2.75, 3.0, 3.25, 3.5, 3.75, 4.0, 4.25, 4.5)}
"""The x of the goals of each member's tasks."""
NORTH = max(stairs.north for stairs in STAIRS.values())


class AntFleet:
    """A fleet that steps the Ants of all trajectories in one call of MuJoCo.

    A trajectory depends neither on the other trajectories nor on the number of threads.

    **Arguments**

    - `names`: the names of the members, in the order of their numbers.
    - `integrator`, `with_time`: see `ant_stairs_with_fleet`.
    - `threads`: the number of threads. The default is the number of cores that this process may use.
    """

    def __init__(
        self, names: Sequence[str], integrator: str = "RK4", with_time: bool = False, threads: int | None = None
    ):
        self._names = list(names)
        self._models = [build_mujoco_ant(name, integrator) for name in names]
        self._with_time = with_time
        self._threads = threads or machine_cores()
        self._pool: mujoco.rollout.Rollout | None = None
        self._data = [mujoco.MjData(self._models[0]) for _ in range(self._threads)]
        self._member_at = np.zeros(0, int)
        self.states = np.zeros((0, mujoco.mj_stateSize(self._models[0], PHYSICS)))
        """The time, the positions and the velocities of the Ant at each station."""

    def board(self, trajectories: int) -> Board:
        missing = max(0, trajectories - len(self.states))
        self._member_at = np.pad(self._member_at, (0, missing))
        self.states = np.pad(self.states, ((0, missing), (0, 0)))
        return Board.empty(trajectories, _ant_fleet_member(self._names[0], self._with_time), trajectories)

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
        self._member_at[stations] = members
        for station, member, seed in zip(stations.tolist(), members.tolist(), seeds.tolist(), strict=True):
            rng = np.random.default_rng(seed)
            self.states[station] = mujoco_ant_start_state(self._models[member], self._names[member], rng)
        self._report(board, stations)

    def step(
        self, board: Board, stations: Int[np.ndarray, " some"], actions: Shaped[np.ndarray, "stations ..."]
    ) -> None:
        if not len(stations):
            return
        if self._pool is None:
            self._pool = mujoco.rollout.Rollout(nthread=self._threads)
        before = self.states[stations]
        models = [self._models[member] for member in self._member_at[stations].tolist()]
        controls = np.clip(actions[stations], -1.0, 1.0).astype(float)[:, None]
        reached = np.empty((len(stations), STEPS_PER_ACTION, before.shape[1]))
        with silent_mujoco_warnings():
            self._pool.rollout(models, self._data, before, controls, nstep=STEPS_PER_ACTION, state=reached)
        after = reached[:, -1]
        self._refuse_diverged(before, after, stations)
        self.states[stations] = after
        self._report(board, stations)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _report(self, board: Board, stations: Int[np.ndarray, " some"]) -> None:
        states = self.states[stations]
        board.observations[stations] = observe_mujoco_ant(states, self._with_time)
        board.particles[stations] = states[:, 1:3]
        board.rewards[stations] = 0.0
        board.over[stations] = False

    def _refuse_diverged(
        self,
        before: Float[np.ndarray, "some state"],
        after: Float[np.ndarray, "some state"],
        stations: Int[np.ndarray, " some"],
    ) -> None:
        """Raise a `RunError` if a simulation has diverged.

        MuJoCo stops or restarts a rollout that diverges. Therefore the time of its state is wrong.
        """
        late = np.abs(after[:, 0] - before[:, 0] - STEPS_PER_ACTION * TIME_STEP) > TIME_STEP / 2
        diverged = late | ~np.isfinite(after).all(axis=1)
        if diverged.any():
            raise RunError(mujoco_ant_divergence(self._names[self._member_at[stations[diverged.argmax()]]]))


def ant_stairs_with_fleet(integrator: str = "RK4", with_time: bool = False) -> HostClass:
    """Return the class of the members Down and Up. Particles are the position (x, y) of the torso.

    **Arguments**

    - `integrator`: "RK4" (the paper's integrator, and the default), "implicitfast" or "Euler". The last two are faster.
    - `with_time`: if True, observations end with t/1000, where t is the number of steps since the reset.
    """
    members = {name: _ant_fleet_member(name, with_time) for name in PROBABILITIES}
    return HostClass(
        members,
        AntFleet(list(members), integrator, with_time),
        list(PROBABILITIES.values()),
        "ant-stairs" if integrator == "RK4" else f"ant-stairs-{integrator.lower()}",
        f"integrator {integrator}, with_time {with_time}",
    )


def _ant_fleet_member(name: str, with_time: bool) -> HostMember:
    stairs = STAIRS[name]
    blocks = tuple(
        MapPatch((WEST + i * SIDE, SOUTH), (SIDE, stairs.width), "level") for i in range(len(stairs.heights))
    )
    beyond = NORTH - stairs.north
    wall = (MapPatch((WEST, stairs.north), (EAST - WEST, beyond), "wall"),) if beyond else ()
    return HostMember(
        spaces=Spaces(*mujoco_ant_spaces(with_time)),
        feature_size=2,
        ceiling=math.log((EAST - WEST) * stairs.width),
        tasks=tuple(HalfSpace((1.0, 0.0), x) for x in GOALS[name]),
        map=Map((WEST, EAST, SOUTH, NORTH), blocks + wall),
        entropy_names=("x", "y"),
    )
