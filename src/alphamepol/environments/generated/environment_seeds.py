"""The seeds of generated members that are not written in JAX. Worker processes use them, which do not need JAX."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SPREAD = 40_503_019
"""The distance between the seeds of classes whose own seeds follow each other."""


def environment_seed(number: int, class_seed: int, *, test: bool) -> int:
    """Return the seed of a member, below 2³².

    Seeds of the test stream are odd, and those of the training stream even, so that the streams share no member.
    Different numbers of a stream have different seeds.
    """
    return 2 * ((number + SPREAD * class_seed) % 2**31) + test


@dataclass(frozen=True)
class TrainingStream:
    """The function that makes members of the training stream from their numbers."""

    make: Callable[[int], Any]
    class_seed: int

    def __call__(self, number: int) -> Any:
        return self.make(environment_seed(number, self.class_seed, test=False))
