"""One member of a class of MuJoCo models, as a controlled Markov process that a physics engine steps."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from alphamepol.compute.devices import wait_for_devices
from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_warnings import name_of_member, show_environment_warnings
from alphamepol.environments.maps import Map
from alphamepol.environments.mujoco.engines import choose_physics_engine
from alphamepol.environments.mujoco.physics import COMPLAINTS, PhysicsEngine, PhysicsState
from alphamepol.environments.mujoco.pictures import paint_mujoco_model
from alphamepol.errors import RunError
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.settings.run import PhysicsKind


@dataclass(frozen=True)
class Staging:
    """The parts of a MuJoCo class that are not arrays, and that all its members share.

    Two classes with equal stagings share compiled programs. The models are not compared: members have their hashes.
    """

    names: tuple[str, ...]
    models: tuple[Any, ...] = field(compare=False)
    """The compiled MuJoCo model of each member."""
    maps: tuple[Map | None, ...]
    ceilings: tuple[float, ...]
    tasks: tuple[tuple[Any, ...], ...] = field(compare=False)
    observe: Callable[[PhysicsState], Float[Array, " observation"]]
    features: Callable[[PhysicsState], Float[Array, " features"]]
    ended: Callable[[PhysicsState], Bool[Array, ""]]
    quaternions: tuple[int, ...]
    """The numbers of the positions at which quaternions begin."""
    observation_space: gymnasium.Space = field(hash=False)
    action_space: gymnasium.Space = field(hash=False)
    entropy_names: tuple[str, ...]
    frame_skip: int
    """The number of physics steps of a control step."""


class MujocoMember(CMP):
    """A member of a class of MuJoCo models, which `mujoco_class` builds.

    All members together are one module, too, whose arrays have an axis over the members. A state is a `PhysicsState`,
    with the fields `qpos`, `qvel`, `act`, `sensors`, `steps` and `time`.
    """

    number: Int[Array, "*members"]
    """The number of the member in its class."""
    digest: UInt32[Array, "*members 8"]
    """The SHA-256 hash of the member's model and functions. It is part of the fingerprint of the class."""
    start: PhysicsState
    """The state in which an episode begins, without noise."""
    position_noise: Float[Array, "*members"]
    velocity_noise: Float[Array, "*members"]
    seconds: Float[Array, "*members"]
    """The simulated time of one control step."""
    staging: Staging = eqx.field(static=True)
    engine: PhysicsEngine = eqx.field(static=True)

    @property
    def observation_space(self) -> gymnasium.Space:
        return self.staging.observation_space

    @property
    def action_space(self) -> gymnasium.Space:
        return self.staging.action_space

    @property
    def entropy_ceiling(self) -> float:
        return self.staging.ceilings[int(self.number)]

    @property
    def entropy_names(self) -> tuple[str, ...]:
        return self.staging.entropy_names

    @property
    def map(self) -> Map | None:
        return self.staging.maps[int(self.number)]

    @property
    def tasks(self) -> tuple[Any, ...]:
        return self.staging.tasks[int(self.number)]

    @property
    def steps_together(self) -> bool:
        return True

    def reset(self, *, key: PRNGKeyArray) -> PhysicsState:
        positions_key, velocities_key = jax.random.split(key)
        start = self.start
        noise = jax.random.uniform(positions_key, start.qpos.shape, minval=-1.0, maxval=1.0)
        qpos = start.qpos + self.position_noise * noise
        for first in self.staging.quaternions:
            quaternion = qpos[first : first + 4]
            qpos = qpos.at[first : first + 4].set(quaternion / jnp.linalg.norm(quaternion))
        qvel = start.qvel + self.velocity_noise * jax.random.normal(velocities_key, start.qvel.shape)
        return eqx.tree_at(lambda state: (state.qpos, state.qvel), start, (qpos, qvel))

    def step(self, state: PhysicsState, action: Float[Array, " controls"], *, key: PRNGKeyArray) -> PhysicsState:
        moved = self.engine.step(self.number, state, action)
        steps = state.steps + 1
        # The product of a whole number does not gather errors, as a sum of times would.
        return PhysicsState(moved.qpos, moved.qvel, moved.act, moved.sensors, steps, steps * self.seconds)

    def observe(self, state: PhysicsState) -> Float[Array, " observation"]:
        return self.staging.observe(state)

    def features(self, state: PhysicsState) -> Float[Array, " features"]:
        return self.staging.features(state)

    def ended(self, state: PhysicsState) -> Bool[Array, ""]:
        return self.staging.ended(state)

    @property
    def remark(self) -> str:
        return self.engine.about

    def with_physics(self, physics: PhysicsKind) -> "MujocoMember":
        if physics in ("auto", self.engine.kind):
            return self
        models = dict(zip(self.staging.names, self.staging.models, strict=True))
        return dataclasses.replace(self, engine=choose_physics_engine(models, self.staging.frame_skip, physics))

    def check_samples(self, samples: Any) -> None:
        wait_for_devices(samples)
        for number, kind in self.engine.take_complaints():
            fatal, sentence = COMPLAINTS.get(kind, (True, kind))
            name = name_of_member(number, self.staging.names)
            if fatal:
                raise RunError(f"environment {name_as_text(name, WIDTH)}: {sentence}")
            show_environment_warnings([(name, sentence)], each_member=True)

    def render(self, state: PhysicsState) -> np.ndarray:
        """Return a picture of a state, of shape (height, width, 3). It shows what the model's first camera sees."""
        return next(self.render_all([state]))

    def render_all(self, states: Iterable[PhysicsState]) -> Iterator[np.ndarray]:
        """Yield a picture of each state, as `render` returns it."""
        return paint_mujoco_model(self.staging.models[int(self.number)], (np.asarray(state.qpos) for state in states))
