"""A class of MuJoCo models, which a physics engine steps."""

# MuJoCo's compiled modules come without types.
# pyright: reportAttributeAccessIssue=false

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from alphamepol.environments.cmp import check_entropy_names
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.maps import Map
from alphamepol.environments.mujoco.engines import choose_physics_engine
from alphamepol.environments.mujoco.library import mujoco
from alphamepol.environments.mujoco.models import (
    mujoco_control_ranges,
    mujoco_model_digest,
    mujoco_start_arrays,
    read_mujoco_models,
)
from alphamepol.environments.mujoco.mujoco_member import MujocoMember, Staging
from alphamepol.environments.mujoco.physics import PhysicsState
from alphamepol.environments.tasks import Task
from alphamepol.errors import InputError
from alphamepol.settings.run import PhysicsKind

StateFunction = Callable[[PhysicsState], Any]
QUATERNIONS = {mujoco.mjtJoint.mjJNT_FREE: 3, mujoco.mjtJoint.mjJNT_BALL: 0}
"""For joints that have a quaternion: its place among the positions of the joint."""


@dataclass(frozen=True)
class MujocoModel:
    """A MuJoCo model with the facts about it that its file does not hold.

    **Arguments**

    - `model`: an `MjSpec`, an `MjModel`, or the path of an MJCF file.
    - `tasks`: the member's own tasks (`alphamepol.Task`) for fine-tuning.
    - `entropy_ceiling`: the largest possible entropy of particles in nats, if it is known.
    - `map`: the map that figures draw behind particles of two numbers.

    **Example**

    ```python
    from pathlib import Path

    import gymnasium

    import alphamepol as am

    hopper = Path(gymnasium.__file__).parent / "envs/mujoco/assets/hopper.xml"
    member = am.MujocoModel(hopper, tasks=(am.HalfSpace(normal=(1.0, 0.0), offset=2.0),))
    hoppers = am.mujoco_class({"hopper": member}, frame_skip=4, entropy_on=[0, 1])
    print(hoppers["hopper"].tasks[0].describe())  # {'normal': [1.0, 0.0], 'offset': 2.0}
    ```
    """

    model: Any
    tasks: Sequence[Task] = ()
    entropy_ceiling: float = math.inf
    map: Map | None = None


def mujoco_class(
    members: Mapping[str, Any],
    probabilities: Sequence[float] | None = None,
    *,
    frame_skip: int = 5,
    entropy_on: Sequence[int] | slice | StateFunction | None = None,
    entropy_names: Sequence[str] = (),
    observation: StateFunction | None = None,
    ended: StateFunction | None = None,
    position_noise: float = 0.1,
    velocity_noise: float = 0.1,
    tasks: Sequence[Task] = (),
    name: str = "custom",
    physics: PhysicsKind = "auto",
) -> EnvironmentClass[MujocoMember]:
    """Build a class of MuJoCo models. One compiled program steps the models of all trajectories side by side.

    The models have the same bodies, joints, geoms, actuators and sensors, and differ in numbers: masses, friction,
    gravity, sizes, places, gears and so on. An episode begins in the first keyframe of a model, or in its initial
    position if it has no keyframe.

    **Arguments**

    - `members`: a dictionary from names to models. A model is an `MjSpec`, an `MjModel`, the path of an MJCF file, or a
      `MujocoModel`, which adds tasks, a map or a ceiling.
    - `probabilities`: one number per member; they must sum to 1. The default is a uniform distribution.
    - `frame_skip`: the number of physics steps of one action.
    - `entropy_on`: the quantity whose entropy is maximised: indices or a slice of the observation, or a function of a
      state. A state has the fields `qpos`, `qvel`, `act`, `sensors`, `steps` and `time`. The function is written in
      JAX. The default is the whole observation.
    - `entropy_names`: a name for each number of that quantity. Figures write the names at their axes.
    - `observation`: a function of a state that returns what the policy sees, a vector. By default these are `qpos` and
      `qvel`, one after the other.
    - `ended`: a function of a state that tells whether the episode is over. By default no episode ends early.
    - `position_noise`: positions at the start of an episode are uniform within this distance of the start.
    - `velocity_noise`: the standard deviation of velocities at the start of an episode.
    - `tasks`: the tasks (`alphamepol.Task`) for fine-tuning, in members that have no tasks of their own. Without tasks,
      fine-tuning needs goals.
    - `name`: the name of the class in reports.
    - `physics`: the engine. `"cpu"` is MuJoCo on all cores of this machine. `"gpu"` is MuJoCo Warp on an NVIDIA GPU;
      it needs `pip install 'alphamepol[gpu-physics]'`. `"auto"` is the GPU if there is one and the models can be
      stepped on it, and otherwise the CPU.

    **Returns**

    The class, an `EnvironmentClass`.

    **Raises**

    - `InputError`: if a model cannot be read; if the models differ in structure; if a function fails, or does not
      return what it should; or if another argument is not allowed.

    **Example**

    ```python
    from pathlib import Path

    import gymnasium
    import mujoco

    import alphamepol as am

    path = Path(gymnasium.__file__).parent / "envs/mujoco/assets/hopper.xml"
    slippery = mujoco.MjSpec.from_file(str(path))
    for geom in slippery.geoms:
        geom.friction[0] = 0.3
    hoppers = am.mujoco_class(
        {"normal": path, "slippery": slippery},
        probabilities=[0.8, 0.2],
        frame_skip=4,
        entropy_on=lambda state: state.qpos[:2],
        entropy_names=("x", "height"),
        tasks=[am.RewardFunction(lambda state, action, reached: reached.qpos[0] - state.qpos[0], name="go ahead")],
        name="hoppers",
    )
    print(hoppers.names, hoppers["slippery"].observation_space.shape)  # ('normal', 'slippery') (12,)
    ```
    """
    if not isinstance(members, Mapping) or not members:
        raise InputError("members: none was given; give a dictionary with at least one name and its model")
    if not isinstance(frame_skip, int | np.integer) or frame_skip < 1:
        raise InputError(f"frame_skip: {frame_skip} was given; it must be a whole number, at least 1")
    for argument, noise in (("position_noise", position_noise), ("velocity_noise", velocity_noise)):
        if not (math.isfinite(noise) and noise >= 0):
            raise InputError(f"{argument}: {noise} was given; it must be at least 0 and finite")
    given = {one: model if isinstance(model, MujocoModel) else MujocoModel(model) for one, model in members.items()}
    models = read_mujoco_models({one: member.model for one, member in given.items()})
    first = next(iter(models.values()))
    starts = [_start_of_mujoco_class(model) for model in models.values()]
    observe = observation or positions_and_velocities
    seen = _vector_of_mujoco_class("observation", observe, starts[0])
    features = entropy_on if callable(entropy_on) else _chosen_in_mujoco_class(entropy_on, observe, seen)
    particle = _vector_of_mujoco_class("entropy_on", features, starts[0])
    check_entropy_names(entropy_names, particle)
    staging = Staging(
        names=tuple(models),
        models=tuple(models.values()),
        maps=tuple(member.map for member in given.values()),
        ceilings=tuple(float(member.entropy_ceiling) for member in given.values()),
        tasks=tuple(tuple(member.tasks or tasks) for member in given.values()),
        observe=observe,
        features=features,
        ended=ended or never_ends,
        quaternions=_quaternions_of_mujoco_class(first),
        observation_space=gymnasium.spaces.Box(-math.inf, math.inf, (seen,), np.float32),
        action_space=gymnasium.spaces.Box(*mujoco_control_ranges(first), dtype=np.float32),
        entropy_names=tuple(entropy_names) or _usual_names_in_mujoco_class(features, particle),
        frame_skip=int(frame_skip),
    )
    _check_end_of_mujoco_class(staging.ended, starts[0])
    engine = choose_physics_engine(models, int(frame_skip), physics)
    found = {
        one: MujocoMember(
            number=jnp.array(number, jnp.int32),
            digest=jnp.array(mujoco_model_digest(model, frame_skip, entropy_on, observation, ended)),
            start=start,
            position_noise=jnp.array(position_noise, float),
            velocity_noise=jnp.array(velocity_noise, float),
            seconds=jnp.array(frame_skip * model.opt.timestep, float),
            staging=staging,
            engine=engine,
        )
        for number, ((one, model), start) in enumerate(zip(models.items(), starts, strict=True))
    }
    return EnvironmentClass(found, probabilities, name)


def positions_and_velocities(state: PhysicsState) -> Float[Array, " observation"]:
    """Return the usual observation of a MuJoCo class."""
    return jnp.concatenate([state.qpos, state.qvel])


def never_ends(state: PhysicsState) -> Bool[Array, ""]:
    return jnp.array(False)


@dataclass(frozen=True)
class ChosenComponents:
    """A function of a state that returns some components of the observation."""

    observe: StateFunction
    components: tuple[int, ...]

    def __call__(self, state: PhysicsState) -> Float[Array, " features"]:
        return self.observe(state)[jnp.array(self.components)]


def _chosen_in_mujoco_class(
    entropy_on: Sequence[int] | slice | None, observe: StateFunction, size: int
) -> ChosenComponents:
    try:
        everything = np.arange(size)
        chosen = everything if entropy_on is None else np.atleast_1d(everything[entropy_on])  # pyright: ignore
    except (IndexError, TypeError) as error:
        raise InputError(
            f"entropy_on: {entropy_on!r} was given; an observation has the components 0 to {size - 1}"
        ) from error
    if not len(chosen):
        raise InputError("entropy_on: it chooses no component; give at least one")
    return ChosenComponents(observe, tuple(chosen.tolist()))


def _usual_names_in_mujoco_class(features: StateFunction, size: int) -> tuple[str, ...]:
    if isinstance(features, ChosenComponents):
        return tuple(f"observation {number}" for number in features.components)
    return tuple(f"feature {number}" for number in range(size))


def _start_of_mujoco_class(model: Any) -> PhysicsState:
    """Return the state in which the episodes of a model begin, without noise."""
    qpos, qvel, act, sensors = map(jnp.asarray, mujoco_start_arrays(model))
    return PhysicsState(qpos, qvel, act, sensors, jnp.array(0, jnp.int32), jnp.array(0.0, jnp.float32))


def _vector_of_mujoco_class(argument: str, function: StateFunction, state: PhysicsState) -> int:
    """Return the length of the vector that a function returns. Raises an `InputError` if it returns something else."""
    try:
        found = jax.eval_shape(function, state)
    except Exception as error:
        raise InputError(f"{argument}: the function failed ({type(error).__name__}: {error})") from error
    if not isinstance(found, jax.ShapeDtypeStruct) or len(found.shape) != 1 or not found.shape[0]:
        shape = getattr(found, "shape", type(found).__name__)
        raise InputError(f"{argument}: the function returned {shape}; it must return a vector, written in JAX")
    return found.shape[0]


def _check_end_of_mujoco_class(ended: StateFunction, state: PhysicsState) -> None:
    try:
        found = jax.eval_shape(ended, state)
    except Exception as error:
        raise InputError(f"ended: the function failed ({type(error).__name__}: {error})") from error
    if getattr(found, "shape", None) != () or found.dtype != bool:
        raise InputError(f"ended: the function returned {found}; it must return one truth value, written in JAX")


def _quaternions_of_mujoco_class(model: Any) -> tuple[int, ...]:
    return tuple(
        int(model.jnt_qposadr[joint]) + QUATERNIONS[kind]
        for joint, kind in enumerate(map(mujoco.mjtJoint, model.jnt_type.tolist()))
        if kind in QUATERNIONS
    )
