"""Host classes: environments that are not written in JAX. A fleet runs them on the host, in processes or threads."""

# Some fields of `HostMember` override properties of `Member`.
# pyright: reportIncompatibleMethodOverride=false

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

from alphamepol.environments.cmp import Member
from alphamepol.environments.environment_class import (
    GENERATED_PARTS,
    EnvironmentClass,
    check_class_probabilities,
    check_member_names,
    find_member_of_class,
    repr_of_class,
)
from alphamepol.environments.generated.member_generator import MemberGenerator
from alphamepol.environments.maps import Map
from alphamepol.errors import InputError
from alphamepol.notebooks.views import view
from alphamepol.settings.run import WorkersGiven


class HostState(eqx.Module):
    """The part of a host environment's state that is known. Tasks compute rewards from it."""

    observation: Float[Array, "*rows observation"]
    """The observation as a flat vector."""
    particle: Float[Array, "*rows features"]
    """The feature vector that counts for the entropy."""
    reward: Float[Array, "*rows"]
    """The environment's own reward for the step that led to this state."""
    over: Bool[Array, "*rows"]
    """True if the environment has ended the episode."""


@dataclass(frozen=True, eq=False)
class Spaces:
    """The observation space and the action space of a host member.

    Observations are images or flat vectors. Gymnasium spaces cannot be hashed, but static fields of a module must be
    hashable. Therefore this class wraps them and is hashed by its identity.
    """

    observation: gymnasium.Space
    action: gymnasium.Space


class HostMember(Member):
    """The description of one member of a host class. The environment itself is run by the fleet of the class."""

    spaces: Spaces = eqx.field(static=True)
    """The observation space and the action space."""
    feature_size: int = eqx.field(static=True)
    """The number of values in a particle."""
    ceiling: float = eqx.field(static=True, default=math.inf)
    """The largest possible entropy of particles in nats, or `math.inf` if it is unknown."""
    time_limit: float = eqx.field(static=True, default=math.inf)
    """The number of steps after which the environment itself truncates an episode."""
    tasks: tuple[Any, ...] = ()
    """The member's own tasks (`alphamepol.Task`) for fine-tuning."""
    endless: bool = eqx.field(static=True, default=False)
    """True if pre-training steps on, without a reset, after the environment has ended the episode."""
    map: Map | None = eqx.field(static=True, default=None)
    """The map that figures draw. None if the member has no map."""
    gives_reward: bool = eqx.field(static=True, default=True)
    """True if the environment has a reward of its own."""
    entropy_names: tuple[str, ...] = eqx.field(static=True, default=())
    """The name of each feature of a particle, which figures write at their axes."""

    @property
    def observation_space(self) -> gymnasium.Space:
        return self.spaces.observation

    @property
    def action_space(self) -> gymnasium.Space:
        return self.spaces.action

    @property
    def observation_size(self) -> int:
        """The number of values in one observation. States hold the observation as a flat vector."""
        return int(np.prod(self.spaces.observation.shape or ()))

    @property
    def entropy_ceiling(self) -> float:
        return self.ceiling

    def blank_state(self) -> HostState:
        """Return a state of the right shapes that is zero everywhere."""
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
    """The arrays into which a fleet writes the results of its stations.

    A station runs one environment at a time. Each station has one row in every array.
    """

    observations: Float[np.ndarray, "stations observation"]
    """The observations as flat vectors."""
    particles: Float[np.ndarray, "stations features"]
    """The feature vectors that count for the entropy."""
    rewards: Float[np.ndarray, " stations"]
    """The environment's own reward for the last step."""
    over: Bool[np.ndarray, " stations"]
    """True if the environment has ended the episode."""
    cut: Bool[np.ndarray, " stations"]
    """True if a time limit has truncated the episode, which has not ended by itself."""
    together: int
    """The number of stations that can be in use at once."""
    batch: int | None = None
    """The number of stations for which the policy acts at once, a divisor of the number of stations. By default it acts
    for all stations. Results depend on it in their last bits."""

    @property
    def batches(self) -> list[slice]:
        """The stations of each batch."""
        stations = len(self.over)
        batch = self.batch or stations
        return [slice(first, first + batch) for first in range(0, stations, batch)]

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
    """The interface of a fleet, which resets and steps many host environments side by side.

    Stations are the rows of a `Board`. A fleet knows the members by their numbers.
    """

    def board(self, trajectories: int) -> Board:
        """Return the board to use for this number of trajectories."""
        ...

    def reset(
        self,
        board: Board,
        stations: Int[np.ndarray, " some"],
        members: Int[np.ndarray, " some"],
        seeds: UInt32[np.ndarray, " some"],
    ) -> None:
        """Begin an episode at each of the given stations, and write its start to the board.

        `members` are the numbers of the members to act in, and `seeds` the seeds of the episodes. The seed determines
        everything that is random in the episode.
        """
        ...

    def step(
        self, board: Board, stations: Int[np.ndarray, " some"], actions: Shaped[np.ndarray, "stations ..."]
    ) -> None:
        """Take one step at each of the given stations, and write the result to the board.

        `actions` has a row for every station of the board, also for stations that take no step.
        """
        ...

    def close(self) -> None:
        """Release all processes and threads. A reset after this call must work again."""
        ...


@runtime_checkable
class FleetOfWorkers(Fleet, Protocol):
    """The interface of a fleet whose workers can be chosen."""

    @property
    def remark(self) -> str:
        """A sentence about the workers, which commands say at their start. It may be empty."""
        ...

    def with_workers(self, workers: WorkersGiven) -> "FleetOfWorkers":
        """Return a fleet of the same environments with other workers."""
        ...


class HostClass:
    """A class of environments that run on the host, outside of JAX: its members, and the probability p_M of each.

    All commands except `metatrain` take a `HostClass` as well as an `EnvironmentClass`. `gymnasium_class` builds one
    from Gymnasium environments. Call the constructor yourself only if you have written a fleet of your own.

    `host_class["heavy"]` and `host_class[1]` return the description of one member, and `len(host_class)` is the number
    of members. The attributes have the names of the arguments. `members` is a tuple, and `names` holds the names of
    the members.

    **Arguments**

    - `members`: a dictionary from names to `HostMember`s. Observation spaces, action spaces and particle sizes must be
      equal.
    - `fleet`: the object that resets and steps the environments (the protocol `Fleet`). It knows the members by their
      numbers.
    - `probabilities`: one number per member; they must sum to 1. The default is a uniform distribution.
    - `name`: the name of the class in reports.
    - `description`: a text that distinguishes this class from others of the same name. Resuming a run compares it.
    - `generator`: the rule that draws members for training; `generated_class` makes such a class.

    **Raises**

    - `InputError`: if there is no member, or if `probabilities` is not a distribution over the members.

    **Example**

    ```python
    from functools import partial

    import gymnasium

    import alphamepol as am

    members = {"earth": "Pendulum-v1", "moon": partial(gymnasium.make, "Pendulum-v1", g=1.6)}
    pendulums = am.gymnasium_class(members, probabilities=[0.8, 0.2])
    assert isinstance(pendulums, am.HostClass)
    print(pendulums.names, pendulums["moon"].time_limit)  # ('earth', 'moon') 200.0
    ```
    """

    def __init__(
        self,
        members: Mapping[str, HostMember],
        fleet: Fleet,
        probabilities: Sequence[float] | None = None,
        name: str = "custom",
        description: str = "",
        generator: MemberGenerator | None = None,
    ):
        if not members:
            raise InputError("members: a class needs at least one member")
        self.members = tuple(members.values())
        self.fleet = fleet
        self.names = check_member_names(members)
        self.name = name
        self.description = description
        self.generator = generator
        uniform = [1.0 / len(members)] * len(members)
        self.probabilities = check_class_probabilities(uniform if probabilities is None else probabilities, self.names)

    def __repr__(self) -> str:
        return repr_of_class(self)

    def _repr_html_(self) -> str:
        return view("class", self)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, which: str | int | np.integer) -> HostMember:
        return self.members[find_member_of_class(which, self.names, self.name)]

    def index(self, name: str) -> int:
        """Return the number of the member with this name. Raises an `InputError` if there is no such member."""
        return find_member_of_class(name, self.names, self.name)

    def with_probabilities(self, probabilities: Sequence[float]) -> "HostClass":
        """Return a class with the same members and other probabilities."""
        if self.generator is not None:
            raise InputError("probabilities: a generated class draws its members itself; leave them out")
        members = dict(zip(self.names, self.members, strict=True))
        return HostClass(members, self.fleet, probabilities, self.name, self.description)

    def with_workers(self, workers: WorkersGiven) -> "HostClass":
        """Return a class with the same members, which other workers step; see `gymnasium_class`."""
        if not isinstance(self.fleet, FleetOfWorkers):
            raise InputError(f"workers: {workers} was given; only classes of Gymnasium environments have workers")
        generator = self.generator
        if generator is not None and generator.host_class is not None:
            # Classes of other members of the generator have the same workers.
            generator = dataclasses.replace(
                generator, host_class=partial(cast(Callable[..., Any], generator.host_class), workers=workers)
            )
        members, fleet = dict(zip(self.names, self.members, strict=True)), self.fleet.with_workers(workers)
        return HostClass(members, fleet, self.probabilities, self.name, self.description, generator)

    def renamed(self, name: str) -> "HostClass":
        """Return the same class under another name."""
        members = dict(zip(self.names, self.members, strict=True))
        return HostClass(members, self.fleet, self.probabilities, name, self.description, self.generator)

    def with_fleet(self, fleet: Fleet) -> "HostClass":
        """Return the same class, stepped by another fleet."""
        members = dict(zip(self.names, self.members, strict=True))
        return HostClass(members, fleet, self.probabilities, self.name, self.description, self.generator)

    def describe(self, number: int) -> HostMember:
        """Return the description of the member with a number. All members of a generated class have the same one."""
        return self.members[0 if self.generator is not None else number]

    @property
    def distribution(self) -> tuple[float, ...] | MemberGenerator:
        """The distribution that training draws the numbers of members from (`draw_members_of_class`)."""
        return self.generator or self.probabilities

    @property
    def reported_names(self) -> tuple[str, ...]:
        """The names under which metrics report entropies: those of the members, or of parts of a generated class."""
        return GENERATED_PARTS if self.generator else self.names

    @property
    def fingerprint(self) -> str:
        """The SHA-256 hash of what is known of the members without running them, and of the description.

        A run that is resumed compares this hash, to notice members that have changed but kept their names.
        """
        known = [
            (str(member.observation_space), str(member.action_space), member.feature_size, member.time_limit)
            for member in self.members
        ]
        return hashlib.sha256(f"{known} {self.description}".encode(errors="surrogatepass")).hexdigest()


AnyClass = EnvironmentClass | HostClass
"""A class of environments of either kind: compiled or host class."""


def remark_about_class(environment_class: AnyClass) -> str:
    """Return a sentence about how a class is stepped, which commands say at their start. It may be empty."""
    if isinstance(environment_class, HostClass):
        return environment_class.fleet.remark if isinstance(environment_class.fleet, FleetOfWorkers) else ""
    return environment_class.members.remark
