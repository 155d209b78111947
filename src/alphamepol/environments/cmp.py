"""The interface of a controlled Markov process (CMP): an environment without a reward."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import gymnasium
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.maps import Map


class Member(eqx.Module):
    """One environment of a class: its spaces, and how its states are read. Methods work on one state.

    The abstract methods and properties are what every member has. The others have a value that suits most members, and
    a member that has more overrides them. What only some members can do is a protocol: `HasPlace`, `HasFreeSpace`,
    `HasCells`.
    """

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.Space:
        """The space of what `observe` returns, the same for every member of a class."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space:
        """The space of actions, the same for every member of a class."""

    @property
    @abstractmethod
    def entropy_ceiling(self) -> float:
        """The largest differential entropy that features can have: ln of their volume, `math.inf` if unknown."""

    @abstractmethod
    def observe(self, state: PyTree[Array]) -> Shaped[Array, "..."]:
        """Return what the policy sees of a state."""

    @abstractmethod
    def features(self, state: PyTree[Array]) -> Float[Array, " features"]:
        """Return the particle of a state: the vector whose entropy counts."""

    @abstractmethod
    def ended(self, state: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether the trajectory is over once this state is reached."""

    @property
    def map(self) -> Map | None:
        """The ground that the member is on, for pictures; None if it is on none."""
        return None

    @property
    def tasks(self) -> tuple[Any, ...]:
        """The member's own tasks (`alphamepol.Task`) for fine-tuning; none if goals are to be drawn."""
        return ()

    @property
    def time_limit(self) -> float:
        """The steps after which the environment itself cuts an episode."""
        return math.inf

    @property
    def reward_lasts(self) -> float:
        """The steps after which a goal is worth nothing any more."""
        return math.inf

    @property
    def gives_reward(self) -> bool:
        """Whether the member rewards its agent by itself."""
        return False


class CMP(Member):
    """A member written in JAX. Its array fields are its parameters.

    A member of your own is any final subclass with these methods and properties and those of `Member`. Members of one
    class must have the same structure (fields of equal shapes) and spaces, so that they can be stacked and run side by
    side.
    """

    @abstractmethod
    def reset(self, *, key: PRNGKeyArray) -> PyTree[Array]:
        """Draw an initial state."""

    @abstractmethod
    def step(self, state: PyTree[Array], action: Shaped[Array, "..."], *, key: PRNGKeyArray) -> PyTree[Array]:
        """Draw the state that follows `state` under `action`."""


@runtime_checkable
class HasPlace(Protocol):
    """A member that is somewhere on a map which its particles do not tell."""

    def place(self, state: PyTree[Array]) -> Float[Array, "2"]:
        """Return where the agent is."""
        ...


@runtime_checkable
class HasFreeSpace(Protocol):
    """A member in which goals can be drawn and checked."""

    def draw_place(self, *, key: PRNGKeyArray) -> Float[Array, " features"]:
        """Draw a place uniformly from the free space."""
        ...

    def explain_no_place(self, place: Sequence[float | int]) -> str | None:
        """Say why nothing can ever be at `place`, as the end of a sentence; None if something can."""
        ...


@runtime_checkable
class HasCells(Protocol):
    """A member whose goals are things in its cells."""

    def with_goal(self, cell: Int[Array, "2"]) -> Member:
        """Return the same member with a goal in a cell (column, row)."""
        ...
