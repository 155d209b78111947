"""The interface of a controlled Markov process (CMP): an environment without a reward."""

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import equinox as eqx
import gymnasium
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped


class Member(eqx.Module):
    """One environment of a class: its spaces, and how its states are read. Methods work on one state."""

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.Space:
        """What `observe` returns, the same for every member of a class."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space:
        """What it takes as actions, the same for every member of a class."""

    @property
    @abstractmethod
    def entropy_ceiling(self) -> float:
        """The largest differential entropy that features can have: ln of their volume, `math.inf` if unknown."""

    @abstractmethod
    def observe(self, state: PyTree[Array]) -> Shaped[Array, "..."]:
        """What the policy sees of a state."""

    @abstractmethod
    def features(self, state: PyTree[Array]) -> Float[Array, " features"]:
        """The particle of a state: the vector whose entropy counts."""

    @abstractmethod
    def ended(self, state: PyTree[Array]) -> Bool[Array, ""]:
        """Whether the trajectory is over once this state is reached."""


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
        """Where the agent is."""
        ...
