"""The interface of a controlled Markov process (CMP): an environment without a reward."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from alphamepol.environments.maps import Map
from alphamepol.errors import InputError
from alphamepol.files.names import name_as_text
from alphamepol.settings.run import PhysicsKind


class Member(eqx.Module):
    """One environment of a class: its spaces, and the functions that read its states.

    Each method works on one state, without a batch axis. Every member implements the abstract methods and properties.
    The other properties have a default that suits most members, and a member may override them. The protocols
    `HasPlace`, `HasFreeSpace`, `HasPicture`, `HasFilm` and `HasCells` declare the methods that only some members have.
    """

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.Space:
        """The space of the observations that `observe` returns. It is the same for every member of a class."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space:
        """The space of the actions. It is the same for every member of a class."""

    @property
    @abstractmethod
    def entropy_ceiling(self) -> float:
        """The largest differential entropy that particles can have, in nats.

        It is the logarithm of the volume that particles can fill, or `math.inf` if this volume is unknown.
        """

    @abstractmethod
    def observe(self, state: PyTree[Array]) -> Shaped[Array, "..."]:
        """Return the observation of a state, which the policy acts on."""

    @abstractmethod
    def features(self, state: PyTree[Array]) -> Float[Array, " features"]:
        """Return the particle of a state: the feature vector that counts for the entropy."""

    @abstractmethod
    def ended(self, state: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether a trajectory ends when it reaches this state."""

    @property
    def entropy_names(self) -> tuple[str, ...]:
        """The name of each feature of a particle, which figures write at their axes.

        If the tuple is empty (the default), figures write "feature 0", "feature 1" and so on.
        """
        return ()

    @property
    def map(self) -> Map | None:
        """The map of the member, which figures draw. None (the default) if the member has no map."""
        return None

    @property
    def tasks(self) -> tuple[Any, ...]:
        """The member's own tasks (`alphamepol.Task`) for fine-tuning.

        If the tuple is empty (the default), fine-tuning draws random goals instead.
        """
        return ()

    @property
    def time_limit(self) -> float:
        """The number of steps after which the environment itself truncates an episode. The default is no limit."""
        return math.inf

    @property
    def reward_lasts(self) -> float:
        """The longest episode, in steps, for which the reward of a goal is defined. The default is no limit.

        In a `MiniGrid` it is `max_steps`, because the reward falls with every step.
        """
        return math.inf

    @property
    def gives_reward(self) -> bool:
        """Tell whether the member has a reward of its own. The default is False."""
        return False


class CMP(Member):
    """A member written in JAX: an environment without a reward, whose array fields are its parameters.

    Subclass `CMP` to write an environment of your own; it is an `equinox.Module`. `EnvironmentClass` then stacks the
    members of a class, and one compiled program steps them side by side. For this, all members of a class must be of
    one type, with fields of equal shapes and with equal spaces.

    A subclass implements these methods. Each one works on a single state and must be traceable by JAX. A state is any
    pytree of arrays.

    - `reset(*, key)`: draw an initial state.
    - `step(state, action, *, key)`: draw the state that follows `state` under `action`.
    - `observe(state)`: return the observation that the policy acts on.
    - `features(state)`: return the particle, the feature vector that counts for the entropy, of shape (features,).
    - `ended(state)`: tell whether a trajectory ends when it reaches this state.

    A subclass also implements these properties.

    - `observation_space`, `action_space`: Gymnasium spaces.
    - `entropy_ceiling`: the largest possible entropy of particles in nats, or `math.inf` if it is unknown.

    A subclass may override the properties `entropy_names`, `map`, `tasks`, `time_limit`, `reward_lasts` and
    `gives_reward`. It may also have the methods `draw_place(*, key)` and `explain_no_place(place)`, so that random
    goals can be drawn in it.

    **Example**

    ```python
    import gymnasium
    import jax
    import jax.numpy as jnp
    import numpy as np

    import alphamepol as am


    class Line(am.CMP):
        wind: jax.Array

        @property
        def observation_space(self):
            return gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

        @property
        def action_space(self):
            return gymnasium.spaces.Box(-0.1, 0.1, (1,), np.float32)

        @property
        def entropy_ceiling(self):
            return 0.0  # the logarithm of the length of the line

        def reset(self, *, key):
            return jax.random.uniform(key, (1,))

        def step(self, state, action, *, key):
            return jnp.clip(state + jnp.clip(action, -0.1, 0.1) + self.wind, 0.0, 1.0)

        def observe(self, state):
            return state

        def features(self, state):
            return state

        def ended(self, state):
            return jnp.array(False)


    members = {"calm": Line(jnp.array(0.0)), "windy": Line(jnp.array(0.25))}
    lines = am.EnvironmentClass(members, probabilities=[0.8, 0.2])
    print(lines["windy"].step(jnp.array([0.5]), jnp.array([0.0]), key=jax.random.key(0)))  # [0.75]
    ```
    """

    @property
    def remark(self) -> str:
        """A sentence about how members are stepped, which commands say at their start. It is empty by default."""
        return ""

    def with_physics(self, physics: PhysicsKind) -> "CMP":
        """Return the same member, stepped by another engine. Members that are written in JAX have no engine."""
        if physics == "auto":
            return self
        raise InputError(f"physics: {physics} was given; only classes of MuJoCo models have an engine to choose")

    @property
    def steps_together(self) -> bool:
        """Tell whether the states of all seeds should be stepped in one call. The default is False.

        A physics engine steps many simulations at once on all cores or on a GPU.
        """
        return False

    def check_samples(self, samples: PyTree[Array]) -> None:
        """Raise a `RunError` if something went wrong in the members while these samples were collected.

        A member whose `step` calls a program outside of JAX overrides this method. The default does nothing.
        """
        return

    @abstractmethod
    def reset(self, *, key: PRNGKeyArray) -> PyTree[Array]:
        """Draw an initial state with a random key."""

    @abstractmethod
    def step(self, state: PyTree[Array], action: Shaped[Array, "..."], *, key: PRNGKeyArray) -> PyTree[Array]:
        """Draw the state that follows `state` under `action`, with a random key."""


@runtime_checkable
class HasPlace(Protocol):
    """A member whose agent has a place on a map, and whose particles do not contain this place."""

    def place(self, state: PyTree[Array]) -> Float[Array, "2"]:
        """Return the place of the agent on the map, of shape (2,)."""
        ...


@runtime_checkable
class HasFreeSpace(Protocol):
    """A member in which random goals can be drawn, and given goals can be checked."""

    def draw_place(self, *, key: PRNGKeyArray) -> Float[Array, " features"]:
        """Draw a place uniformly from the free space."""
        ...

    def explain_no_place(self, place: Sequence[float | int]) -> str | None:
        """Return the reason why a goal cannot be at `place`, or None if it can.

        The reason is the end of an error message, such as "which is inside a wall; choose a place in the free space".
        """
        ...


@runtime_checkable
class HasPicture(Protocol):
    """A member that can draw its states."""

    def render(self, state: PyTree[Array]) -> np.ndarray:
        """Return a picture of a state, of shape (height, width, 3), with values from 0 to 255."""
        ...


@runtime_checkable
class HasFilm(Protocol):
    """A member that draws many states in a row faster than each by itself."""

    def render_all(self, states: Iterable[PyTree[Array]]) -> Iterator[np.ndarray]:
        """Yield a picture of each state, of shape (height, width, 3), with values from 0 to 255."""
        ...


@runtime_checkable
class HasCells(Protocol):
    """A member whose goals are objects in the cells of its grid."""

    def with_goal(self, cell: Int[Array, "2"]) -> Member:
        """Return a copy of the member that has a goal in a cell (column, row)."""
        ...


def check_entropy_names(names: Sequence[str], features: int) -> None:
    """Raise an `InputError` unless there is a name for each feature of a particle, or no name at all."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"entropy_names: {names!r} was given; give a tuple of names, e.g. ('position', 'speed')")
    if names and len(names) != features:
        raise InputError(
            f"entropy_names: {', '.join(map(name_as_text, names))} was given; a particle has {features} "
            f"feature{'s' * (features > 1)}, and each needs one name"
        )
