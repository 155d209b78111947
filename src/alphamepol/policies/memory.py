"""The memory of a policy: its last action and the effect of this action, and in a recurrent memory earlier steps, too.

A policy that sees only the current observation cannot know which member of a class it is in. The effect of an action
can show it: one step on a slope, one bump into a wall (docs/method.md, "Memory").
"""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

HUGE = 1e9
"""The smallest width of a range that counts as infinite."""
LARGEST = 5.0
"""The largest size of a scaled change or a scaled action. Larger values are clipped."""


class ActionRange(eqx.Module):
    """The actions that an environment applies: one of `choices` actions, or a vector that is clipped to its bounds."""

    choices: int = eqx.field(static=True, default=0)
    """The number of actions to choose from; 0 for vectors."""
    low: tuple[float, ...] = eqx.field(static=True, default=())
    """The lower bound of each component of a vector."""
    high: tuple[float, ...] = eqx.field(static=True, default=())
    """The upper bound of each component of a vector."""

    @property
    def size(self) -> int:
        """The number of components of an action; for choices, their number, because a choice is one-hot."""
        return self.choices or len(self.low)

    @property
    def bounded(self) -> tuple[bool, ...]:
        """True for each component with a finite range, and for each choice."""
        ends = zip(self.low, self.high, strict=True)
        return (True,) * self.choices or tuple(high - low < HUGE for low, high in ends)

    @property
    def half_ranges(self) -> tuple[float, ...]:
        """Half the range of each component; 1 if the range is infinite or zero, and for choices."""
        if self.choices:
            return (1.0,) * self.choices
        halves = [(high - low) / 2 for low, high in zip(self.low, self.high, strict=True)]
        return tuple(half if bounded and half else 1.0 for half, bounded in zip(halves, self.bounded, strict=True))

    @property
    def middles(self) -> tuple[float, ...]:
        """The middle of the range of each component; 0 if the range is infinite, and for choices."""
        ends = zip(self.low, self.high, self.bounded, strict=True)
        return (0.0,) * self.choices or tuple((low + high) / 2 if bounded else 0.0 for low, high, bounded in ends)

    def apply(self, action: Shaped[Array, "..."]) -> Float[Array, " numbers"]:
        """Return the action as the environment applies it, relative to the middle of its range.

        A choice becomes a one-hot vector.
        """
        if self.choices:
            return jax.nn.one_hot(action, self.choices)
        return jnp.clip(action, jnp.array(self.low), jnp.array(self.high)) - jnp.array(self.middles)

    def describe(self) -> dict[str, Any]:
        """Return the range in a form for JSON. Infinite bounds become None, because JSON has no infinity."""
        if self.choices:
            return {"choices": self.choices}
        return {name: [_memory_bound_or_none(bound) for bound in getattr(self, name)] for name in ("low", "high")}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> "ActionRange":
        """Build the range that `describe` has described. Raises TypeError or ValueError on anything else."""
        if not description.keys() <= {"choices", "low", "high"}:
            raise ValueError(f"a range of actions has choices, or low and high; {sorted(description)} was given")
        choices, low, high = description.get("choices", 0), description.get("low", ()), description.get("high", ())
        lowest = tuple(-math.inf if bound is None else float(bound) for bound in low)
        return cls(choices, lowest, tuple(math.inf if bound is None else float(bound) for bound in high))


class Recollection(eqx.Module):
    """The content of a memory, which changes from step to step of an episode."""

    observation: Float[Array, " observation"]
    """The observation of the previous step."""
    action: Float[Array, " numbers"]
    """The action of the previous step, as the environment applied it, and scaled."""
    begun: Bool[Array, ""]
    """True if there was a previous step in the episode."""
    hidden: Float[Array, " units"]
    """The hidden values of a recurrent memory; otherwise empty."""


class Memory(eqx.Module):
    """The memory of a policy, with the scales that bring everything it remembers to order one.

    The memory appends two vectors to an observation: the last change of the observation, and the last action as the
    environment applied it. Both are zero at the first step of an episode. A recurrent memory has a GRU, which takes
    these inputs at every step. The hidden values of the GRU are appended, too.

    Changes are divided by their root mean square. It is measured, because the range of an observation does not tell how
    far one step goes. Actions are divided by half their range, or by their root mean square if the range is infinite.
    """

    change_scale: Float[Array, " observation"]
    """The divisor of changes."""
    action_scale: Float[Array, " numbers"]
    """The divisor of actions."""
    measured_steps: Float[Array, ""]
    """The number of steps on which the scales were measured."""
    recurrence: eqx.nn.GRUCell | None
    """The GRU; None if the memory is not recurrent."""
    actions: ActionRange = eqx.field(static=True)

    def __init__(self, observation_size: int, actions: ActionRange, recurrent_units: int = 0, *, key: PRNGKeyArray):
        """Build a memory without measured scales. It is recurrent if `recurrent_units` is above 0."""
        self.change_scale = jnp.ones(observation_size)
        self.action_scale = jnp.array(actions.half_ranges, float)
        self.measured_steps = jnp.zeros(())
        self.actions = actions
        self.recurrence = eqx.nn.GRUCell(self.inputs, recurrent_units, key=key) if recurrent_units else None

    @property
    def kind(self) -> str:
        return "last" if self.recurrence is None else "recurrent"

    @property
    def inputs(self) -> int:
        """The size of the vector that `perceive` returns."""
        return 2 * self.change_scale.shape[-1] + self.actions.size

    @property
    def units(self) -> int:
        """The number of hidden values."""
        return 0 if self.recurrence is None else self.recurrence.hidden_size

    def begin(self) -> Recollection:
        """Return the recollection before the first step of an episode."""
        nothing = jnp.zeros(self.change_scale.shape), jnp.zeros(self.action_scale.shape), jnp.array(False)
        return Recollection(*nothing, jnp.zeros(self.units))

    def perceive(
        self, observation: Shaped[Array | np.ndarray, " observation"], recollection: Recollection
    ) -> Float[Array, " inputs"]:
        """Return the observation, its scaled last change and the scaled last action, as one vector."""
        observation = jnp.asarray(observation, float)
        change = jnp.where(recollection.begun, (observation - recollection.observation) / self.change_scale, 0.0)
        return jnp.concatenate([observation, jnp.clip(change, -LARGEST, LARGEST), recollection.action])

    def listen(self, inputs: Float[Array, " inputs"], hidden: Float[Array, " units"]) -> Float[Array, " units"]:
        """Return the hidden values after one more step."""
        return hidden if self.recurrence is None else self.recurrence(inputs, hidden)

    def listen_along(
        self, inputs: Float[Array, "time inputs"], starts: Bool[Array, " time"] | None = None
    ) -> Float[Array, "time units"]:
        """Return the hidden values at every step of a trajectory.

        `starts` is True at the first step of each episode. If it is None, the trajectory is one episode.
        """

        def step(hidden: Float[Array, " units"], heard) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
            one, start = heard
            hidden = self.listen(one, hidden if start is None else jnp.where(start, 0.0, hidden))
            return hidden, hidden

        return jax.lax.scan(step, jnp.zeros(self.units), (inputs, starts), unroll=memory_steps_per_turn())[1]

    def remember(
        self,
        observation: Shaped[Array | np.ndarray, " observation"],
        action: Shaped[Array, "..."],
        hidden: Float[Array, " units"],
    ) -> Recollection:
        """Return the recollection after a step from `observation` by `action`."""
        applied = jnp.clip(self.actions.apply(action) / self.action_scale, -LARGEST, LARGEST)
        return Recollection(jnp.asarray(observation, float), applied, jnp.array(True), hidden)

    def measure(
        self,
        perceived: Float[Array, "*trajectories time inputs"],
        actions: Shaped[Array, "..."],
        valid: Bool[Array, "*trajectories time"],
    ) -> "Memory":
        """Return the memory with scales over all steps so far: the earlier ones, and those of these trajectories."""
        observations = perceived[..., : self.change_scale.shape[-1]]
        apply = self.actions.apply
        for _ in valid.shape:
            apply = jax.vmap(apply)
        last = jnp.concatenate([jnp.diff(observations, axis=-2), apply(actions)[..., :-1, :]], axis=-1)
        # Only steps that have a previous step in the trajectory count.
        counted = valid[..., 1:, None]
        squares = jnp.sum(jnp.where(counted, last, 0.0) ** 2, axis=tuple(range(valid.ndim)))
        scale = jnp.concatenate([self.change_scale, self.action_scale])
        steps = self.measured_steps + jnp.sum(counted)
        total = scale**2 * self.measured_steps + squares
        # Actions with a finite range keep half this range as their scale. A component that never changes keeps its
        # previous scale, so that we do not divide by zero.
        given = jnp.array([False] * self.change_scale.shape[-1] + [*self.actions.bounded]) | (total <= 0)
        scale = jnp.where(given, scale, jnp.sqrt(jnp.where(given, 1.0, total) / jnp.maximum(steps, 1.0)))
        size = self.change_scale.shape[-1]
        return eqx.tree_at(
            lambda memory: (memory.change_scale, memory.action_scale, memory.measured_steps),
            self,
            (scale[:size], scale[size:], steps),
        )


def _memory_bound_or_none(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def memory_steps_per_turn() -> int:
    """Return the number of recurrent steps in one pass of a compiled loop.

    On an accelerator, a pass of the loop costs more than the computation inside it.
    """
    return 1 if jax.default_backend() == "cpu" else 8
