"""A stopwatch for the phases of a run. Compilation is counted separately, not in the phase that waits for it."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jax import monitoring

SAMPLING, NEIGHBOURS, LEARNING = "sampling", "neighbours", "learning"
DIAGNOSTICS, EVALUATION, COMPILATION = "diagnostics", "evaluation", "compilation"
_compiling = 0.0


def _add_compilation_to_stopwatch(event: str, duration_secs: float, **_: Any) -> None:
    global _compiling
    # Tracing is left out: its events are nested and would be counted twice.
    if event in ("/jax/core/compile/backend_compile_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration"):
        _compiling += duration_secs


monitoring.register_event_duration_secs_listener(_add_compilation_to_stopwatch)


class Stopwatch:
    """A stopwatch that adds up the seconds of named phases.

    The constructor takes the names of the phases that a step of the work consists of. Other phases, such as evaluation,
    are counted besides. Compilation has its own entry, in whichever phase it happens.
    """

    def __init__(self, *phases: str) -> None:
        self.phases = phases
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._start, self._compiled = time.perf_counter(), _compiling
        self._total_before = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start, compiled = time.perf_counter(), _compiling
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start - (_compiling - compiled)

    def lap(self) -> Callable[[], dict[str, float]]:
        """Start a lap, and return a function that gives the seconds of each phase since then."""
        start = dict(self.seconds)
        return lambda: {name: self.seconds[name] - start.get(name, 0.0) for name in self.phases}

    def so_far(self) -> dict[str, float]:
        """Return the seconds per phase and in total, including those of earlier parts of the run."""
        total = self._total_before + time.perf_counter() - self._start
        compilation = self.seconds[COMPILATION] + _compiling - self._compiled
        named = (*self.phases, *(name for name in (DIAGNOSTICS, EVALUATION) if name in self.seconds))
        return {name: self.seconds[name] for name in named} | {COMPILATION: compilation, "total": total}

    @property
    def working(self) -> float:
        """The seconds of the phases of the work, without evaluation and compilation."""
        return sum(self.seconds[name] for name in self.phases)

    def add(self, earlier: dict[str, float]) -> None:
        """Add the seconds of an earlier part of the run, as `so_far` returned them."""
        self._total_before += earlier["total"]
        for name in earlier.keys() - {"total"}:
            self.seconds[name] += earlier[name]
