"""Gymnasium environments for tests that start processes, end their process, or return odd observations."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from toys import Walk

from alphamepol.compute.process_tree import ProcessTree

SLEEP = "import time; time.sleep(1000)"


def sleep() -> None:
    time.sleep(1000)


def start_child(kind: str) -> None:
    """Start a process that sleeps, in one of many ways."""
    if kind in ("fork", "spawn", "forkserver"):
        multiprocessing.get_context(kind).Process(target=sleep, daemon=True).start()
    elif kind == "subprocess":
        subprocess.Popen([sys.executable, "-c", SLEEP])
    elif kind == "session":
        subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    elif kind == "system":
        os.system("sleep 1000 &")
    elif os.fork() == 0:
        # A daemon leaves its session, and its parent ends.
        os.setsid()
        if os.fork() == 0:
            sleep()
        os._exit(0)


CHILDREN = ("fork", "spawn", "forkserver", "subprocess", "session", "system", "daemon")


class Parent(Walk):
    """A walk that starts processes when it is made, and does not end them."""

    def __init__(self, *children: str):
        super().__init__()
        for kind in children:
            start_child(kind)


def fail(how: str) -> None:
    """Raise an error, end this process, or never return."""
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        # A function that is called in this way keeps the interpreter's lock, so that no other thread runs.
        ctypes.PyDLL(None).sleep(1000)
    raise ZeroDivisionError("on demand")


class Troubled(Parent):
    """A walk that fails at a place: "make", "reset", "step" or "close". It fails only while the file `where` exists.

    Before it fails it writes the file `where` + "-begun".
    """

    def __init__(self, how: str, place: str, where: str, children: tuple[str, ...] = ()):
        super().__init__(*children)
        self.how, self.at, self.where = how, place, where
        self._maybe_fail("make")

    def reset(self, *, seed=None, options=None):
        self._maybe_fail("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._maybe_fail("step")
        return super().step(action)

    def close(self):
        self._maybe_fail("close")

    def _maybe_fail(self, place: str) -> None:
        if self.at == place and Path(self.where).exists():
            Path(f"{self.where}-begun").touch()
            fail(self.how)


class Unloadable:
    """A function that makes a walk. It cannot be unpickled while the file `where` exists."""

    def __init__(self, how: str, where: str):
        self.how, self.where = how, where

    def __call__(self) -> Walk:
        return Walk()

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__dict__ = state
        if Path(self.where).exists():
            fail(self.how)


class Unspaced(Walk):
    """A walk without an action space."""

    def __init__(self, where: str):
        super().__init__()
        del self.action_space


def start_inner_worker(connection: Connection) -> None:
    """Start a worker of this worker, which neither of them ends."""
    worker = ProcessTree().start(__name__, "say_ready")
    connection.send(worker.answer())
    sleep()


def say_ready(connection: Connection) -> None:
    connection.send("ready")
    sleep()
