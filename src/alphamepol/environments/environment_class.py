"""A class of environments: named members, stacked into one pytree, and the distribution they are drawn from."""

import difflib
import hashlib
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, PRNGKeyArray

from alphamepol.compute.trees import stack_trees, take_from_trees
from alphamepol.environments.cmp import CMP
from alphamepol.errors import InputError
from alphamepol.files.arrays import pack_arrays

AnyMember = TypeVar("AnyMember", bound=CMP)


class EnvironmentClass(eqx.Module, Generic[AnyMember]):
    """Members that share spaces and differ in dynamics, with the probability p_M that each is met.

    `members` is one module whose array fields have a leading axis over the members, so that one compiled program
    serves trajectories of different members side by side. `environment_class["GWN"]` or `environment_class[1]` is
    one member; inside `jit` the number may be traced.

    **Arguments**

    - `members`: name → member; all of one type, with fields of equal shapes and equal spaces.
    - `probabilities`: one per member, summing to 1; uniform if not given.
    - `name`: what reports call the class.
    """

    members: AnyMember
    names: tuple[str, ...] = eqx.field(static=True)
    probabilities: tuple[float, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(
        self, members: Mapping[str, AnyMember], probabilities: Sequence[float] | None = None, name: str = "custom"
    ):
        if not members:
            raise InputError("members: a class needs at least one member")
        self.names = tuple(members)
        self.name = name
        self.members = _stack_members_of_class(members)
        uniform = [1.0 / len(members)] * len(members)
        self.probabilities = check_class_probabilities(uniform if probabilities is None else probabilities, self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, which: str | int | np.integer | Int[Array, ""]) -> AnyMember:
        number = which if isinstance(which, Tracer) else find_member_of_class(which, self.names, self.name)
        return take_from_trees(self.members, number)

    def index(self, name: str) -> int:
        """The number of a member."""
        return find_member_of_class(name, self.names, self.name)

    def with_probabilities(self, probabilities: Sequence[float]) -> "EnvironmentClass[AnyMember]":
        """The same members under another distribution."""
        return EnvironmentClass({name: self[name] for name in self.names}, probabilities, name=self.name)

    def renamed(self, name: str) -> "EnvironmentClass[AnyMember]":
        """The same class under another name."""
        return EnvironmentClass({name: self[name] for name in self.names}, self.probabilities, name=name)

    @property
    def fingerprint(self) -> str:
        """What tells these members from others of the same names: a hash of their parameters."""
        return hashlib.sha256(pack_arrays(self.members, {})).hexdigest()


def find_member_of_class(which: str | int | np.integer | Array, names: Sequence[str], class_name: str) -> int:
    """The number of a member that is given by name or number."""
    if isinstance(which, str):
        if which not in names:
            hint = difflib.get_close_matches(which, names, 1)
            nearest = f"; did you mean {hint[0]!r}?" if hint else ""
            raise InputError(f"member: class {class_name} has no member {which!r}, only {', '.join(names)}{nearest}")
        return names.index(which)
    number = operator.index(which)
    if not 0 <= number < len(names):
        raise InputError(f"member: {number} was given; class {class_name} has members 0 to {len(names) - 1}")
    return number


def draw_members_of_class(probabilities: Sequence[float], count: int, *, key: PRNGKeyArray) -> Int[Array, " count"]:
    """Draw the numbers of `count` members, independently, from p_M."""
    return jax.random.choice(key, len(probabilities), (count,), p=jnp.array(probabilities))


def check_class_probabilities(probabilities: Sequence[float], names: Sequence[str]) -> tuple[float, ...]:
    """Refuse what is not a distribution over the members."""
    given = " ".join(f"{p:g}" for p in probabilities)
    if len(probabilities) != len(names):
        raise InputError(f"probabilities: {given} was given; one number per member is needed ({', '.join(names)})")
    if not all(math.isfinite(p) and p >= 0 for p in probabilities):
        raise InputError(f"probabilities: {given} was given; each must be between 0 and 1")
    if abs(math.fsum(probabilities) - 1.0) > 1e-6:
        raise InputError(f"probabilities: {given} sum to {math.fsum(probabilities):g}; they must sum to 1")
    return tuple(float(p) for p in probabilities)


def _stack_members_of_class(members: Mapping[str, AnyMember]) -> AnyMember:
    (first_name, first), *others = members.items()
    for path, leaf in jax.tree.leaves_with_path(first):
        if not eqx.is_array_like(leaf):
            raise InputError(
                f"members: {first_name!r} has a field {jax.tree_util.keystr(path)} that is no array; declare what is "
                "not a parameter with equinox.field(static=True)"
            )
    for name, member in others:
        if jax.tree.structure(member) != jax.tree.structure(first):
            raise InputError(
                f"members: {name!r} ({type(member).__name__}) and {first_name!r} ({type(first).__name__}) differ in "
                "structure; members of one class must be of one type with the same fields"
            )
        for (path, one), other in zip(jax.tree.leaves_with_path(first), jax.tree.leaves(member), strict=True):
            if jnp.shape(one) != jnp.shape(other):
                raise InputError(
                    f"members: {name!r} and {first_name!r} differ in the shape of {jax.tree_util.keystr(path)}: "
                    f"{jnp.shape(other)} and {jnp.shape(one)}; members of one class must have fields of equal shapes"
                )
        for space in ("observation_space", "action_space"):
            if getattr(member, space) != getattr(first, space):
                raise InputError(
                    f"members: {name!r} and {first_name!r} differ in {space}: "
                    f"{getattr(member, space)} and {getattr(first, space)}"
                )
    return stack_trees(list(members.values()))
