"""The state of a physical simulation, and the interface of the engines that step it."""

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class PhysicsState(eqx.Module):
    """The state of one simulation, which functions of a MuJoCo class get; or of several, with an axis for rows."""

    qpos: Float[Array, "*rows positions"]
    """The positions of all joints, as MuJoCo orders them."""
    qvel: Float[Array, "*rows velocities"]
    """The velocities of all joints."""
    act: Float[Array, "*rows activations"]
    """The activations of actuators that have a state of their own. Most models have none."""
    sensors: Float[Array, "*rows readings"]
    """The readings of the model's sensors in this state. At the start of an episode, they are those of the start
    without its noise."""
    steps: Int[Array, "*rows"]
    """The number of control steps since the start of the episode."""
    time: Float[Array, "*rows"]
    """The seconds of simulated time since the start of the episode."""


class Moved(eqx.Module):
    """The parts of a state that an engine computes in a control step."""

    qpos: Float[Array, " positions"]
    qvel: Float[Array, " velocities"]
    act: Float[Array, " activations"]
    sensors: Float[Array, " readings"]


def pack_physics_state(state: PhysicsState) -> Float[Array, " numbers"]:
    """Return the numbers that a control step begins with, in one array, because every array of a call costs time."""
    return jnp.concatenate([state.time[None], state.qpos, state.qvel, state.act])


def unpack_moved(moved: Float[Array, " numbers"], state: PhysicsState) -> Moved:
    """Split the numbers that a control step has reached; `state` has the sizes of the parts."""
    nq, nv, na = len(state.qpos), len(state.qvel), len(state.act)
    return Moved(*jnp.split(moved, [nq, nq + nv, nq + nv + na]))


@runtime_checkable
class PhysicsEngine(Protocol):
    """The interface of an engine, which steps simulations of all members of a class.

    An engine is hashed by its identity. `choose_physics_engine` returns the same engine for equal models, so that a
    program that was compiled for one class serves an equal one.
    """

    @property
    def kind(self) -> str:
        """The name of the engine: "cpu" or "gpu"."""
        ...

    @property
    def about(self) -> str:
        """A sentence about where the engine steps the simulations. Commands say it at their start."""
        ...

    def step(self, number: Int[Array, ""], state: PhysicsState, controls: Float[Array, " controls"]) -> Moved:
        """Take one control step in the member of a number. The step is mapped by `vmap`, and all rows step together."""
        ...

    def take_complaints(self) -> "list[tuple[int, str]]":
        """Return what went wrong since the last call: numbers of members, each with a kind of trouble.

        The kinds are the keys of `COMPLAINTS`. Any other text is a sentence itself, about trouble that ends the run.
        """
        ...


COMPLAINTS: dict[str, tuple[bool, str]] = {
    "diverged": (
        True,
        "the simulation diverged, or an action was not a number; look at the policy, or take a smaller time step or "
        "another integrator",
    ),
    "contacts": (
        False,
        "a simulation had more contacts than there was room for, and some were dropped; give the model more memory "
        '(<size memory="…"/>)',
    ),
    "room": (
        False,
        "a simulation had more contacts than there was room for on the GPU, and some were dropped; whenever this "
        "happens, there is room for twice as many from then on",
    ),
    "dropped": (
        False,
        "MuJoCo Warp dropped contacts or readings of sensors for which it has no room; if that matters, step the "
        "class on the CPU (--physics cpu)",
    ),
    "memory": (
        True,
        'a simulation needed more memory than its model gives; give the model more (<size memory="…"/>)',
    ),
}
"""For each kind of trouble, if it ends the run, and a sentence about it."""
