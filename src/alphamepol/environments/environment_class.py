"""A class of environments: named members, stacked into one pytree, and the distribution they are drawn from."""

import dataclasses
import difflib
import hashlib
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, PRNGKeyArray

from alphamepol.compute.trees import stack_trees, take_from_trees
from alphamepol.environments.cmp import CMP
from alphamepol.environments.generated.member_generator import MemberGenerator
from alphamepol.errors import InputError
from alphamepol.files.arrays import pack_arrays
from alphamepol.files.json_files import from_json, to_json
from alphamepol.files.names import WIDTH, name_as_text
from alphamepol.notebooks.views import view
from alphamepol.settings.run import PhysicsKind

AnyMember = TypeVar("AnyMember", bound=CMP)
MANY = 100
"""The most members that one compiled program stacks."""
GENERATED_PARTS: tuple[str, ...] = ("worst tenth", "middle", "best tenth")
"""The parts of a generated class whose entropies metrics report: of its mini-batches, ordered by entropy."""


class EnvironmentClass(eqx.Module, Generic[AnyMember]):
    """A class of environments written in JAX: its members, and the probability p_M of each.

    The members have equal spaces and differ in their dynamics. `environment_class["GWN"]` and `environment_class[1]`
    return one member, and `len(environment_class)` is the number of members. Inside `jit` the number may be a traced
    integer.

    **Arguments**

    - `members`: a dictionary from names to members (`CMP`). All members must be of one type, with fields of equal
      shapes and with equal spaces.
    - `probabilities`: one number per member; they must sum to 1. The default is a uniform distribution.
    - `name`: the name of the class in reports.
    - `generator`: the rule that draws members for training; `generated_class` makes such a class.

    **Raises**

    - `InputError`: if there is no member, if the members cannot be stacked, or if `probabilities` is not a
      distribution over the members.

    **Example**

    ```python
    import alphamepol as am

    members = {"level": am.Gridworld(".."), "steep": am.Gridworld("..", slope="south")}
    slopes = am.EnvironmentClass(members, probabilities=[0.8, 0.2], name="slopes")
    print(slopes.names, slopes.probabilities)  # ('level', 'steep') (0.8, 0.2)
    print(slopes["steep"].action_space)
    ```
    """

    members: AnyMember
    """All members as one module. Its array fields have a leading axis over the members, so that one compiled program
    can step trajectories of different members side by side."""
    names: tuple[str, ...] = eqx.field(static=True)
    """The names of the members, in the order of their numbers."""
    probabilities: tuple[float, ...] = eqx.field(static=True)
    """The distribution p_M: one probability per member."""
    name: str = eqx.field(static=True)
    """The name of the class in reports."""
    generator: MemberGenerator | None = eqx.field(static=True)
    """The rule that draws members for training; None if training draws the named members (`generated_class`)."""

    def __init__(
        self,
        members: Mapping[str, AnyMember],
        probabilities: Sequence[float] | None = None,
        name: str = "custom",
        generator: MemberGenerator | None = None,
    ):
        if not members:
            raise InputError("members: a class needs at least one member")
        self.names = check_member_names(members)
        self.name = name
        self.generator = generator
        self.members = _stack_members_of_class(members)
        uniform = [1.0 / len(members)] * len(members)
        self.probabilities = check_class_probabilities(uniform if probabilities is None else probabilities, self.names)

    def __repr__(self) -> str:
        return repr_of_class(self)

    def _repr_html_(self) -> str:
        return view("class", self)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, which: str | int | np.integer | Int[Array, ""]) -> AnyMember:
        if not isinstance(which, Tracer):
            return take_from_trees(self.members, find_member_of_class(which, self.names, self.name))
        return take_from_trees(self.members, which) if self.generator is None else self.generator(which)

    def index(self, name: str) -> int:
        """Return the number of the member with this name. Raises an `InputError` if there is no such member."""
        return find_member_of_class(name, self.names, self.name)

    def with_probabilities(self, probabilities: Sequence[float]) -> "EnvironmentClass[AnyMember]":
        """Return a class with the same members and other probabilities."""
        if self.generator is not None:
            raise InputError("probabilities: a generated class draws its members itself; leave them out")
        return EnvironmentClass({name: self[name] for name in self.names}, probabilities, name=self.name)

    def with_physics(self, physics: PhysicsKind) -> "EnvironmentClass[AnyMember]":
        """Return a class with the same members, stepped by another engine; see `mujoco_class`."""
        members = self.members.with_physics(physics)
        if members is self.members:
            return self
        if self.generator is not None:
            raise InputError(f"physics: {physics} was given; generated models of MuJoCo are stepped on the CPU")
        return eqx.tree_at(lambda one: one.members, self, members)

    def renamed(self, name: str) -> "EnvironmentClass[AnyMember]":
        """Return the same class under another name."""
        members = {name: self[name] for name in self.names}
        return EnvironmentClass(members, self.probabilities, name=name, generator=self.generator)

    @property
    def distribution(self) -> "tuple[float, ...] | MemberGenerator":
        """The distribution that training draws the numbers of members from (`draw_members_of_class`)."""
        return self.generator or self.probabilities

    @property
    def reported_names(self) -> tuple[str, ...]:
        """The names under which metrics report entropies: those of the members, or of parts of a generated class."""
        return GENERATED_PARTS if self.generator else self.names

    @property
    def fingerprint(self) -> str:
        """The SHA-256 hash of the members' parameters.

        A run that is resumed compares this hash, to notice members that have changed but kept their names.
        """
        # Plain static fields count only if they are not empty, so that a new one does not change the hash of old runs.
        plain = {
            field.name: getattr(self.members, field.name)
            for field in dataclasses.fields(self.members)
            if field.metadata.get("static") and isinstance(getattr(self.members, field.name), bool | int | float | str)
        }
        told = "".join(f" {name}={value!r}" for name, value in plain.items() if value)
        members = self.members
        if self.generator is not None:
            told += f" {self.generator.seed} {self.generator.training}"
            # Devices round the numbers of a generator differently.
            members = jax.tree.map(lambda leaf: jnp.round(leaf, 3) if leaf.dtype.kind == "f" else leaf, members)
        return hashlib.sha256(pack_arrays(members, {}) + told.encode()).hexdigest()


def repr_of_class(environment_class: Any, most: int = 20) -> str:
    """Return a short text about a class: its name, and at most `most` members with their probabilities."""
    pairs = zip(environment_class.names, environment_class.probabilities, strict=True)
    members = [f"{name_as_text(name, WIDTH)}: {probability:g}" for name, probability in pairs]
    more = [f"and {len(members) - most} more"] if len(members) > most else []
    return f"{type(environment_class).__name__}({environment_class.name!r}, {', '.join(members[:most] + more)})"


def check_member_names(members: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of members, or raise an `InputError` if a name is no text that JSON can hold.

    JSON changes numbers into texts, and two halves of a surrogate pair into one character. A run could not find such
    members in its own files.
    """
    for name in members:
        if not isinstance(name, str) or from_json(to_json(name)) != name:
            raise InputError(f"members: {name!r} was given as a name; give a text that JSON can hold")
    return tuple(members)


def list_member_names(names: Sequence[str]) -> str:
    """Return the names of members for a message."""
    return ", ".join(name_as_text(name, WIDTH) for name in names)


def find_member_of_class(which: str | int | np.integer | Array, names: Sequence[str], class_name: str) -> int:
    """Return the number of a member that is given by its name or its number."""
    if isinstance(which, str):
        if which not in names:
            hint = difflib.get_close_matches(which, names, 1)
            nearest = f"; did you mean {hint[0]!r}?" if hint else ""
            known = list_member_names(names)
            raise InputError(f"member: class {class_name} has no member {which!r}, only {known}{nearest}")
        return names.index(which)
    number = operator.index(which)
    if not 0 <= number < len(names):
        raise InputError(f"member: {number} was given; class {class_name} has members 0 to {len(names) - 1}")
    return number


def draw_members_of_class(
    distribution: Sequence[float] | MemberGenerator, count: int, *, key: PRNGKeyArray
) -> Int[Array, " count"]:
    """Draw the numbers of `count` members, independently, from p_M."""
    if isinstance(distribution, MemberGenerator):
        return distribution.draw_numbers(count, key=key)
    return jax.random.choice(key, len(distribution), (count,), p=jnp.array(distribution))


def check_class_probabilities(probabilities: Sequence[float], names: Sequence[str]) -> tuple[float, ...]:
    """Return the probabilities as floats, or raise an `InputError` if they are no distribution over the members."""
    given = " ".join(f"{p:g}" for p in probabilities)
    if len(probabilities) != len(names):
        known = list_member_names(names)
        raise InputError(f"probabilities: {given} was given; one number per member is needed ({known})")
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
                f"members: {first_name!r} has a field {jax.tree_util.keystr(path)} that is not an array; declare "
                "fields that are not parameters with equinox.field(static=True)"
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
                    f"{getattr(member, space)} and {getattr(first, space)}; members of one class must have equal spaces"
                )
    if len(members) > MANY:
        # A compiled program of so many arguments would take long to compile.
        return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(jax.device_get(leaves))), *members.values())
    return stack_trees(list(members.values()))
