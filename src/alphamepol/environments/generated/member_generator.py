"""The rule by which a generated class draws its members, in two streams that share no member."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from alphamepol.compute.keys import TEST_MEMBERS, TRAINING_MEMBERS
from alphamepol.environments.generated.environment_seeds import environment_seed

MOST_MEMBERS = 2**31 - 1
"""The end of the numbers of members."""


@dataclass(frozen=True)
class MemberGenerator:
    """A function that makes members, and the numbers of the members of both streams.

    The numbers below `shown` are the first members of the test stream. All other numbers are members of the training
    stream. A member is made from its stream and its number, so that the same number always is the same member.
    """

    make: Callable[[Any], Any]
    """The function that makes a member from a random key, or from a seed if members are not written in JAX."""
    seed: int
    shown: int
    """The number of test members that the class shows under names."""
    training: int | None
    """The number of members of the training stream; None if it never ends."""
    host_class: Callable[[Mapping[str, Callable[[], Any]]], Any] | None = field(default=None, compare=False)
    """The function that makes a class of members which are not written in JAX; None if they are."""
    numbered: Callable[[Int[Array, ""]], Any] | None = None
    """The function that returns the member with a number, if `make` cannot be traced but its members can."""

    def __call__(self, number: Int[Array, ""]) -> Any:
        """Return the member with a number, which may be traced."""
        if self.numbered is not None:
            return self.numbered(number)
        stream = jnp.where(number < self.shown, TEST_MEMBERS, TRAINING_MEMBERS)
        return self.make(self._key(stream, number))

    def test_member(self, number: Int[Array, ""]) -> Any:
        """Return a member of the test stream, counted from 0."""
        return self.make(self._key(TEST_MEMBERS, number))

    def training_member(self, number: Int[Array, ""]) -> Any:
        """Return a member of the training stream, counted from 0."""
        return self.make(self._key(TRAINING_MEMBERS, self.shown + number))

    def test_seed(self, number: int) -> int:
        """Return the seed of a member of the test stream that is not written in JAX, counted from 0."""
        return environment_seed(number, self.seed, test=True)

    def training_seed(self, number: int) -> int:
        """Return the seed of a member of the training stream that is not written in JAX, counted from 0."""
        return environment_seed(self.shown + number, self.seed, test=False)

    def environments_of_stream(self, stream: str, count: int) -> dict[str, Callable[[], Any]]:
        """Return functions that make the first members of a stream that are not written in JAX, by their names."""
        seed_of = self.training_seed if stream == "seen" else self.test_seed
        return {f"{stream} {number}": partial(self.make, seed_of(number)) for number in range(count)}

    def draw_numbers(self, count: int, *, key: PRNGKeyArray) -> Int[Array, " count"]:
        """Draw the numbers of `count` members of the training stream, independently and uniformly."""
        end = MOST_MEMBERS if self.training is None else self.shown + self.training
        return jax.random.randint(key, (count,), self.shown, end)

    def _key(self, stream: int | Int[Array, ""], number: Int[Array, ""]) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), stream), number)
