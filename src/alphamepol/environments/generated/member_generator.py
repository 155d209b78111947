"""The rule by which a generated class draws its members, in two streams that share no member."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from alphamepol.compute.keys import TEST_MEMBERS, TRAINING_MEMBERS

MOST_MEMBERS = 2**31 - 1
"""The end of the numbers of members."""


@dataclass(frozen=True)
class MemberGenerator:
    """A function that makes members, and the numbers of the members of both streams.

    The numbers below `shown` are the first members of the test stream. All other numbers are members of the training
    stream. A member is made from its stream and its number, so that the same number always is the same member.
    """

    make: Callable[[PRNGKeyArray], Any]
    """The function that makes a member from a random key."""
    seed: int
    shown: int
    """The number of test members that the class shows under names."""
    training: int | None
    """The number of members of the training stream; None if it never ends."""

    def __call__(self, number: Int[Array, ""]) -> Any:
        """Return the member with a number, which may be traced."""
        stream = jnp.where(number < self.shown, TEST_MEMBERS, TRAINING_MEMBERS)
        return self.make(self._key(stream, number))

    def test_member(self, number: Int[Array, ""]) -> Any:
        """Return a member of the test stream, counted from 0."""
        return self.make(self._key(TEST_MEMBERS, number))

    def training_member(self, number: Int[Array, ""]) -> Any:
        """Return a member of the training stream, counted from 0."""
        return self.make(self._key(TRAINING_MEMBERS, self.shown + number))

    def draw_numbers(self, count: int, *, key: PRNGKeyArray) -> Int[Array, " count"]:
        """Draw the numbers of `count` members of the training stream, independently and uniformly."""
        end = MOST_MEMBERS if self.training is None else self.shown + self.training
        return jax.random.randint(key, (count,), self.shown, end)

    def _key(self, stream: int | Int[Array, ""], number: Int[Array, ""]) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), stream), number)
