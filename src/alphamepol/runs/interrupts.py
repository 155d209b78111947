"""The handling of Ctrl-C and SIGTERM, which a cluster sends to pre-empt a job.

Both signals end a run in the same way. They are never lost, and never break a checkpoint.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from alphamepol.files.atomic import writing_files


class RunInterrupted(KeyboardInterrupt):
    """The exception of an interrupted run. The work of the run is saved, and the run can be resumed."""


class Interrupts:
    """A handler that turns signals into KeyboardInterrupt, and remembers them.

    Only the first signal raises. A second one must not cut short the saving that the first one has begun.
    """

    def __init__(self) -> None:
        self._came = False
        self._raised = False
        self._held = False
        self.save: Callable[[], None] = lambda: None
        """Saves the finished steps of the loop that is running. Any thread may call it."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if not (self._held or self._raised):
            self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come.

        The exception of a signal may have been lost before: Python ignores exceptions inside a finaliser or callback.
        """
        if self._came:
            self._raised = True
            raise KeyboardInterrupt

    def forgive_lost_exceptions(self) -> None:
        """Show no traceback of a KeyboardInterrupt that Python ignores; `check` or the next signal raises it again."""
        before = sys.unraisablehook

        def hook(lost: "sys.UnraisableHookArgs") -> None:
            if lost.exc_type is KeyboardInterrupt:
                self._raised = False
            else:
                before(lost)

        sys.unraisablehook = hook

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold signals back while the context lasts. Call `check` afterwards to raise them."""
        self._held = True
        try:
            with writing_files:
                yield
        finally:
            self._held = False

    @contextmanager
    def saving_with(self, save: Callable[[], None]) -> Iterator[None]:
        """Let `save` save the finished steps while the context lasts."""
        self.save = save
        try:
            yield
        finally:
            self.save = lambda: None


_listening: Interrupts | None = None


def listening_interrupts() -> Interrupts | None:
    """Return the interrupts of the run that is going on in the main thread; None if there is no such run."""
    return _listening


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Listen to SIGINT and SIGTERM while the context lasts. An interrupt leaves the context as `RunInterrupted`.

    A context inside another one has the same interrupts.
    """
    try:
        if threading.current_thread() is not threading.main_thread():
            yield Interrupts()  # only the main thread receives signals
        elif _listening is not None:
            yield _listening
        else:
            with _installed_interrupts() as received:
                yield received
    except KeyboardInterrupt as interrupt:
        raise RunInterrupted from interrupt


@contextmanager
def _installed_interrupts() -> Iterator[Interrupts]:
    global _listening
    received = Interrupts()
    handlers = {number: signal.signal(number, received.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    received.forgive_lost_exceptions()
    _listening = received
    try:
        yield received
    finally:
        _listening = None
        sys.unraisablehook = hook
        for number, handler in handlers.items():
            signal.signal(number, handler)
