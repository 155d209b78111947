"""Test that no interrupt is lost, even if Python swallows its exception."""

import contextlib
import os
import signal

import pytest

from alphamepol.runs.interrupts import RunInterrupted, interrupts, listening_interrupts

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_at_once_and_the_old_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupts():
        os.kill(os.getpid(), number)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_swallowed_interrupt_is_raised_at_the_next_check() -> None:
    with interrupts() as received:
        received.check()
        with contextlib.suppress(KeyboardInterrupt):  # as Python does inside a finaliser
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            received.check()


def test_nothing_interrupts_what_is_held() -> None:
    with interrupts() as received:
        with received.held():
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            received.check()


def test_a_second_signal_does_not_cut_short_what_the_first_one_began() -> None:
    saved = []

    def stop_and_save() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            saved.append(True)

    with pytest.raises(RunInterrupted), interrupts():
        stop_and_save()
    assert saved


def test_after_a_lost_exception_the_next_signal_raises() -> None:
    class Finalised:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with interrupts() as received:
        Finalised()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert listening_interrupts() is received
        with interrupts() as inner:
            assert inner is received
    assert listening_interrupts() is None
