"""What a policy remembers: what the last action was and what it did, and, if it is recurrent, more than that.

A policy that sees only the current observation cannot know which member of a class it is in. What an action did
tells: one step on a slope, one bump into a wall (docs/method.md, "Memory").
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
"""From here on a range is as good as infinite."""
LARGEST = 5.0
"""Where changes and actions of unusual size are cut off, once scaled."""


class ActionRange(eqx.Module):
    """The actions that an environment applies: one of `choices`, or vectors, which it clips to their bounds."""

    choices: int = eqx.field(static=True, default=0)
    """How many; 0 for vectors."""
    low: tuple[float, ...] = eqx.field(static=True, default=())
    high: tuple[float, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        """How many numbers describe an action."""
        return self.choices or len(self.low)

    @property
    def bounded(self) -> tuple[bool, ...]:
        """Which of these numbers have a range that tells something of their size."""
        ends = zip(self.low, self.high, strict=True)
        return (True,) * self.choices or tuple(high - low < HUGE for low, high in ends)

    @property
    def half_ranges(self) -> tuple[float, ...]:
        """Half the range of each; 1 where there is none."""
        if self.choices:
            return (1.0,) * self.choices
        halves = [(high - low) / 2 for low, high in zip(self.low, self.high, strict=True)]
        return tuple(half if bounded and half else 1.0 for half, bounded in zip(halves, self.bounded, strict=True))

    @property
    def middles(self) -> tuple[float, ...]:
        """The middle of the range of each; 0 where there is none."""
        ends = zip(self.low, self.high, self.bounded, strict=True)
        return (0.0,) * self.choices or tuple((low + high) / 2 if bounded else 0.0 for low, high, bounded in ends)

    def apply(self, action: Shaped[Array, "..."]) -> Float[Array, " numbers"]:
        """The action as the environment applies it, from the middle of its range; one-hot if it is a choice."""
        if self.choices:
            return jax.nn.one_hot(action, self.choices)
        return jnp.clip(action, jnp.array(self.low), jnp.array(self.high)) - jnp.array(self.middles)

    def describe(self) -> dict[str, Any]:
        """As JSON can hold it, which knows no infinity."""
        if self.choices:
            return {"choices": self.choices}
        return {name: [_memory_bound_or_none(bound) for bound in getattr(self, name)] for name in ("low", "high")}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> "ActionRange":
        """The inverse of `describe`. Raises TypeError or ValueError on anything else."""
        if not description.keys() <= {"choices", "low", "high"}:
            raise ValueError(f"a range of actions has choices, or low and high, and no {sorted(description)}")
        choices, low, high = description.get("choices", 0), description.get("low", ()), description.get("high", ())
        lowest = tuple(-math.inf if bound is None else float(bound) for bound in low)
        return cls(choices, lowest, tuple(math.inf if bound is None else float(bound) for bound in high))


class Recollection(eqx.Module):
    """What is carried from step to step of an episode."""

    observation: Float[Array, " observation"]
    """The one before."""
    action: Float[Array, " numbers"]
    """The last one, as applied and scaled."""
    begun: Bool[Array, ""]
    """Whether there was a step before."""
    hidden: Float[Array, " units"]


class Memory(eqx.Module):
    """What is remembered, and how it is scaled to order one.

    To an observation are appended its last change and the last action as the environment applied it, both zero at
    the first step of an episode. A `recurrence` hears all that at every step, and its hidden values are appended, too.

    Changes are divided by their root mean square, which is measured: the range of an observation does not tell how far
    one step goes. Actions are divided by half their range, or, where that is infinite, by their root mean square.
    """

    change_scale: Float[Array, " observation"]
    action_scale: Float[Array, " numbers"]
    measured_steps: Float[Array, ""]
    """How many steps were measured."""
    recurrence: eqx.nn.GRUCell | None
    actions: ActionRange = eqx.field(static=True)

    def __init__(self, observation_size: int, actions: ActionRange, recurrent_units: int = 0, *, key: PRNGKeyArray):
        """Nothing is measured yet; without `recurrent_units` there is no recurrence."""
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
        """How many numbers `perceive` gives."""
        return 2 * self.change_scale.shape[-1] + self.actions.size

    @property
    def units(self) -> int:
        """How many hidden values there are."""
        return 0 if self.recurrence is None else self.recurrence.hidden_size

    def begin(self) -> Recollection:
        """Before the first step of an episode."""
        nothing = jnp.zeros(self.change_scale.shape), jnp.zeros(self.action_scale.shape), jnp.array(False)
        return Recollection(*nothing, jnp.zeros(self.units))

    def perceive(
        self, observation: Shaped[Array | np.ndarray, " observation"], recollection: Recollection
    ) -> Float[Array, " inputs"]:
        """The observation, its last change and the last action."""
        observation = jnp.asarray(observation, float)
        change = jnp.where(recollection.begun, (observation - recollection.observation) / self.change_scale, 0.0)
        return jnp.concatenate([observation, jnp.clip(change, -LARGEST, LARGEST), recollection.action])

    def listen(self, inputs: Float[Array, " inputs"], hidden: Float[Array, " units"]) -> Float[Array, " units"]:
        """The hidden values after one more step."""
        return hidden if self.recurrence is None else self.recurrence(inputs, hidden)

    def listen_along(
        self, inputs: Float[Array, "time inputs"], starts: Bool[Array, " time"] | None = None
    ) -> Float[Array, "time units"]:
        """The hidden values at every step of a trajectory; `starts` says where an episode begins."""

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
        """After a step from `observation` by `action`."""
        applied = jnp.clip(self.actions.apply(action) / self.action_scale, -LARGEST, LARGEST)
        return Recollection(jnp.asarray(observation, float), applied, jnp.array(True), hidden)

    def measure(
        self,
        perceived: Float[Array, "*trajectories time inputs"],
        actions: Shaped[Array, "..."],
        valid: Bool[Array, "*trajectories time"],
    ) -> "Memory":
        """Take the steps of trajectories into the scales, which are over all steps so far."""
        observations = perceived[..., : self.change_scale.shape[-1]]
        apply = self.actions.apply
        for _ in valid.shape:
            apply = jax.vmap(apply)
        last = jnp.concatenate([jnp.diff(observations, axis=-2), apply(actions)[..., :-1, :]], axis=-1)
        # A step whose last one is within the trajectory.
        counted = valid[..., 1:, None]
        squares = jnp.sum(jnp.where(counted, last, 0.0) ** 2, axis=tuple(range(valid.ndim)))
        scale = jnp.concatenate([self.change_scale, self.action_scale])
        steps = self.measured_steps + jnp.sum(counted)
        total = scale**2 * self.measured_steps + squares
        # What never moves has no size, and divides by what it did before.
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
    """Steps of a recurrence per turn of its loop: on an accelerator turns cost more than what is done in them."""
    return 1 if jax.default_backend() == "cpu" else 8
