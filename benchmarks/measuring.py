"""Measurements, how they are taken, and the floor with which they are compared."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from alphamepol.reproduction.run_times import product_rate_for_run_times


@dataclass(frozen=True)
class Seconds:
    """The seconds of several rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, rounds: Sequence[float]) -> "Seconds":
        return cls(statistics.median(rounds), min(rounds), max(rounds))


@dataclass(frozen=True)
class Measurement:
    """The time of one part, with its floor on this machine and the times of other libraries, all from one run."""

    name: str
    seconds: Seconds
    floor: float | None = None
    """The seconds that the arithmetic alone, or the memory traffic alone, would take; None if they were not counted."""
    formula: str = ""
    """A sentence on how the floor was counted."""
    peers: dict[str, Seconds] = field(default_factory=dict)
    note: str = ""

    @property
    def share(self) -> float | None:
        """The share of the rate with which the floor was counted: the floor over the median; None without a floor."""
        return None if self.floor is None else self.floor / self.seconds.median

    def to_dict(self) -> dict[str, Any]:
        def spread(seconds: Seconds) -> dict[str, float]:
            return {"median": seconds.median, "least": seconds.least, "most": seconds.most}

        described: dict[str, Any] = {"name": self.name, "seconds": spread(self.seconds)}
        if self.floor is not None:
            described |= {"floor_seconds": self.floor, "floor": self.formula, "share_of_floor": self.share}
        if self.peers:
            described["peers"] = {
                name: spread(peer) | {"times_ours": peer.median / self.seconds.median}
                for name, peer in self.peers.items()
            }
        return described | ({"note": self.note} if self.note else {})


def turn_by_turn(rounds: int, **contestants: Callable[[], Any]) -> dict[str, Seconds]:
    """Measure the seconds of each contestant.

    All contestants take part in every round, so that they run under the same load of the machine. The first round
    compiles and does not count.
    """
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            jax.block_until_ready(contestant())
            if number > 0:
                found[name].append(time.perf_counter() - start)
    return {name: Seconds.of(values) for name, values in found.items()}


def matmul_rate(width: int = 300) -> float:
    """Measure the FLOPs per second of float32 products in the shape of a hidden layer: the best of five rounds."""
    return product_rate_for_run_times(width, products=200, rounds=5)


def bandwidth(megabytes: int = 256) -> float:
    """Measure the bytes per second that adding two arrays reads and writes: the best of five rounds."""
    x = jnp.ones(megabytes * 2**20 // 4)
    add = jax.jit(lambda x, y: x + y)
    return 3 * x.nbytes / turn_by_turn(5, add=lambda: add(x, x))["add"].least


def network_flops(sizes: Sequence[int]) -> float:
    """Return the FLOPs of a forward pass of one row through layers of these widths."""
    return 2.0 * sum(a * b for a, b in pairwise(sizes))
