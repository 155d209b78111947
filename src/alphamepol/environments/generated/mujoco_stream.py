"""Generated classes of MuJoCo models: models are made from their numbers on the host, and stepped on the CPU."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.environment_warnings import name_of_member
from alphamepol.environments.generated.environment_seeds import environment_seed
from alphamepol.environments.generated.member_generator import MemberGenerator
from alphamepol.environments.mujoco.cpu_physics import CpuPhysics
from alphamepol.environments.mujoco.models import mujoco_start_arrays, read_mujoco_model_like
from alphamepol.environments.mujoco.mujoco_class import MujocoModel, mujoco_class
from alphamepol.environments.mujoco.mujoco_member import MujocoMember
from alphamepol.environments.mujoco.physics import PhysicsState
from alphamepol.errors import InputError

MOST_KEPT = 1024
"""The number of models of the training stream that are kept. Others are made again when they are needed."""


class MujocoModelStream(Sequence[Any]):
    """The models of a generated class by their numbers: the named ones, and after them the training stream."""

    def __init__(self, named: Mapping[str, Any], make: Callable[[int], Any], class_seed: int):
        self._names, self._named = tuple(named), tuple(named.values())
        self._make, self._seed = make, class_seed
        self._unnamed = lru_cache(MOST_KEPT)(self._make_unnamed)

    def __len__(self) -> int:
        return len(self._named)

    def __getitem__(self, number: Any) -> Any:
        return self._named[number] if number < len(self._named) else self._unnamed(number)

    def _make_unnamed(self, number: int) -> Any:
        given = make_mujoco_model(self._make, environment_seed(number, self._seed, test=False))
        model = given.model if isinstance(given, MujocoModel) else given
        return read_mujoco_model_like(name_of_member(number, self._names), model, self._names[0], self._named[0])


@dataclasses.dataclass(frozen=True, eq=False)
class NumberedMujocoMembers:
    """The function that returns the member with a number. Inside a compiled program it asks the host for the model."""

    first: MujocoMember
    """The first named member. The others have its functions and its noise."""
    models: MujocoModelStream

    def __call__(self, number: Int[Array, ""]) -> MujocoMember:
        """Return the member with a number, which may be traced."""
        start = self.first.start
        parts = start.qpos, start.qvel, start.act, start.sensors
        packed = jax.pure_callback(
            self._start_and_seconds,
            jax.ShapeDtypeStruct((sum(map(len, parts)) + 1,), jnp.float32),
            number,
            vmap_method="broadcast_all",
        )
        qpos, qvel, act, sensors, seconds = jnp.split(packed, np.cumsum([len(part) for part in parts]))
        return dataclasses.replace(
            self.first,
            number=number,
            digest=jnp.zeros_like(self.first.digest),
            start=PhysicsState(qpos, qvel, act, sensors, start.steps, start.time),
            seconds=seconds[0],
        )

    def _start_and_seconds(self, numbers: Any) -> np.ndarray:
        """Return how episodes begin in members, and their time steps. The numbers have any number of leading axes."""
        numbers = np.asarray(numbers)
        distinct, places = np.unique(numbers, return_inverse=True)
        rows = np.stack([self._of_one(int(number)) for number in distinct])
        return rows[places.reshape(-1)].reshape(*numbers.shape, rows.shape[1])

    def _of_one(self, number: int) -> np.ndarray:
        try:
            model = self.models[number]
        except InputError:  # the engine asks for the model, too, and complains
            model = self.models[0]
        seconds = self.first.staging.frame_skip * model.opt.timestep
        return np.concatenate([*mujoco_start_arrays(model), [seconds]], dtype=np.float32)


def generated_mujoco_class(
    make: Callable[[int], Any], *, training: int | None, shown: int, seed: int, name: str, **options: Any
) -> EnvironmentClass[MujocoMember]:
    """Make a generated class of MuJoCo models; see `generated_class`. `options` are arguments of `mujoco_class`."""

    def class_of(makers: Mapping[str, Callable[[], Any]]) -> EnvironmentClass[MujocoMember]:
        return mujoco_class({one: make() for one, make in makers.items()}, name=name, physics="cpu", **options)

    def make_checked(member_seed: int) -> Any:
        return make_mujoco_model(make, member_seed)

    generator = MemberGenerator(make_checked, seed, shown, training, class_of)
    named = class_of(generator.environments_of_stream("unseen", shown))
    first = named[0]
    models = MujocoModelStream(dict(zip(named.names, first.staging.models, strict=True)), make, seed)
    engine = CpuPhysics(models, first.staging.frame_skip)
    members = {one: dataclasses.replace(named[one], engine=engine) for one in named.names}
    numbered = NumberedMujocoMembers(members[named.names[0]], models)
    return EnvironmentClass(members, name=name, generator=dataclasses.replace(generator, numbered=numbered))


def make_mujoco_model(make: Callable[[int], Any], seed: int) -> Any:
    """Call a user's function. Raises an `InputError` if it fails."""
    try:
        return make(seed)
    except Exception as error:
        raise InputError(f"make_member: it failed for the seed {seed} ({type(error).__name__}: {error})") from error
