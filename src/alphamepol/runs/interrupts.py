"""Ctrl-C and SIGTERM (a cluster's pre-emption) end a run alike, and never get lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Remembers that an interrupt came."""

    def __init__(self) -> None:
        self._came = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise again what was lost: Python ignores exceptions that a signal raises inside a finaliser or callback."""
        if self._came:
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Turn SIGINT and SIGTERM into KeyboardInterrupt while the context lasts."""
    received = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals are the main thread's
        return
    before = {number: signal.signal(number, received.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
