"""The handling of Ctrl-C and SIGTERM, which a cluster sends to pre-empt a job.

Both signals end a run in the same way. They are never lost, and never break a checkpoint.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class RunInterrupted(KeyboardInterrupt):
    """The exception of an interrupted run. The work of the run is saved, and the run can be resumed."""


class Interrupts:
    """A handler that turns signals into KeyboardInterrupt, and remembers them."""

    def __init__(self) -> None:
        self._came = False
        self._held = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if not self._held:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come.

        The exception of a signal may have been lost before: Python ignores exceptions inside a finaliser or callback.
        """
        if self._came:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold signals back while the context lasts. Call `check` afterwards to raise them."""
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
        yield received  # only the main thread receives signals
        return
    handlers = {number: signal.signal(number, received.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    # `check` raises a lost KeyboardInterrupt again, so its traceback need not be shown.
    sys.unraisablehook = lambda lost: None if lost.exc_type is KeyboardInterrupt else hook(lost)
    try:
        yield received
    finally:
        sys.unraisablehook = hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
