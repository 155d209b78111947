"""Classes whose members are drawn by a generator: every mini-batch of training meets a new member."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, overload

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from alphamepol.environments.cmp import CMP
from alphamepol.environments.environment_class import EnvironmentClass
from alphamepol.environments.generated.member_generator import MOST_MEMBERS, MemberGenerator
from alphamepol.environments.gymnasium.gymnasium_class import build_gymnasium_class
from alphamepol.environments.host import AnyClass, HostClass
from alphamepol.errors import InputError

SHOWN = 20
"""The number of test members that a class shows by default."""
MOST_SHOWN = 1000
OPTIONS = {
    "jax": set(),
    "gymnasium": {"entropy_on", "entropy_names", "endless", "workers", "copies"},
    "mujoco": {
        *("frame_skip", "entropy_on", "entropy_names", "observation", "ended", "position_noise", "velocity_noise"),
        "tasks",
    },
}
"""For each kind of members, the arguments of `gymnasium_class` or `mujoco_class` that a generated class has, too."""


@overload
def generated_class(
    make_member: Callable[[PRNGKeyArray], CMP],
    *,
    training: int | None = None,
    shown: int = SHOWN,
    seed: int = 0,
    name: str = "generated",
    kind: Literal["jax"] = "jax",
) -> EnvironmentClass[Any]: ...
@overload
def generated_class(
    make_member: Callable[[int], Any],
    *,
    training: int | None = None,
    shown: int = SHOWN,
    seed: int = 0,
    name: str = "generated",
    kind: Literal["mujoco"],
    **options: Any,
) -> EnvironmentClass[Any]: ...
@overload
def generated_class(
    make_member: Callable[[int], gymnasium.Env],
    *,
    training: int | None = None,
    shown: int = SHOWN,
    seed: int = 0,
    name: str = "generated",
    kind: Literal["gymnasium"],
    **options: Any,
) -> HostClass: ...
def generated_class(
    make_member: Callable[[Any], Any],
    *,
    training: int | None = None,
    shown: int = SHOWN,
    seed: int = 0,
    name: str = "generated",
    kind: str = "jax",
    **options: Any,
) -> AnyClass:
    """Make a class whose members are drawn by a function of your own.

    The distribution p_M of the class is that of the function. Training draws a new member for every mini-batch, so that
    the class is infinite. Members for evaluation come from a second stream, which shares no member with the first: no
    policy has been trained on them. They are the named members of the class, "unseen 0", "unseen 1" and so on, which
    `evaluate`, `finetune` and all figures use.

    **Arguments**

    - `make_member`: a function that returns a member. With `kind="jax"` it gets a random key and returns a `CMP`. It
      must be traceable by JAX, and all its members must have the same type and fields of the same shapes. With
      `kind="gymnasium"` it gets a whole number below 2³², which determines the member, and returns a Gymnasium
      environment. All environments must have equal spaces. Worker processes make and step them. With `kind="mujoco"`
      it gets such a number, too, and returns a model, as the members of `mujoco_class` are given. All models must have
      the same structure. They are stepped on the CPU.
    - `training`: the number of members to train on. None (the default) is an infinite stream.
    - `shown`: the number of unseen members that have names. `evaluate` can draw more of them.
    - `seed`: the seed of both streams.
    - `name`: the name of the class in reports.
    - `kind`: the kind of members, `"jax"`, `"gymnasium"` or `"mujoco"`.
    - `options`: for Gymnasium environments, the arguments `entropy_on`, `entropy_names`, `endless`, `workers` and
      `copies` of `gymnasium_class`; for MuJoCo models, the arguments of `mujoco_class` from `frame_skip` to `tasks`.

    **Returns**

    The class.

    **Raises**

    - `InputError`: if the function fails, cannot be compiled, or returns something else than a member; if its members
      cannot be stacked; or if an argument is not allowed.

    **Example**

    ```python
    import alphamepol as am
    import equinox as eqx
    import jax

    room = am.Gridworld("..", slope="south")


    def make_member(key):
        steepness = jax.random.uniform(key, maxval=0.1)
        return eqx.tree_at(lambda member: member.slope_mean, room, steepness)


    slopes = am.generated_class(make_member, shown=3, name="slopes")
    print(slopes.names)  # ('unseen 0', 'unseen 1', 'unseen 2')
    ```
    """
    for field, value, least, most in (("shown", shown, 1, MOST_SHOWN), ("training", training, 1, MOST_MEMBERS // 2)):
        if value is not None and not (isinstance(value, int) and least <= value <= most):
            raise InputError(f"{field}: {value!r} was given; it must be a whole number from {least} to {most}")
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed: {seed!r} was given; it must be a whole number from 0 to 2³² − 1")
    if kind not in OPTIONS:
        raise InputError(f"kind: {kind!r} was given; it must be jax, gymnasium or mujoco")
    if unknown := sorted(options.keys() - OPTIONS[kind]):
        raise InputError(f"{unknown[0]}: it is not an argument for members of the kind {kind}")
    if kind == "mujoco":
        from alphamepol.environments.generated.mujoco_stream import generated_mujoco_class

        return generated_mujoco_class(make_member, training=training, shown=shown, seed=seed, name=name, **options)
    if kind == "gymnasium":
        host_class = partial(build_gymnasium_class, name=name, **options)
        generator = MemberGenerator(make_member, seed, shown, training, host_class)
        return host_class(generator.environments_of_stream("unseen", shown), generator=generator)
    generator = MemberGenerator(make_member, seed, shown, training)
    members = _make_generated_members(generator.test_member, shown)
    return EnvironmentClass(
        {f"unseen {number}": member for number, member in enumerate(members)}, name=name, generator=generator
    )


def class_of_shown_members(environment_class: AnyClass, which: str) -> AnyClass:
    """Return the class with the members that an evaluation asks for.

    `which` is "unseen" for the named members, "200" or "unseen:200" for so many unseen members, "seen" for as many
    members of the training stream as have names, or "seen:200" for so many. A class that is not generated has "unseen"
    only, and stays as it is.
    """
    generator, which = environment_class.generator, str(which)
    if which == "unseen":
        return environment_class
    if generator is None:
        raise InputError(f"members: {which!r} was given; only a generated class has members to choose from")
    stream, _, number = (f"unseen:{which}" if which.isdecimal() else which).partition(":")
    count = int(number[:9]) if number.isdecimal() else 0 if number else generator.shown
    if stream not in ("seen", "unseen") or not 1 <= count <= MOST_SHOWN:
        raise InputError(
            f"members: {which!r} was given; it must be unseen, seen, a number up to {MOST_SHOWN}, seen:200 or the like"
        )
    if stream == "seen":
        count = min(count, generator.training or count)
    if generator.host_class is not None:
        return generator.host_class(generator.environments_of_stream(stream, count)).renamed(environment_class.name)
    make = generator.training_member if stream == "seen" else generator.test_member
    members = _make_generated_members(make, count)
    return EnvironmentClass({f"{stream} {i}": member for i, member in enumerate(members)}, name=environment_class.name)


def _make_generated_members(make: Callable[..., CMP], count: int) -> list[CMP]:
    """Return the first members of a stream. Raises an `InputError` if they cannot be made."""
    try:
        stacked = jax.jit(jax.vmap(make))(jnp.arange(count))
    except InputError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines() or [""]
        raise InputError(
            f"make_member: it failed, or JAX cannot compile it ({type(error).__name__}: {first[0][:300]})"
        ) from error
    if not isinstance(stacked, CMP):
        raise InputError(f"make_member: it returned {type(stacked).__name__}; it must return a member (alphamepol.CMP)")
    return [jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(count)]
