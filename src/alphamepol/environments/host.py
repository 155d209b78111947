"""Classes of environments that are not written in JAX: they run on the host, in processes or threads of a fleet."""

# Fields of `HostMember` stand for properties of `Member`.
# pyright: reportIncompatibleMethodOverride=false

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

from alphamepol.environments.cmp import Member
from alphamepol.environments.environment_class import EnvironmentClass, check_class_probabilities, find_member_of_class
from alphamepol.environments.maps import Map
from alphamepol.errors import InputError


class HostState(eqx.Module):
    """What a host environment shows of its state; tasks are functions of it."""

    observation: Float[Array, "*rows observation"]
    particle: Float[Array, "*rows features"]
    """The vector whose entropy counts."""
    reward: Float[Array, "*rows"]
    """The environment's own, of the step that led here."""
    over: Bool[Array, "*rows"]
    """Whether the environment has ended the episode."""


@dataclass(frozen=True, eq=False)
class Spaces:
    """What is observed and done, both as vectors, but for images. Spaces cannot be hashed; this can, as itself."""

    observation: gymnasium.Space
    action: gymnasium.Space


class HostMember(Member):
    """One member of a host class: what is known of it without running it."""

    spaces: Spaces = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)
    ceiling: float = eqx.field(static=True, default=math.inf)
    time_limit: float = eqx.field(static=True, default=math.inf)
    tasks: tuple[Any, ...] = ()
    endless: bool = eqx.field(static=True, default=False)
    """Whether pre-training goes on where the environment ends an episode."""
    map: Map | None = eqx.field(static=True, default=None)
    gives_reward: bool = eqx.field(static=True, default=True)

    @property
    def observation_space(self) -> gymnasium.Space:
        return self.spaces.observation

    @property
    def action_space(self) -> gymnasium.Space:
        return self.spaces.action

    @property
    def observation_size(self) -> int:
        """How many numbers an observation has; states hold it as a vector."""
        return int(np.prod(self.spaces.observation.shape or ()))

    @property
    def entropy_ceiling(self) -> float:
        return self.ceiling

    def blank_state(self) -> HostState:
        """A state of the right shapes, with nothing in it."""
        return HostState(
            jnp.zeros(self.observation_size), jnp.zeros(self.feature_size), jnp.zeros(()), jnp.zeros((), bool)
        )

    def observe(self, state: HostState) -> Float[Array, " observation"]:
        return state.observation

    def features(self, state: HostState) -> Float[Array, " features"]:
        return state.particle

    def ended(self, state: HostState) -> Bool[Array, ""]:
        return state.over


@dataclass(frozen=True)
class Board:
    """Where the stations of a fleet report: each holds one environment at a time, and a row of every array."""

    observations: Float[np.ndarray, "stations observation"]
    particles: Float[np.ndarray, "stations features"]
    rewards: Float[np.ndarray, " stations"]
    over: Bool[np.ndarray, " stations"]
    """Whether the environment has ended the episode."""
    cut: Bool[np.ndarray, " stations"]
    """Whether it would go on, but a time limit has cut it."""
    together: int
    """How many stations can be in use at once."""

    @classmethod
    def empty(cls, stations: int, member: HostMember, together: int) -> "Board":
        return cls(
            np.zeros((stations, member.observation_size), np.float32),
            np.zeros((stations, member.feature_size), np.float32),
            np.zeros(stations, np.float32),
            np.zeros(stations, bool),
            np.zeros(stations, bool),
            together,
        )


@runtime_checkable
class Fleet(Protocol):
    """What resets and steps host environments, many side by side."""

    def board(self, trajectories: int) -> Board:
        """The stations to use for that many trajectories."""
        ...

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
        """Begin an episode in a member at each of some stations; its seed decides all that is left to chance."""
        ...

    def step(
        self, board: Board, stations: Int[np.ndarray, " some"], actions: Shaped[np.ndarray, "stations ..."]
    ) -> None:
        """Take one step at each of some stations; the actions are of all."""
        ...

    def close(self) -> None:
        """Let go of processes and threads; the next reset starts them again."""
        ...


class HostClass:
    """Members that run on the host, with the probability p_M that each is met.

    It stands wherever an `EnvironmentClass` does. Build one with `gymnasium_class`, or from a fleet of your own.

    **Arguments**

    - `members`: name → what is known of the member; spaces and particles of equal size.
    - `fleet`: what runs them; it knows members by number.
    - `probabilities`: one per member, summing to 1; uniform if not given.
    - `name`: what reports call the class.
    - `description`: whatever tells this class from another of the same name, for resuming a run.
    """

    def __init__(
        self,
        members: Mapping[str, HostMember],
        fleet: Fleet,
        probabilities: Sequence[float] | None = None,
        name: str = "custom",
        description: str = "",
    ):
        if not members:
            raise InputError("members: a class needs at least one member")
        self.members = tuple(members.values())
        self.fleet = fleet
        self.names = tuple(members)
        self.name = name
        self.description = description
        uniform = [1.0 / len(members)] * len(members)
        self.probabilities = check_class_probabilities(uniform if probabilities is None else probabilities, self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, which: str | int | np.integer) -> HostMember:
        return self.members[find_member_of_class(which, self.names, self.name)]

    def index(self, name: str) -> int:
        """The number of a member."""
        return find_member_of_class(name, self.names, self.name)

    def with_probabilities(self, probabilities: Sequence[float]) -> "HostClass":
        """The same members under another distribution."""
        members = dict(zip(self.names, self.members, strict=True))
        return HostClass(members, self.fleet, probabilities, self.name, self.description)

    def renamed(self, name: str) -> "HostClass":
        """The same class under another name."""
        members = dict(zip(self.names, self.members, strict=True))
        return HostClass(members, self.fleet, self.probabilities, name, self.description)

    @property
    def fingerprint(self) -> str:
        """What tells these members from others of the same names, as far as that can be told without running them."""
        known = [
            (str(member.observation_space), str(member.action_space), member.feature_size, member.time_limit)
            for member in self.members
        ]
        return hashlib.sha256(f"{known} {self.description}".encode()).hexdigest()


AnyClass = EnvironmentClass | HostClass
"""What can be trained on."""
