"""Members written in JAX as Gymnasium environments, so that other libraries can act in them."""

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from alphamepol.compute.devices import device_for_little_work
from alphamepol.environments.cmp import CMP, HasPicture
from alphamepol.environments.gridworld.drawing import draw_gridworld_trail
from alphamepol.environments.host import HostClass
from alphamepol.environments.make import make
from alphamepol.environments.member_tasks import goal_task_at
from alphamepol.environments.tasks import GOAL_RADIUS, Goal, GoalCell, Task
from alphamepol.errors import InputError


class MemberEnvironment(gymnasium.Env[np.ndarray, Any]):
    """One member of a class as a Gymnasium environment. It has no reward unless a task is given.

    **Arguments**

    - `class_name`: the name of the class.
    - `member`: the name or the number of the member.
    - `horizon`: the number of steps after which an episode is truncated. A MiniGrid also truncates it after `max_steps`
      steps.
    - `render_mode`: None, or "rgb_array" for pictures. A gridworld shows the trail of the episode. A MiniGrid looks as
      in Farama's package. A MuJoCo model is seen by its first camera.
    - `task`: the task that gives the reward and ends the episode.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 (Gymnasium's own way)

    def __init__(
        self,
        class_name: str,
        member: str | int | np.integer = 0,
        horizon: int = 400,
        render_mode: str | None = None,
        task: Task | None = None,
    ):
        if not isinstance(horizon, int | np.integer) or horizon < 1:
            raise InputError(f"horizon: {horizon} was given; it must be a whole number, at least 1")
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode: {render_mode!r} was given; only 'rgb_array' or None is possible")
        self._device = device_for_little_work()
        with jax.default_device(self._device):
            self.member: Any = _member_in_member_environment(class_name, member)
            if task is not None:
                self.member = task.set_up(self.member)
        self.task = task
        self.horizon = int(horizon)
        self._last_step = min(self.horizon, self.member.reward_lasts)
        self.render_mode = render_mode
        self.observation_space = self.member.observation_space
        self.action_space = self.member.action_space
        self._trail: list[np.ndarray] = []  # the positions of the episode in a gridworld, for pictures

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        with jax.default_device(self._device):
            start_key, self._key = jax.random.split(jax.random.key(int(self.np_random.integers(2**31))))
            self._state, observation = _reset_member_environment(self.member, start_key)
        self._steps = 0
        self._trail = []
        self._remember()
        return np.array(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        self._steps += 1
        with jax.default_device(self._device):
            # A NumPy number, which has the same type at every step.
            number = np.int32(self._steps)
            self._state, observation, reward, ended = _step_member_environment(
                self.member, self.task, self._state, np.asarray(action), self._key, number
            )
        self._remember()
        reward = float(reward)  # convert only once, because each conversion waits for the device
        # Other libraries look for success under this name.
        info = {"is_success": reward > 0} if isinstance(self.task, Goal | GoalCell) else {}
        return np.array(observation), reward, bool(ended), self._steps >= self._last_step, info

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.render_mode is None:
            return None
        if isinstance(self.member, HasPicture):
            return self.member.render(self._state)
        goal = (self.task.place.tolist(), float(self.task.radius)) if isinstance(self.task, Goal) else None
        return draw_gridworld_trail(self.member, np.stack(self._trail), goal)

    def _remember(self) -> None:
        if self.render_mode is not None and not isinstance(self.member, HasPicture):
            self._trail.append(np.asarray(self._state))


def goal_environment(
    class_name: str,
    member: str | int | np.integer = 0,
    goal: Sequence[float | int] | None = None,
    horizon: int = 400,
    render_mode: str | None = None,
    radius: float = GOAL_RADIUS,
) -> MemberEnvironment:
    """Return a member with a goal. Reaching the goal gives a reward and ends the episode.

    The reward is 1 when the agent comes within `radius` of the place `goal`. In a MiniGrid, `goal` is a cell
    (column, row), and the reward is MiniGrid's own.
    """
    if goal is None:
        raise InputError("goal: none was given; say where it is, e.g. goal=(0.7, -0.7), or goal=(4, 3) in a MiniGrid")
    with jax.default_device(device_for_little_work()):
        task = goal_task_at(
            _member_in_member_environment(class_name, member), [float(coordinate) for coordinate in goal], radius
        )
    return MemberEnvironment(class_name, member, horizon, render_mode, task)


goal_environment.metadata = MemberEnvironment.metadata  # pyright: ignore[reportFunctionMemberAccess] (Gymnasium reads it)


def _member_in_member_environment(class_name: str, member: str | int | np.integer) -> Any:
    environment_class = make(class_name)
    if isinstance(environment_class, HostClass):
        raise InputError(f"class_name: {class_name} was given; it must be a class whose members are written in JAX")
    return environment_class[member]


@jax.jit
def _reset_member_environment(member: CMP, key):
    state = member.reset(key=key)
    return state, member.observe(state)


@jax.jit
def _step_member_environment(member: CMP, task: Task | None, state, action, key, step):
    reached = member.step(state, action, key=jax.random.fold_in(key, step))
    reward, ended = jnp.array(0.0), member.ended(reached)
    if task is not None:
        reward, ended = task.reward(member, state, action, reached), ended | task.ended(member, reached)
    return reached, member.observe(reached), reward, ended
