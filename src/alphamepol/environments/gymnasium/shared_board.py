"""The board of a fleet, in memory that the main process and the worker processes share."""

import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BoardLayout:
    """The arrays that the workers and the main process share. Rows are stations, but those of `now` are workers."""

    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]

    @classmethod
    def of(cls, observation: int, particle: int, action: tuple[int, ...], stations: int, workers: int) -> "BoardLayout":
        """Return the layout of the board, the actions, and the number of the member that each worker is busy with.

        The arguments are the sizes of an observation and a particle, the shape of an action (empty for a number), and
        the numbers of stations and workers.
        """
        shapes = {
            "observations": (stations, observation),
            "particles": (stations, particle),
            "rewards": (stations,),
            "over": (stations,),
            "cut": (stations,),
            "actions": (stations, *action),
            "now": (workers,),
        }
        types = dict.fromkeys(shapes, "float32") | {"over": "bool", "cut": "bool", "now": "int32"}
        types["actions"] = "float32" if action else "int32"
        return cls(shapes, types)

    def resized(self, stations: int) -> "BoardLayout":
        """Return the layout of the same arrays for another number of stations and one worker."""
        shapes = {name: (stations, *shape[1:]) for name, shape in self.shapes.items()} | {"now": (1,)}
        return BoardLayout(shapes, self.types)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays of zeros that are not shared."""
        return {name: np.zeros(shape, self.types[name]) for name, shape in self.shapes.items()}

    @property
    def size(self) -> int:
        """The bytes of memory that all arrays need."""
        return sum(self._sizes().values())

    def views(self, memory: int) -> dict[str, np.ndarray]:
        """Return the arrays in the memory of an open file, which is given by its number."""
        shared, start, found = mmap.mmap(memory, self.size), 0, {}
        for name, size in self._sizes().items():
            shape, kind = self.shapes[name], np.dtype(self.types[name])
            found[name] = np.frombuffer(shared, kind, math.prod(shape), start).reshape(shape)
            start += size
        return found

    def _sizes(self) -> dict[str, int]:
        """Return the bytes of each array. Every array begins at a multiple of 64."""
        return {
            name: -(-math.prod(shape) * np.dtype(self.types[name]).itemsize // 64) * 64
            for name, shape in self.shapes.items()
        }


class SharedBoard:
    """The arrays of a fleet in shared memory. They have a size once `lay_out` has been called."""

    def __init__(self) -> None:
        self.memory = _open_shared_board()
        """The number of the open file whose memory is shared."""
        self.layout: BoardLayout | None = None
        self.views: dict[str, np.ndarray] = {}
        weakref.finalize(self, os.close, self.memory)

    def lay_out(self, layout: BoardLayout) -> None:
        """Make room for the arrays, which are zero."""
        os.truncate(self.memory, layout.size)
        self.layout, self.views = layout, layout.views(self.memory)

    def now(self, worker: int) -> int:
        """Return the number of the member that a worker is busy with."""
        return int(self.views["now"][worker])


def _open_shared_board() -> int:
    """Return the number of an open, empty file, which processes can share as memory."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("alphamepol")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
