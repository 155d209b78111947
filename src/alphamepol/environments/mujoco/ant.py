"""Ant Stairs: MuJoCo's Ant on a staircase that it must climb (Up) or can walk down (Down)."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import math
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from alphamepol.environments.mujoco.library import mujoco, silent_mujoco_warnings
from alphamepol.environments.mujoco.pictures import PICTURE, MujocoPainter
from alphamepol.environments.mujoco.stairs import (
    BOTTOM,
    EAST,
    HIDDEN,
    SIDE,
    SOUTH,
    STAIRS,
    START_ABOVE_GROUND,
    WEST,
    Stairs,
)
from alphamepol.errors import InputError, RunError

STEPS_PER_ACTION, TIME_STEP = 5, 0.01
CONTACT = [0.8, 0.8, 0.01, 0.5, 2.0]
"""The contact parameters `solimp` of rllab's Ant. The last two numbers are MuJoCo's defaults."""
INTEGRATORS = {
    "RK4": mujoco.mjtIntegrator.mjINT_RK4,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
    "Euler": mujoco.mjtIntegrator.mjINT_EULER,
}
PHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
"""MuJoCo's code for the parts of a state that are saved and restored: the time, 15 positions and 14 velocities."""


class AntStairs(gymnasium.Env[np.ndarray, np.ndarray]):
    """One member of Ant Stairs as a Gymnasium environment. It has no reward unless a goal `x` is given.

    **Arguments**

    - `member`: "Up" or "Down".
    - `horizon`: the number of steps after which an episode is truncated.
    - `render_mode`: None, or "rgb_array" for pictures of the staircase, seen from the south.
    - `integrator`: "RK4" (the paper's integrator, and the default), "implicitfast" or "Euler". The last two are faster.
    - `with_time`: if True, observations end with t/1000, where t is the number of steps since the reset.
    - `x`: the position of a goal. The reward is 1, and the episode ends, when the torso is at this x or east of it.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(
        self,
        member: str,
        horizon: int = 400,
        render_mode: str | None = None,
        integrator: str = "RK4",
        with_time: bool = False,
        x: SupportsFloat | None = None,
    ):
        if not isinstance(horizon, int | np.integer) or horizon < 1:
            raise InputError(f"horizon: {horizon} was given; it must be a whole number, at least 1")
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode: {render_mode!r} was given; only 'rgb_array' or None is possible")
        if x is not None and not WEST <= float(x) <= EAST:
            raise InputError(f"x: {x} was given; it must be between {WEST:g} and {EAST:g}, where the staircase ends")
        self.model = build_mujoco_ant(member, integrator)
        self.data = mujoco.MjData(self.model)
        self.member = member
        self.horizon = int(horizon)
        self.render_mode = render_mode
        self.with_time = with_time
        self.x = None if x is None else float(x)
        self.observation_space, self.action_space = mujoco_ant_spaces(with_time)
        self._painter: MujocoPainter | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_setState(self.model, self.data, mujoco_ant_start_state(self.model, self.np_random), PHYSICS)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        self._steps += 1
        self.data.ctrl[:] = action  # MuJoCo clips actions itself
        with silent_mujoco_warnings():
            mujoco.mj_step(self.model, self.data, nstep=STEPS_PER_ACTION)
        observation = self._observe()
        if self.data.warning.number.any() or not np.isfinite(observation).all():
            raise RunError(mujoco_ant_divergence(self.member))
        reached = self.x is not None and bool(observation[0] >= self.x)
        # Other libraries look for success under this name.
        info = {} if self.x is None else {"is_success": reached}
        return observation, float(reached), reached, self._steps >= self.horizon, info

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.render_mode is None:
            return None
        if self._painter is None:
            self._painter = MujocoPainter(self.model)
        self._painter.look_at(self.data.qpos)
        if self.x is not None:
            _draw_mujoco_ant_goal(self._painter.renderer.scene, STAIRS[self.member], self.x)
        return self._painter.paint()

    def close(self) -> None:
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    def _observe(self) -> np.ndarray:
        state = np.empty(mujoco.mj_stateSize(self.model, PHYSICS))
        mujoco.mj_getState(self.model, self.data, state, PHYSICS)
        return observe_mujoco_ant(state, self.with_time)


def ant_goal(
    member: str,
    x: SupportsFloat | None = None,
    horizon: int = 400,
    render_mode: str | None = None,
    integrator: str = "RK4",
    with_time: bool = False,
) -> AntStairs:
    """Return a member with a goal: reaching `x` gives the reward 1 and ends the episode."""
    if x is None:
        raise InputError("x: none was given; say how far east the goal is, e.g. x=3")
    return AntStairs(member, horizon, render_mode, integrator, with_time, x)


ant_goal.metadata = AntStairs.metadata  # pyright: ignore[reportFunctionMemberAccess] (Gymnasium reads it)


def build_mujoco_ant(member: str, integrator: str = "RK4") -> mujoco.MjModel:
    """Return the MuJoCo model of Gymnasium's Ant on the staircase of a member.

    The models of all members have the same number of parts.
    """
    if member not in STAIRS:
        raise InputError(f"member: class ant-stairs has no member {member!r}, only {', '.join(STAIRS)}")
    if integrator not in INTEGRATORS:
        raise InputError(f"integrator: {integrator!r} was given; only {', '.join(INTEGRATORS)} are possible")
    spec = mujoco.MjSpec.from_file(str(Path(gymnasium.__file__).parent / "envs/mujoco/assets/ant.xml"))
    spec.option.integrator = INTEGRATORS[integrator]
    spec.option.timestep = TIME_STEP
    # Without warm start, a step depends on the state alone, as in a class of models. Steps do not become slower.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    spec.delete(spec.geom("floor"))
    # The margins are 0, because the Ant's own margin is 0.01 already. MuJoCo 4 adds the margins of two geoms, while
    # the MuJoCo of rllab took the larger one.
    flat = spec.worldbody.add_geom(name="flat", type=mujoco.mjtGeom.mjGEOM_BOX, contype=0, conaffinity=0)
    for name, height, corner, opposite in _mujoco_ant_blocks(STAIRS[member]):
        box = spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, conaffinity=1, margin=0)
        box.pos, box.size = (opposite + corner) / 2, (opposite - corner) / 2
        if height == 0:
            # The Ant stands on the ground plane there, and a box that it cannot touch is for pictures only. The solid
            # box is hidden, because all members have the same solid geoms: so one model of MuJoCo Warp serves them.
            flat.pos, flat.size = box.pos.copy(), box.size.copy()
            box.pos, box.size = HIDDEN
    for name, place, inwards in _mujoco_ant_planes(STAIRS[member]):
        plane = spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_PLANE, conaffinity=1, margin=0)
        plane.pos, plane.size = place, (0, 0, 1)
        plane.alt.type, plane.alt.zaxis = mujoco.mjtOrientation.mjORIENTATION_ZAXIS, inwards
    for geom in spec.geoms:
        geom.solimp = CONTACT
    rest = np.array(spec.numeric("init_qpos").data)
    rest[:3] = 0.0, 0.0, STAIRS[member].heights[0] + START_ABOVE_GROUND
    spec.add_key(name="start", qpos=rest)
    _paint_mujoco_ant(spec, STAIRS[member])
    _add_mujoco_ant_camera(spec, STAIRS[member])
    return spec.compile()


def mujoco_ant_spaces(with_time: bool) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """Return the observation space and the action space."""
    return (
        gymnasium.spaces.Box(-math.inf, math.inf, (30 if with_time else 29,), np.float32),
        gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32),
    )


def mujoco_ant_start_state(model: mujoco.MjModel, rng: np.random.Generator) -> np.ndarray:
    """Draw the state in which an episode begins: the time, the positions and the velocities.

    The Ant is at rest on the first block, apart from noise.
    """
    positions = model.key_qpos[0].copy()
    positions += rng.uniform(-0.1, 0.1, model.nq)
    positions[3:7] /= np.linalg.norm(positions[3:7])
    return np.concatenate([[0.0], positions, 0.1 * rng.standard_normal(model.nv)])


def observe_mujoco_ant(states: np.ndarray, with_time: bool) -> np.ndarray:
    """Return the observations of one state or of rows of states.

    An observation holds the positions and the velocities, and t/1000 if `with_time` is True.
    """
    seen = states[..., 1:]
    if with_time:
        steps = np.rint(states[..., :1] / (STEPS_PER_ACTION * TIME_STEP))
        seen = np.concatenate([seen, steps / 1000], axis=-1)
    return seen.astype(np.float32)


def mujoco_ant_divergence(member: str) -> str:
    """Return the error message for a simulation that diverged."""
    return (
        f"environment {member}: the simulation of the Ant diverged, or an action was not a number; look at the policy, "
        "or take another integrator (RK4, implicitfast, Euler)"
    )


def _mujoco_ant_blocks(stairs: Stairs) -> list[tuple[str, float, np.ndarray, np.ndarray]]:
    """Return the name, the height and two opposite corners of each block.

    Equal blocks next to each other are one block, so that there is no seam between them.
    """
    corners = [((WEST + i * SIDE, SOUTH, BOTTOM), (WEST + (i + 1) * SIDE, stairs.north)) for i in range(4)]
    return [
        (f"block_{i}", height, np.array(corner), np.array([*opposite, height]))
        for i, (height, (corner, opposite)) in enumerate(zip(stairs.heights, corners, strict=True))
    ]


def _mujoco_ant_planes(stairs: Stairs) -> list[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    """Return the name, a point and the inward direction of each wall and of the ground.

    The paper's walls are 8 high. No Ant gets above them, so that infinite planes do the same. Boxes would take 1.2 (Up)
    to 1.4 (Down) times as long.
    """
    return [
        ("wall_west", (WEST, 0.0, 0.0), (1.0, 0.0, 0.0)),
        ("wall_east", (EAST, 0.0, 0.0), (-1.0, 0.0, 0.0)),
        ("wall_south", (0.0, SOUTH, 0.0), (0.0, 1.0, 0.0)),
        ("wall_north", (0.0, stairs.north, 0.0), (0.0, -1.0, 0.0)),
        ("ground", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    ]


def _paint_mujoco_ant(spec: mujoco.MjSpec, stairs: Stairs) -> None:
    """Set colours, light and sky. Higher blocks are darker. Planes belong to a group that pictures leave out."""
    for asset in [*spec.materials, *spec.textures]:
        spec.delete(asset)
    sky = spec.add_texture(type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT)
    sky.width = sky.height = 64
    sky.rgb1, sky.rgb2 = [1.0, 1.0, 1.0], [0.86, 0.9, 0.95]
    for geom in spec.geoms:
        geom.rgba = [0.85, 0.42, 0.13, 1.0]
    for i, height in enumerate(stairs.heights):
        block = spec.geom(f"block_{i}" if height else "flat")
        block.rgba = [*(np.array([0.80, 0.85, 0.90]) - 0.35 * height / 1.27), 1.0]
    for name, *_ in _mujoco_ant_planes(stairs):
        spec.geom(name).group = 3
    spec.visual.global_.offwidth, spec.visual.global_.offheight = PICTURE
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.35] * 3, [0.25] * 3
    spec.visual.headlight.specular = [0.0] * 3
    spec.visual.quality.shadowsize = 4096
    spec.stat.extent = 10.0
    sun = spec.lights[0]
    sun.dir, sun.diffuse, sun.specular = [0.35, 0.45, -1.0], [0.6] * 3, [0.1] * 3


def _add_mujoco_ant_camera(spec: mujoco.MjSpec, stairs: Stairs) -> None:
    """Add the first camera. It looks from the foot of the stairs, so that the fronts of the steps are visible."""
    azimuth = math.radians(70.0 if stairs.heights[0] < stairs.heights[-1] else 110.0)
    elevation, distance = math.radians(-28.0), 7.0 + 0.55 * stairs.width
    forward = np.array(
        [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
    )
    right = np.array([math.sin(azimuth), -math.cos(azimuth), 0.0])
    centre = np.array([(WEST + EAST) / 2, (SOUTH + stairs.north) / 2, 0.0])
    camera = spec.worldbody.add_camera(name="stairs", pos=centre - distance * forward)
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [*right, *np.cross(right, forward)]


def _draw_mujoco_ant_goal(scene: mujoco.MjvScene, stairs: Stairs, x: float) -> None:
    """Draw the goal as a thin gate across the staircase."""
    place, size = np.array([x, (SOUTH + stairs.north) / 2, 1.2]), np.array([0.01, stairs.width / 2, 1.2])
    colour = np.array([0.3, 0.7, 0.3, 0.3], np.float32)
    gate = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(gate, mujoco.mjtGeom.mjGEOM_BOX, size, place, np.eye(3).ravel(), colour)
    scene.ngeom += 1
