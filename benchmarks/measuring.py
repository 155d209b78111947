"""What a measurement is, how it is taken, and the floor that it is held against."""

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
    """Of several rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, rounds: Sequence[float]) -> "Seconds":
        return cls(statistics.median(rounds), min(rounds), max(rounds))


@dataclass(frozen=True)
class Measurement:
    """How long something takes, beside what the machine allows and what others take, all in one run."""

    name: str
    seconds: Seconds
    floor: float | None = None
    """Seconds that the arithmetic alone would take, or the moving of bytes."""
    formula: str = ""
    """How the floor was counted."""
    peers: dict[str, Seconds] = field(default_factory=dict)
    note: str = ""

    @property
    def share(self) -> float | None:
        """Of the rate that the floor was counted with."""
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
    """Seconds of each, one round after the other so that all meet the same machine, after one that compiles."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            jax.block_until_ready(contestant())
            if number > 0:
                found[name].append(time.perf_counter() - start)
    return {name: Seconds.of(values) for name, values in found.items()}


def matmul_rate(width: int = 300) -> float:
    """FLOPs a second of float32 products in the shape of a hidden layer, at their best of five."""
    return product_rate_for_run_times(width, products=200, rounds=5)


def bandwidth(megabytes: int = 256) -> float:
    """Bytes a second that are read and written by adding two arrays, at its best of five."""
    x = jnp.ones(megabytes * 2**20 // 4)
    add = jax.jit(lambda x, y: x + y)
    return 3 * x.nbytes / turn_by_turn(5, add=lambda: add(x, x))["add"].least


def network_flops(sizes: Sequence[int]) -> float:
    """Of a forward pass of one row through layers of these widths."""
    return 2.0 * sum(a * b for a, b in pairwise(sizes))
