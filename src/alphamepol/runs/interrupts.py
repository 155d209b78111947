"""Ctrl-C and SIGTERM (a cluster's pre-emption) end a run alike, never get lost, and never break a checkpoint."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted; what it had done is saved, and it can be resumed."""


class Interrupts:
    """Turns signals into KeyboardInterrupt, and remembers them."""

    def __init__(self) -> None:
        self._came = False
        self._held = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if not self._held:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise again what was lost: Python ignores exceptions that a signal raises inside a finaliser or callback."""
        if self._came:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing interrupt; `check` tells afterwards."""
        self._held = True
        try:
            yield
        finally:
            self._held = False


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Listen to SIGINT and SIGTERM while the context lasts."""
    received = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals are the main thread's
        return
    handlers = {number: signal.signal(number, received.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    # `check` takes care of those; no need to show a traceback.
    sys.unraisablehook = lambda lost: None if lost.exc_type is KeyboardInterrupt else hook(lost)
    try:
        yield received
    finally:
        sys.unraisablehook = hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
